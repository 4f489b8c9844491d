#!/usr/bin/env python3
"""COPPICE_QUORUM=certain, the default, under coppice-run, which is a witness of deaths: hosts that are lost as a whole cost no quorum, cuts do.

Usage: witness_test.py COPPICE_RUN COPPICE_PERF OWN_EXCHANGE"""

import os
import pathlib
import re
import signal
import sys
import tempfile

from launcher import LauncherTest, RANK as PERF, environment, main, processes_with, run, wait_for
from jobs import read

OWN_EXCHANGE = os.path.abspath(sys.argv.pop(3))
CLEAN = "\ndivergent 0 lost 0 hung 0 leaked 0\n"
STABILIZE = (PERF, "stabilize", "-n", "200")
FOR_EVER = (PERF, "stabilize", "-n", "100000000")
# In /proc/PID/net/tcp. Ranks of two hosts connect when they have their group.
CONNECTED = "^ *[0-9]+: [0-9A-F:]+ [0-9A-F:]+ 01 "
NO_QUORUM = r"too few for COPPICE_QUORUM=certain: rank.* can't be reached.*COPPICE_QUORUM=any"


class Witness(LauncherTest):
    def run_hosts(self, *arguments, **settings):
        os.environ.update(settings)
        try:
            done = run(*arguments, clean=False)
        finally:
            for name in settings:
                del os.environ[name]
        if "--hosts:" in done.stderr:
            self.skipTest(done.stderr.strip())
        return done

    def assert_goes_on(self, done, ranks, left_out, newcomers=0):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(CLEAN, done.stdout, done.stderr)
        self.assertRegex(done.stdout, rf"^# stabilize of {ranks} ranks: \d+ rounds, \d+ renewals, {left_out} left out, {newcomers} newcomers\n")
        self.assertNotIn("COPPICE_QUORUM", done.stderr)

    def test_of_two_ranks_on_two_hosts_the_other_goes_on(self):
        for killed in range(2):
            self.assert_goes_on(self.run_hosts("-n", "2", "--hosts", "2", "--kill", f"{killed}@500ms", *STABILIZE), 1, 1)

    def test_most_hosts_are_lost(self):
        kills = [word for host in (0, 1, 3) for word in ("--kill-host", f"{host}@500ms")]
        self.assert_goes_on(self.run_hosts("-n", "8", "--hosts", "4", *kills, *STABILIZE), 2, 6)

    def test_half_of_the_hosts_are_lost_one_after_the_other(self):
        done = self.run_hosts("-n", "6", "--hosts", "6", "--kill", "0@500ms", "--kill", "2@600ms", "--kill", "5@700ms", *STABILIZE)
        self.assert_goes_on(done, 3, 3)

    def test_ranks_that_share_no_memory_have_the_witness_alone(self):
        done = self.run_hosts("-n", "4", "--kill", "0@500ms", "--kill", "1@500ms", "--kill", "3@500ms", *STABILIZE, COPPICE_TRANSPORT="tcp")
        self.assert_goes_on(done, 1, 3)

    def test_lost_hosts_are_replaced(self):
        done = self.run_hosts("-n", "4", "--hosts", "2", "--respawn", "--kill-host", "0@500ms", "--kill-host", "1@1500ms", *STABILIZE)
        self.assert_goes_on(done, 4, 4, 4)

    def test_a_group_that_the_program_has_brought_together_has_a_witness_too(self):
        """It has not said anything to the launcher."""
        with tempfile.TemporaryDirectory() as directory:
            done = self.run_hosts("-n", "2", OWN_EXCHANGE, directory, COPPICE_TRANSPORT="tcp")
        self.assertEqual(done.stdout, "rank 1 goes on\n", done.stderr)

    def test_a_rank_that_a_shell_has_started_has_a_witness_for_itself(self):
        """The shell's end is not the rank's, and the rank's is known though the shell lives."""
        done = self.run_hosts("-n", "2", "--hosts", "2", "--kill", "0@500ms", "sh", "-c", f"{' '.join(STABILIZE)}; exit $?")
        self.assert_goes_on(done, 1, 1)
        ended = (f"{' '.join(FOR_EVER)} & [ $COPPICE_RANK = 1 ] && {{ wait $!; exit 0; }}; "
                 f"until grep -Eq '{CONNECTED}' /proc/$!/net/tcp; do sleep 0.01; done; kill -STOP $!; exit 0")
        done = self.run_hosts("-n", "2", "--hosts", "2", "sh", "-c", ended, COPPICE_DETECTION_BOUND="300ms")
        self.assertRegex(done.stderr, "rank 1: .*" + NO_QUORUM)

    def test_a_cut_is_no_death(self):
        done = self.run_hosts("-n", "5", "--hosts", "5", "--cut", "0,1/2,3,4@500ms", *STABILIZE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(CLEAN, done.stdout, done.stderr)
        self.assertRegex(done.stdout, r"^# stabilize of 3 ranks: \d+ rounds, 1 renewals, 2 left out")
        for rank in (0, 1):
            self.assertRegex(done.stderr, f"rank {rank}: .*" + NO_QUORUM)

    def test_one_that_is_stopped_is_not_dead(self):
        done = self.run_hosts("-n", "2", "--hosts", "2", "--stop", "0@500ms", *STABILIZE, COPPICE_DETECTION_BOUND="300ms")
        self.assertRegex(done.stderr, "rank 1: .*" + NO_QUORUM)

    def ranks_of(self, job):
        """By their numbers, those that have made their group."""
        found = {}
        for pid in processes_with(job.mark):
            # What has ended meanwhile has neither.
            settings = dict(one.split("=", 1) for one in read(pathlib.Path(f"/proc/{pid}/environ")).split("\0") if "=" in one)
            if "COPPICE_RANK" in settings and "coppice-witness" in read(pathlib.Path(f"/proc/{pid}/maps")):
                found[int(settings["COPPICE_RANK"])] = pid
        return found

    def are_connected(self, job):
        ranks = self.ranks_of(job)
        return len(ranks) == 2 and all(re.search(CONNECTED, read(pathlib.Path(f"/proc/{pid}/net/tcp")), re.M) for pid in ranks.values())

    def start_pair(self):
        job = self.start("-n", "2", "--hosts", "2", *FOR_EVER)
        wait_for(lambda: self.are_connected(job) or job.process.poll() is not None, "the ranks")
        if job.process.poll() is not None:
            self.skipTest(job.stderr)
        return job, self.ranks_of(job)

    def test_a_witness_that_is_silent_holds_up_nobody(self):
        """It is stopped, and then the rank is killed: the other one is told why."""
        job, ranks = self.start_pair()
        worker = job.worker()
        os.kill(worker, signal.SIGSTOP)
        os.kill(ranks[0], signal.SIGKILL)
        wait_for(lambda: "COPPICE_QUORUM" in job.stderr, "the error of rank 1")
        self.assertRegex(job.stderr, "rank 1: .*" + NO_QUORUM)
        os.kill(worker, signal.SIGCONT)
        job.wait()
        job.assert_nothing_left()

    def test_with_the_launcher_all_ranks_end(self):
        job, _ = self.start_pair()
        os.kill(job.worker(), signal.SIGKILL)
        job.wait()
        job.assert_nothing_left()


if __name__ == "__main__":
    main()
