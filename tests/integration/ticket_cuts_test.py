#!/usr/bin/env python3
"""A process with a ticket on a host of its own, which is cut off while it joins: it gets in, or is told why, and there is one group.

Usage: ticket_cuts_test.py COPPICE_RUN TICKET_RANK"""

import os
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402

RUN, RANK = (os.path.abspath(path) for path in sys.argv[1:3])
DEADLINE = 300
OPEN = {"COPPICE_JOIN": "any", "COPPICE_CAPACITY": "6", "COPPICE_TRANSPORT": "shm,tcp"}


class TicketCuts(unittest.TestCase):
    def join(self, phase, *cut):
        """Whether it is in at the end, with what all have said. Which ranks may go on is left to the default, `certain`."""
        with tempfile.TemporaryDirectory() as folder:
            done = jobs.run([RUN, "-n", "4", "--hosts", "4", *cut, RANK, phase, os.path.join(folder, "ticket")], DEADLINE, OPEN)
        if "--hosts:" in done.stderr or "lets user" in done.stderr:
            self.skipTest(done.stderr.strip())
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        groups = re.findall(r"^group (\d+):((?: \d+\.\d+)+)$", done.stdout, re.M)
        told = re.findall(r"^told: (.+)$", done.stdout, re.M)
        self.assertEqual(len(groups) + len(told), 4, said)
        self.assertLessEqual(len(told), 1, said)
        # All that are in a group are in the same one, which has the three members of the start, and the process where it is in.
        self.assertEqual(len(set(groups)), 1, said)
        seats = groups[0][1].split()
        self.assertLessEqual({"0.0", "1.0", "2.0"}, set(seats), said)
        if not told:
            self.assertEqual(len(seats), 4, said)
        return not told, said

    def test_nothing_is_cut(self):
        for phase in ("knocks", "waits"):
            is_in, said = self.join(phase)
            self.assertTrue(is_in, said)

    def test_the_network_is_cut_for_a_second(self):
        for phase in ("knocks", "waits"):
            for milliseconds in (1, 20):
                with self.subTest(phase=phase, milliseconds=milliseconds):
                    self.join(phase, "--cut", f"3/0,1,2@joined+{milliseconds}ms+1s")

    def test_the_network_is_cut_for_longer_than_members_wait_for_a_host(self):
        for phase in ("knocks", "waits"):
            with self.subTest(phase=phase):
                self.join(phase, "--cut", "3/0,1,2@joined+1ms+8s")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
