#!/usr/bin/env python3
"""Large payloads by commands as a user types them: every byte comes, whichever rank is killed or stopped meanwhile.

Usage: payload_commands_test.py COPPICE_RUN COPPICE_PERF"""

import os
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402

RUN, PERF = (os.path.abspath(path) for path in sys.argv[1:3])
DEADLINE = 800
# Of control groups, version 1 and 2: the limit, what is used, and what of that files hold that nobody has looked at of late.
LIMITS = {"memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"), "": ("memory.max", "memory.current", "inactive_file")}


def read(path):
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def limits_leave(groups, mounted):
    """Bytes, for each limit: `groups` is what /proc/self/cgroup says."""
    for controllers, group in re.findall(r"^\d+:([^:]*):(/.*)$", groups, re.M):
        if controllers not in LIMITS:
            continue
        limit, used, files = LIMITS[controllers]
        path = pathlib.PurePosixPath(group)
        for one in (path, *path.parents):
            folder = mounted / controllers / one.relative_to("/")
            if read(folder / limit).strip().isdigit():
                held = re.search(rf"^{files} (\d+)$", read(folder / "memory.stat"), re.M)
                yield int(read(folder / limit)) - int(read(folder / used) or 0) + int(held[1] if held else 0)


def available_memory():
    """Bytes, of the machine's and of what a container leaves of them."""
    machine = int(re.search(r"^MemAvailable: +(\d+) kB$", read(pathlib.Path("/proc/meminfo")), re.M)[1]) << 10
    return min([machine, *limits_leave(read(pathlib.Path("/proc/self/cgroup")), pathlib.Path("/sys/fs/cgroup"))])


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
        available = available_memory()
        if available < 5 << 30:  # it takes 3 GiB: a buffer at each of two ranks, and what one shows to the other
            self.skipTest(f"{available >> 20} MiB of memory are available")
        lines, printed = self.broadcasts("-n 2", "-s 1G -n 1 -w 0")
        self.assertEqual([(int(size), int(count)) for size, count, _ in lines], [(1 << 30, 1)])
        self.assertEqual(self.deliveries(printed), 2)

    def test_the_memory_that_a_container_leaves_is_known(self):
        for groups, files, left in (("0::/a/b\n", {}, []), ("0::/\n", {"memory.max": "max\n"}, []),
                                    ("0::/a/b\n", {"a/memory.max": "4096\n", "a/memory.current": "1096\n", "a/memory.stat": "file 9\ninactive_file 7\n"}, [3007]),
                                    ("5:cpu:/a\n4:memory:/a\n0::/\n", {"memory/memory.limit_in_bytes": "8192\n", "memory/memory.usage_in_bytes": "192\n",
                                                                       "memory/memory.stat": "inactive_file 5\ntotal_inactive_file 1\n"}, [8001])):
            with self.subTest(groups=groups, files=files), tempfile.TemporaryDirectory() as directory:
                for name, text in files.items():
                    path = pathlib.Path(directory, name)
                    path.parent.mkdir(exist_ok=True)
                    path.write_text(text, encoding="ascii")
                self.assertEqual(list(limits_leave(groups, pathlib.Path(directory))), left)
        self.assertGreater(available_memory(), 0)

    def test_a_receiver_is_stopped_for_ten_seconds(self):
        lines, printed = self.broadcasts("-n 4 --hosts 2 --stop 1@500ms+10s", "-s 16M -n 60 -w 0")
        self.assertEqual([(int(size), int(count)) for size, count, _ in lines], [(16 << 20, 60)])
        self.assertEqual(self.deliveries(printed), 60 * 4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
