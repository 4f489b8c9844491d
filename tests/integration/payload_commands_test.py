#!/usr/bin/env python3
"""Large payloads by commands as a user types them: every byte comes, whichever rank is killed or stopped meanwhile.

Usage: payload_commands_test.py COPPICE_RUN COPPICE_PERF"""

import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402

RUN, PERF = (os.path.abspath(path) for path in sys.argv[1:3])
DEADLINE = 800


class Payloads(unittest.TestCase):
    def broadcasts(self, launcher, options):
        """The lines of figures, and what was printed in all."""
        done = jobs.run([RUN, *launcher.split(), PERF, "broadcast", *options.split(), "--verify"], DEADLINE)
        if "--hosts:" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("\nlost 0 corrupt 0 duplicate 0\n", done.stdout, done.stderr)
        return re.findall(r"^ (\d+) +(\d+) +(.*)$", done.stdout, re.MULTILINE), done.stdout

    def deliveries(self, printed):
        return int(re.search(r"^(\d+) deliveries to survivors, every byte of each verified$", printed, re.MULTILINE)[1])

    def test_all_sizes_up_to_8_mib(self):
        lines, printed = self.broadcasts("-n 8", "-a -n 50")
        self.assertEqual([(int(size), int(count)) for size, count, _ in lines], [(1 << power, 50) for power in range(24)])
        self.assertRegex(printed, r"(?m)^ #bytes #iterations .* t_typical\[usec\] .* MB/s\[typical\]$")
        for size, _, figures in lines:
            typical, rate = float(figures.split()[2]), float(figures.split()[-1])
            # Both have two digits behind the point.
            self.assertGreaterEqual(rate, int(size) / (typical + 0.005) - 0.005)
            self.assertLessEqual(rate, int(size) / max(typical - 0.005, 0.001) + 0.005)

    def test_two_receivers_are_killed(self):
        lines, printed = self.broadcasts("-n 8 --hosts 4 --kill 3@1s --kill 5@1500ms", "-s 64M -n 40 -w 0")
        self.assertEqual([int(size) for size, _, _ in lines], [64 << 20])
        self.assertIn("\n2 of 8 ranks died\n", printed)
        self.assertGreaterEqual(self.deliveries(printed), 40 * 6)

    def test_a_root_is_killed(self):
        _, printed = self.broadcasts("-n 6 --hosts 3 --kill 0@600ms", "-s 256M -n 4 -w 0 --root rotate")
        self.assertIn("\n1 of 6 ranks died\n", printed)
        self.assertGreaterEqual(self.deliveries(printed), 3 * 5)

    def test_one_gib(self):
        available = int(re.search(r"^MemAvailable: +(\d+) kB$", pathlib.Path("/proc/meminfo").read_text(), re.M)[1]) << 10
        if available < 5 << 30:  # it takes 3 GiB: a buffer at each of two ranks, and what one shows to the other
            self.skipTest(f"{available >> 20} MiB of memory are available")
        lines, printed = self.broadcasts("-n 2", "-s 1G -n 1 -w 0")
        self.assertEqual([(int(size), int(count)) for size, count, _ in lines], [(1 << 30, 1)])
        self.assertEqual(self.deliveries(printed), 2)

    def test_a_receiver_is_stopped_for_ten_seconds(self):
        lines, printed = self.broadcasts("-n 4 --hosts 2 --stop 1@500ms+10s", "-s 16M -n 60 -w 0")
        self.assertEqual([(int(size), int(count)) for size, count, _ in lines], [(16 << 20, 60)])
        self.assertEqual(self.deliveries(printed), 60 * 4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
