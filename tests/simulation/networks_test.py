#!/usr/bin/env python3
"""coppice-sim on networks of switches. Usage: networks_test.py COPPICE_SIM"""

import json
import pathlib
import re
import subprocess
import sys
import unittest

COMMAND = None


def sim(*arguments):
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=250)


class Placement(unittest.TestCase):
    def test_a_dead_leaf_or_pod_is_a_gap_of_one(self):
        done = sim("placement", "--network", "fattree:64", "--dead-leaves", "all", "--dead-pods", "all")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("65536 hosts, 2048 leaves, 64 pods", done.stdout)
        self.assertRegex(done.stdout, r"one leaf +2048 +1 +100\.0000 %")
        self.assertRegex(done.stdout, r"one pod +64 +1 +100\.0000 %")
        self.assertRegex(done.stdout, r"two leaves +2096128 +3 +99\.0715 %")

    def test_in_the_order_of_ranks_it_is_a_long_one(self):
        done = sim("placement", "--network", "fattree:64", "--dead-leaves", "all", "--no-pairs", "--placement", "ranked", "--at-most", "1")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"one leaf +2048 +32 ")

    def test_two_leaves_as_csv(self):
        done = sim("placement", "--network", "fattree:8:2", "--dead-leaves", "1,2,5", "--format", "csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"fattree:8:2,ours,binomial,two leaves,3,\d+,[01]\.\d+")

    def test_refused(self):
        for words in (["--network", "torus:4"], ["--network", "fattree:5"], ["--dead-leaves", "32"], ["--dead-pods", "1,x"],
                      ["--root", "100000"], ["--placement", "best"], ["--tree", "no-tree"]):
            done = sim("placement", *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertTrue(done.stderr, words)


class Network(unittest.TestCase):
    def run_once(self, *words):
        done = sim("broadcast", "--network", "fattree:64", *words, "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_a_tree_of_trees_keeps_off_the_up_links(self):
        words = ("--tree", "lame:2", "--correction", "opportunistic:1")
        ranked = self.run_once("--placement", "ranked", *words)
        ours = self.run_once("--placement", "ours", *words)
        self.assertEqual(ours["ranks"], 65536)
        self.assertLess(ours["up_link_messages"], 0.2 * ranked["up_link_messages"])
        self.assertLess(ours["coloring_latency"], 0.8 * ranked["coloring_latency"])

    def test_a_dead_leaf_holds_nobody_up(self):
        words = ("--correction", "opportunistic:1", "--dead-leaf", "17")
        ranked = self.run_once("--placement", "ranked", *words)
        ours = self.run_once("--placement", "ours", *words)
        self.assertEqual((ours["failed"], ours["unreached"], ours["g_max"]), (32, 0, 1))
        self.assertEqual(ranked["g_max"], 32)
        by_leaf = self.run_once("--placement", "leaf-by-leaf", *words)
        self.assertEqual((by_leaf["failed"], by_leaf["unreached"]), (32, 0))
        self.assertGreater(by_leaf["g_max"], 1)
        self.assertLess(ours["coloring_latency"], ranked["coloring_latency"] / 2)

    def test_ranks_are_ranks_wherever_they_stand(self):
        for placement in ("ranked", "random", "leaf-by-leaf", "ours"):
            done = sim("broadcast", "--network", "fattree:4", "--placement", placement, "--tree", "lame:2", "--correction", "none",
                       "--failed", "1", "--dead-leaf", "3", "--conversation")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(set(re.findall(r"vanish +\d+ -> (\d+)", done.stdout)) - {"1", "6", "7"}, set(), placement)

    # Each level's tree by its own positions: 4 hosts of a leaf, 4 leaves of a pod and 8 pods of fattree:8 are stars.
    def test_ours_takes_what_groups_take_at_each_level(self):
        def ours(*words):
            done = sim("broadcast", "--network", "fattree:8", "--placement", "ours", "--dead-leaf", "3", *words, "--format", "json")
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)
        self.assertEqual(ours(), ours("--tree", "star", "--correction", "opportunistic:2"))
        self.assertNotEqual(ours(), ours("--tree", "binomial"))

    def test_few_hosts_stand_leaf_by_leaf_under_a_star(self):
        done = sim("broadcast", "--network", "fattree:4", "--placement", "leaf-by-leaf", "--format", "json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["unreached"]), (0, 0), done.stderr)

    def test_a_fabric_from_a_file(self):
        fabric = pathlib.Path(__file__).resolve().parent.parent / "data" / "fattree-k8.ibnet"
        done = sim("broadcast", "--network", str(fabric), "--placement", "ours", "--dead-leaf", "3", "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        run = json.loads(done.stdout)
        self.assertEqual((run["ranks"], run["failed"], run["unreached"], run["g_max"]), (128, 4, 0, 1))

    def test_the_root_moves_away_from_a_dead_leaf(self):
        run = self.run_once("--placement", "ours", "--dead-leaf", "0,1")
        self.assertEqual((run["failed"], run["unreached"]), (64, 0))

    def test_refused(self):
        for words in (["--network", "fattree:7"], ["--network", "no-such-file"], ["--placement", "ours"], ["--dead-leaf", "1"],
                      ["--network", "fattree:4", "--ranks", "17"], ["--network", "fattree:4", "--latency", "3"],
                      ["--network", "fattree:4", "--dead-leaf", "8"], ["--network", "fattree:4", "--dead-pod", "all"],
                      ["--network", "fattree:4", "--latencies", "3,2,1"], ["--network", "fattree:4", "--algorithm", "big"],
                      ["--network", "fattree:4", "--placement", "ours", "--correction", "checked"],
                      ["--network", "fattree:4", "--placement", "ours", "--correction", "optimized:2:one-directional"],
                      ["--network", "fattree:4", "--placement", "ours", "--correction", "optimized-paper:2"]):
            done = sim("broadcast", *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertTrue(done.stderr, words)


class AgreeOnNetworks(unittest.TestCase):
    # 128 hosts, four on each of 32 leaves, four of which are a pod.
    NETWORK = ("agree", "--network", "fattree:8")

    def ups(self, *words):
        done = sim(*self.NETWORK, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return tuple(map(int, re.search(r"over up-links of leaves (\d+), of these over up-links of pods (\d+)$", done.stdout.strip()).groups()))

    def test_ours_enters_each_switch_once_each_way(self):
        for tree in ("binary", "binomial", "bin/binary/star/bin"):
            self.assertEqual(self.ups("--placement", "ours", "--tree", tree), (2 * 31, 2 * 7), tree)

    def test_others_cross_switches_more_often(self):
        for placement, least in (("ranked", 31), ("random", 100), ("leaf-by-leaf", 31)):
            leaves, pods = self.ups("--placement", placement)
            self.assertGreaterEqual(leaves, 2 * least, placement)
            self.assertLessEqual(leaves, 2 * 127, placement)
            self.assertGreater(pods, 2 * 7, placement)

    def test_the_living_agree_when_a_leaf_is_dead(self):
        for placement in ("ranked", "random", "leaf-by-leaf", "ours"):
            done = sim(*self.NETWORK, "--placement", placement, "--dead-leaf", "0,3", "--at", "5", "--notice-after", "50", "--agreements", "2")
            self.assertEqual(done.returncode, 0, done.stderr)
            for line in done.stdout.splitlines()[2:4]:
                self.assertRegex(line, r" 120$", placement)

    def test_refused(self):
        for words in (["--network", "fattree:8", "--ranks-per-host", "2"], ["--network", "fattree:8", "--latency", "3"], ["--placement", "ours"],
                      ["--network", "fattree:8", "--tree", "bin/bin"], ["--network", "fattree:8", "--victims", "host"],
                      ["--network", "fattree:8", "--algorithm", "allreduce-hosts"], ["--network", "fattree:8", "--ranks", "129"],
                      ["--network", "fattree:8", "--algorithm", "allreduce-doubling", "--dead-leaf", "1"]):
            done = sim("agree", *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertTrue(done.stderr, words)


if __name__ == "__main__":
    COMMAND = sys.argv.pop(1)
    unittest.main()
