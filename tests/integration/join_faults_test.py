#!/usr/bin/env python3
"""What goes wrong while a process joins or a group is renewed: the network is cut, the launcher is killed.

Usage: join_faults_test.py COPPICE_RUN COPPICE_PERF"""

import os
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402

RUN, PERF = (os.path.abspath(path) for path in sys.argv[1:3])
DEADLINE = 300
CLEAN = "\ndivergent 0 lost 0 hung 0 leaked 0\n"


class JoinFaults(unittest.TestCase):
    def join_through_a_cut(self, quorum, milliseconds, duration):
        """A process starts on host 0, which is cut off from the others so long after that."""
        done = jobs.run([RUN, "-n", "4", "--hosts", "4", "--join", "1@500ms", "--cut", f"0/1,2,3@{500 + milliseconds}ms{duration}", PERF, "join",
                         "-n", "200"], DEADLINE, {"COPPICE_QUORUM": quorum})
        if "--hosts:" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(CLEAN, done.stdout, done.stderr)
        return done

    def test_the_network_is_cut_for_a_second(self):
        for milliseconds in (1, 100):
            done = self.join_through_a_cut("majority", milliseconds, "+1s")
            self.assertRegex(done.stdout, r"^# join of 5 ranks: \d+ rounds, \d+ renewals, 0 left out, 1 newcomers\n")

    def test_the_network_is_cut_for_good(self):
        for milliseconds in (1, 100):
            done = self.join_through_a_cut("majority", milliseconds, "")
            # Whether the newcomer was taken in before or not: the others go on without both.
            self.assertRegex(done.stdout, r"^# join of 3 ranks: \d+ rounds, \d+ renewals, [12] left out, [01] newcomers\n")
            self.assertEqual(done.stdout.count("# join of"), 1, done.stdout)
            self.assertRegex(done.stderr, r"rank 0: .*ranks 1, 2, 3 can't be reached.*COPPICE_QUORUM=any")
            # It is told why.
            self.assertRegex(done.stderr, r"coppice-perf: rank \d: \S.*\n(.*\n)*coppice-run: rank 4 \(pid \d+\), cut off from the others, exited with")

    def test_a_host_of_which_nobody_has_heard(self):
        """The only rank of a host dies before it has told anything, and its successor is the first one that the others hear of it."""
        dies = 'test -n "$COPPICE_INCARNATION" || test "$COPPICE_RANK" != 0 || kill -9 $$; exec "$@"'
        for transport in ("shm,ucx", "shm,tcp"):
            done = jobs.run([RUN, "-n", "3", "--hosts", "3", "--respawn", "sh", "-c", dies, "sh", PERF, "stabilize", "-n", "200"], DEADLINE,
                            {"COPPICE_TRANSPORT": transport})
            if "--hosts:" in done.stderr or "no transport" in done.stderr:
                self.skipTest(done.stderr.strip())
            self.assertRegex(done.stdout, r"^# stabilize of 3 ranks: \d+ rounds, \d+ renewals, 1 left out, 1 newcomers\n", done.stderr)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(CLEAN, done.stdout, done.stderr)

    def test_the_launcher_is_killed_between_renewals_that_follow_each_other(self):
        kills = [word for i in range(40) for word in ("--kill", f"{i % 3 + 1}@{200 + 25 * i}ms")]
        for milliseconds in (250, 500, 700):
            setting = f"TEST_JOB={os.getpid()}-{milliseconds}"
            settings = {name: value for name, value in os.environ.items() if not name.startswith(jobs.SETTINGS)}
            with subprocess.Popen([RUN, "-n", "4", "--respawn", *kills, PERF, "stabilize", "-n", "100000000"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=settings | {"TEST_JOB": setting.partition("=")[2]}) as launcher:
                # From the first kill on, which it says.
                self.assertIn(b"killed rank", launcher.stderr.readline())
                time.sleep(milliseconds / 1000)
                self.assertEqual(launcher.poll(), None)
                launcher.kill()
                launcher.communicate()
            # All that it has started end: the ranks, their keepers, and what starts them.
            until = time.monotonic() + DEADLINE
            while (left := jobs.processes_with(setting)) and time.monotonic() < until:
                time.sleep(0.05)
            self.assertEqual(left, [], jobs.look_at(left))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
