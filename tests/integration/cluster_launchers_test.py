#!/usr/bin/env python3
"""Ranks on the hosts of a box, by launchers that are not ours: together, and when a host loses power or its cable.

Usage: cluster_launchers_test.py CLUSTER COPPICE_PERF LAUNCHED SOME_RANKS"""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402

CLUSTER, PERF, LAUNCHED, SOME_RANKS = (os.path.abspath(path) for path in sys.argv[1:5])
DEADLINE = 280
SRUN = ["srun", "-N4", "-n8", "--no-kill", "--kill-on-bad-exit=0"]
MPIRUN = ["mpirun", "--enable-recovery", "-np", "8"]
# On a machine that is busy with other things, the kernel may let a silent host's peers wait. A rank of a living host that is kept from
# its core for longer than the bound is taken for dead: then the next one is tried, with as much more time for all of it.
BOUNDS = ((2, 0), (20, 30))


class InBox(unittest.TestCase):
    def run_in_box(self, *words, expected=True):
        done = jobs.run([CLUSTER, "run", "--hosts", "4", *words], DEADLINE)
        if expected:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def lose_a_host(self, command, seconds):
        """`command` makes the words from "COPPICE_DETECTION_BOUND=…" and the time that the program runs for."""
        for bound, more in BOUNDS:
            done = self.run_in_box(*command(f"COPPICE_DETECTION_BOUND={bound}s", f"{seconds + more}s"), expected=False)
            if "this rank was taken for dead by the others" not in done.stderr:
                break
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("2 of 8 ranks died", done.stdout)
        self.assertIn("lost 0 corrupt 0 duplicate 0", done.stdout)
        return done

    def expect_all(self, done):
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"rank {r} of 8 on 4 hosts, 2 groups, together 0xff" for r in range(8)], done.stderr)

    def test_group_after_group_under_srun_with_pmix_and_pmi2_and_under_mpirun(self):
        for words in (["--slurm", "--", *SRUN, "--mpi=pmix"], ["--slurm", "--", *SRUN, "--mpi=pmi2"], ["--", *MPIRUN]):
            with self.subTest(words=words):
                self.expect_all(self.run_in_box(*words, LAUNCHED, "2"))

    def test_groups_of_some_ranks(self):
        even, odd = [0, 2, 4, 6], [7, 5, 3, 1]
        for words in (["--slurm", "--", *SRUN, "--mpi=pmix"], ["--", *MPIRUN]):
            with self.subTest(words=words):
                done = self.run_in_box(*words, SOME_RANKS, "after", "2")
                self.assertEqual(sorted(done.stdout.splitlines()), sorted(
                    f"rank {rank} is {place} of 4, together {together:#x}" for ranks, together in ((even, 0x55), (odd, 0xaa))
                    for place, rank in enumerate(ranks)), done.stderr)

    def test_coppice_perf_needs_no_memory_common_to_hosts(self):
        done = self.run_in_box("--slurm", "--", *SRUN, "--mpi=pmix", PERF, "broadcast", "-s", "64", "-n", "5000", "--verify")
        self.assertIn("40800 deliveries to survivors", done.stdout)
        self.assertIn("lost 0 corrupt 0 duplicate 0", done.stdout)
        self.assertIn("# ranks on several machines", done.stdout)

    def test_a_rank_is_killed_under_srun(self):
        for way in ("pmix", "pmi2"):
            with self.subTest(way=way):
                done = self.run_in_box("--slurm", "--", *SRUN, f"--mpi={way}", LAUNCHED, "2", "3", expected=False)
                self.assertEqual(sorted(done.stdout.splitlines()),
                                 [f"rank {r} of 8 on 4 hosts, 2 groups, together 0xf7" for r in range(8) if r != 3], done.stderr)
                self.assertEqual(done.returncode, 137, done.stderr)

    def test_a_host_loses_power_under_mpirun(self):
        done = self.run_in_box("--power-off", "3@2s", "--", *MPIRUN, PERF, "agree", "-n", "2000000", "--for", "8s")
        self.assertIn("2 of 8 ranks died", done.stdout)
        self.assertIn("disagreed 0 wrong 0 lost 0", done.stdout)

    def test_a_host_loses_power_under_srun(self):
        done = self.run_in_box("--slurm", "--power-off", "3@2s", "--", *SRUN, "--mpi=pmi2", PERF, "agree", "-n", "2000000", "--for",
                               "8s")
        self.assertIn("2 of 8 ranks died", done.stdout)
        self.assertIn("disagreed 0 wrong 0 lost 0", done.stdout)

    def test_a_cable_is_cut_under_mpirun(self):
        done = self.lose_a_host(lambda bound, time: ["--cut", "2@2s", "--", *MPIRUN, "-x", bound, PERF, "broadcast", "-s", "64", "--for", time,
                                                     "--verify"], 10)
        self.assertIn("the surviving ranks are done; ending their launcher", done.stderr)

    def test_a_cable_is_cut_under_srun(self):
        self.lose_a_host(lambda bound, time: ["--slurm", "--cut", "2@2s", "--", "env", bound, *SRUN, "--mpi=pmix", PERF, "broadcast", "--for",
                                              time, "--verify"], 6)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("SKIP: making hosts needs the rights of root")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
