"""coppice-info as its users see it. Usage: info_test.py COPPICE_INFO COPPICE_RUN"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

INFO, RUN = (os.path.abspath(path) for path in sys.argv[1:3])
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def command(arguments, **variables):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("COPPICE_")}
    return subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=120, env=clean | variables)


def facts(**variables):
    done = command([INFO, "--json"], **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Facts(unittest.TestCase):
    def test_every_transport_is_told_of_with_why_it_cannot_be_used(self):
        transports = {one["name"]: one for one in facts()["transports"]}
        self.assertEqual(set(transports), {"shm", "verbs", "ucx", "tcp"})
        self.assertTrue(transports["shm"]["usable"])
        self.assertGreaterEqual(transports["shm"]["eager_bytes"], 8192)
        for one in transports.values():
            self.assertEqual(one["usable"], one["why"] == "", one)

    def test_settings_come_with_where_they_are_from(self):
        settings = {one["variable"]: one for one in facts(COPPICE_TREE="kary:3")["settings"]}
        self.assertEqual(settings["COPPICE_TREE"]["value"], "kary:3")
        self.assertEqual(settings["COPPICE_TREE"]["from"], "environment")
        self.assertEqual(settings["COPPICE_TREE"]["default"], "auto")
        self.assertEqual(settings["COPPICE_WINDOW"]["from"], "default")
        for one in settings.values():
            self.assertTrue(one["meaning"], one)

    def test_the_threads_that_may_be_used_are_those_of_the_affinity(self):
        machine = facts()["machine"]
        self.assertEqual(machine["threads_allowed"], len(os.sched_getaffinity(0)))
        self.assertGreaterEqual(machine["threads"], machine["threads_allowed"])

    def test_variables_that_are_no_settings_are_named(self):
        self.assertIn("COPPICE_TREES", facts(COPPICE_TREES="star")["unknown_variables"])
        self.assertIn("COPPICE_TREES is set", command([INFO], COPPICE_TREES="star").stdout)

    def test_the_launcher_is_a_witness_for_the_quorum(self):
        quorum = json.loads(command([RUN, "-n", "1", INFO, "--json"]).stdout)["quorum"]
        self.assertIn("coppice-run, for the end of every rank's process", quorum["witness"])
        self.assertIn("by a cut", quorum["gives_up"])

    def test_what_the_quorum_gives_up_where_there_is_no_witness(self):
        for settings, setting, witness, given_up in (
                ({"COPPICE_QUORUM": "any"}, "any", "none is asked", "both sides of a network that is cut go on"),
                ({"COPPICE_QUORUM": "majority"}, "majority", "the dead count", "COPPICE_ERR_NO_QUORUM"),
                ({}, "certain", "kernel of each host", "of two ranks on two hosts"),
                ({"COPPICE_TRANSPORT": "tcp"}, "certain", "none: ranks of a host share no memory", "COPPICE_ERR_NO_QUORUM")):
            with self.subTest(settings):
                quorum = facts(**settings)["quorum"]
                self.assertEqual(quorum["setting"], setting)
                self.assertIn(witness, quorum["witness"])
                self.assertIn(given_up, quorum["gives_up"])
                self.assertIn(quorum["gives_up"], command([INFO], **settings).stdout)

    def test_the_text_says_what_the_json_says(self):
        text = command([INFO], COPPICE_WINDOW="64").stdout
        for one in facts(COPPICE_WINDOW="64")["settings"]:
            self.assertRegex(text, rf'\n  {one["variable"]} +"{re.escape(one["value"])}" +{one["from"]} ')

    def test_under_the_launcher_it_tells_what_reaches_each_rank(self):
        done = command([RUN, "-n", "2", INFO, "--json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        group = json.loads(done.stdout)["group"]  # one rank tells for all
        self.assertEqual(group["ranks"], 2)
        self.assertEqual([peer["transport"] for peer in group["peers"]], ["self", "shm"])


class Inside(unittest.TestCase):
    def test_levels_of_machines_that_are_not_here(self):
        for file, places in (
                ("two-sockets-128-cores.xml", [(f"numa{cache // 8}/l3-{cache}", 8 * cache, 8 * cache + 7, None) for cache in range(16)]),
                ("four-numa-nodes.xml", [(f"numa{node}", 4 * node, 4 * node + 3, None) for node in range(4)]),
                ("hybrid-cores.xml", [("", 0, 3, 1), ("l2-4", 4, 7, 0), ("l2-5", 8, 11, 0)]),
                ("two-packages.xml", [(f"numa{cache // 2}/l3-{cache}", 2 * cache, 2 * cache + 1, None) for cache in range(4)])):
            with self.subTest(file):
                done = command([INFO, "--machine", f"{DATA}/{file}", "--json"])
                self.assertEqual(done.returncode, 0, done.stderr)
                inside = json.loads(done.stdout)["within_host"]
                self.assertEqual([(one["path"], one["first"], one["last"], one.get("kind")) for one in inside["places"]], places)
                self.assertEqual(inside["cores"], places[-1][2] + 1)
                self.assertEqual(inside["publishing_domains"], 16 if file.startswith("two-sockets") else 1)
                text = command([INFO, "--machine", f"{DATA}/{file}"]).stdout
                for path, first, last, _ in places:
                    self.assertRegex(text, rf"\n  {path or 'no level above'} +core{first} to core{last}\b")

    def test_this_process_is_where_its_cores_are(self):
        inside = facts()["within_host"]
        self.assertEqual(inside["threads"], facts()["machine"]["threads"])
        one = min(os.sched_getaffinity(0))
        done = command(["taskset", "-c", str(one), INFO, "--json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(json.loads(done.stdout)["within_host"]["this_process"], r"(^|/)core\d+$")

    def test_what_is_no_machine_is_refused(self):
        done = command([INFO, "--machine", f"{DATA}/fattree-k8.ibnet"])
        self.assertEqual(done.returncode, 2)
        self.assertIn("fattree-k8.ibnet: hwloc does not read this as a machine", done.stderr)
        done = command([INFO, "--machine", "/nowhere"])
        self.assertEqual((done.returncode, done.stderr), (2, "coppice-info: /nowhere: No such file or directory\n"))


class Switches(unittest.TestCase):
    def test_a_host_is_found_by_its_name_and_it_is_said(self):
        path = f"{DATA}/fattree-k8.ibnet"
        done = command([INFO, "--json"], COPPICE_TOPOLOGY=path, COPPICE_HOST="node124")
        switches = {one["source"]: one for one in json.loads(done.stdout)["switches"]}
        self.assertRegex(switches["COPPICE_TOPOLOGY"]["path"], "^agg7-[0-3]/leaf7-3$")
        self.assertEqual(switches["COPPICE_TOPOLOGY"]["how"], "by its name, node124")
        self.assertIn(", by its name, node124", command([INFO], COPPICE_TOPOLOGY=path, COPPICE_HOST="node124").stdout)
        self.assertIn("This host, node124: below leaf leaf7-3", command([INFO, "--topology", path], COPPICE_HOST="node124").stdout)

    def test_ranks_that_have_read_different_files_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            def groups(*texts):
                for rank, text in enumerate(texts):
                    pathlib.Path(folder, str(rank)).write_text(text)
                reading = f'COPPICE_TOPOLOGY={folder}/$COPPICE_RANK COPPICE_HOST=h$COPPICE_RANK exec "$0" "$@"'
                done = command([RUN, "-n", str(len(texts)), "sh", "-c", reading, INFO])
                self.assertEqual(done.returncode, 0, done.stderr)
                return done.stdout
            hosts = "h0 leaf0\nh1 leaf0\nh2 leaf1\nh3 leaf1\n"
            alike = groups(hosts, hosts, hosts, hosts)
            self.assertIn("broadcasts go by 2 leaf switches", alike)
            self.assertNotIn("different files", alike)
            said = groups(hosts, hosts, hosts, "h0 leaf7\nh3 leaf8\n")
            self.assertIn("Note: ranks 0 and 3 have read different files of COPPICE_TOPOLOGY", said)
            why = "Note: hosts stand in the order of their ranks, whatever switches are above them: "
            self.assertNotIn(why, alike + said)
            short = hosts.replace("h2 leaf1\n", "")
            self.assertIn(why + "rank 2 knows no switches above its host; rank 0 does", groups(short, short, short, short))
            pathlib.Path(folder, "1").write_text("h1 leaf0\nh1 leaf1\n")
            reading = f'COPPICE_TOPOLOGY={folder}/$COPPICE_RANK COPPICE_HOST=h$COPPICE_RANK exec "$0" "$@"'
            done = command([RUN, "-n", "2", "sh", "-c", reading, INFO])
            self.assertRegex(done.stderr, f"coppice-info: rank 1: COPPICE_TOPOLOGY: {folder}/1:2: ")
            each = hosts.replace("h1 leaf0", "h1 leaf2").replace("h3 leaf1", "h3 leaf3")
            self.assertIn(why + "all are below one leaf switch, or each below one of its own", groups(each, each, each, each))

    def test_a_correction_that_goes_by_no_switches_is_said(self):
        done = command([RUN, "-n", "8", "--hosts", "4", "--leaves", "2", INFO], COPPICE_CORRECTION="checked")
        self.assertIn("only trees with optimized or opportunistic correction go by switches", done.stdout)


class Refusals(unittest.TestCase):
    def test_what_does_not_parse_exits_with_2_and_is_named(self):
        done = command([INFO], COPPICE_TREE="foo")
        self.assertEqual(done.returncode, 2)
        self.assertIn('COPPICE_TREE = "foo"', done.stderr)
        self.assertIn("binomial", done.stderr)

    def test_unknown_options_exit_with_2(self):
        self.assertEqual(command([INFO, "--foo"]).returncode, 2)

    def test_help_and_version(self):
        self.assertIn("--json", command([INFO, "--help"]).stdout)
        self.assertRegex(command([INFO, "--version"]).stdout, r"\d+\.\d+\.\d+")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
