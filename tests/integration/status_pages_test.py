#!/usr/bin/env python3
"""Pages that coppice-status reads: of ranks that were killed, that are damaged, or that are not there.

Usage: status_pages_test.py COPPICE_STATUS COPPICE_RUN HANGING COPPICE_PERF [TEST…]"""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402
from status_jobs import HANGING, Job, MPIRUN, PATIENCE, RUN, STATUS, clean_environment, status, until  # noqa: E402

PAGE_VERSION = 3


def descendants(ancestor, program):
    """The processes of that program below another process."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as comm:
                if comm.read().strip() == program and jobs.descends(pid, ancestor):
                    found.append(pid)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def held_of_dev_shm(pid):
    """The files in /dev/shm that a process has mapped or open."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        held = [line.split(maxsplit=5)[5].strip() for line in maps if "/dev/shm/" in line]
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
        except FileNotFoundError:
            continue
        if target.startswith("/dev/shm/"):
            held.append(target)
    return held


class Pages(unittest.TestCase):
    def test_the_page_of_a_killed_rank_is_kept_by_the_launcher(self):
        with Job(4, "*:b0 a b3", "2:b0 a pause", "3:b0 a pause", options=("--kill", "2@1s")) as job:
            until("its end is seen", lambda: 2 in job.by_rank() and job.by_rank()[2]["ended"])
            victim = job.by_rank()[2]["pid"]
            until("the launcher has waited for it", lambda: not os.path.exists(f"/proc/{victim}"))
            dead = job.by_rank()[2]
            self.assertEqual([dead["pid"], dead["state"]], [victim, "ended"])
            self.assertEqual(dead["groups"][0]["broadcasts"]["entered"], 1)
            until("others know of it", lambda: job.by_rank()[0]["groups"][0]["failed_ranks"] == [2])

    @unittest.skipUnless(shutil.which("mpirun.openmpi"), "Open MPI's mpirun is missing (tools/setup.sh --test)")
    def test_pages_of_killed_ranks_are_kept_by_others_of_their_host(self):
        # Whose launcher keeps none. Ranks 1 and 2 are neighbours: rank 0 has the pages of both.
        with Job(4, "*:b0 pause", launcher=MPIRUN) as job:
            until("all are there", lambda: len(job.by_rank()) == 4)
            for victim in (1, 2):
                os.kill(job.by_rank()[victim]["pid"], signal.SIGKILL)
            until("their ends are seen", lambda: all(rank in job.by_rank() and job.by_rank()[rank]["ended"] for rank in (1, 2)))
            self.assertEqual([job.by_rank()[rank]["groups"][0]["broadcasts"]["entered"] for rank in range(4)], [1, 1, 1, 1])

    def test_nothing_is_left_and_nothing_needs_dev_shm(self):
        # Other programs may come and go in /dev/shm meanwhile: what these processes hold of it is looked at, and our names.
        def named():
            return {name for name in os.listdir("/dev/shm") if "coppice" in name}
        before = named()
        with Job(4, "*:b0 pause") as job:
            until("all are there", lambda: len(job.by_rank()) == 4)
            pids = job.seen_pids()
            self.assertEqual({pid: held_of_dev_shm(pid) for pid in [*pids, job.launcher.pid]},
                             {pid: [] for pid in [*pids, job.launcher.pid]})
            for victim in pids:
                os.kill(victim, signal.SIGKILL)
        until("they have ended", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))
        self.assertEqual(status(job.launcher.pid).returncode, 1)
        self.assertEqual(named() - before, set())

    def test_it_can_be_turned_off(self):
        with Job(2, "*:b0 pause", COPPICE_STATUS="0") as job:
            until("they are there", lambda: len(descendants(job.launcher.pid, "hanging")) == 2)
            self.assertEqual(status(job.launcher.pid).returncode, 1)
        done = subprocess.run([RUN, "-n", "1", HANGING, "*:b0"], capture_output=True, text=True, check=False, timeout=PATIENCE,
                              env=clean_environment(COPPICE_STATUS="maybe"))
        self.assertIn("COPPICE_STATUS", done.stderr)


def make_page(content):
    """A file such as libcoppice makes, of this process."""
    number = os.memfd_create("coppice-status", 0)
    os.write(number, content)
    return number


def header(version=PAGE_VERSION, size=0, magic=b"CoppStat"):
    return struct.pack("<8sIIiIQ32s", magic, version, size, os.getpid(), 0, 1, b"9.9.9") + bytes(256)


class StrangePages(unittest.TestCase):
    """What this very process shows is no page, or one that can't be read."""

    def shown(self, content):
        number = make_page(content)
        try:
            done = status(os.getpid(), "--json")
            text = status(os.getpid())
        finally:
            os.close(number)
        self.assertEqual((done.returncode, text.returncode), (3, 3), done.stdout + done.stderr)
        problem = json.loads(done.stdout)["problems"][0]
        self.assertEqual(problem["pid"], os.getpid())
        self.assertIn(problem["message"], text.stdout)
        return problem["trouble"], problem["message"]

    def test_garbage(self):
        for content in (b"", b"x", bytes(100000), os.urandom(100000), header()[:63], header(), header(size=2**31)):
            self.assertEqual(self.shown(content)[0], "garbage", content[:80])

    def test_a_newer_and_an_older_version(self):
        trouble, message = self.shown(header(version=PAGE_VERSION + 1))
        self.assertEqual(trouble, "newer")
        self.assertIn("of library 9.9.9", message)
        self.assertEqual(self.shown(header(version=0))[0], "older")

    def test_a_page_whose_every_byte_is_damaged_never_misleads_the_reader(self):
        with Job(2, "*:b0 b1", "1:b0 pause") as job:
            job.await_blocked(0)
            owner = job.by_rank()[0]["pid"]
            links = {int(one): os.readlink(f"/proc/{owner}/fd/{one}") for one in os.listdir(f"/proc/{owner}/fd")}
            number = next(one for one, target in links.items() if "coppice-status" in target)
            with open(f"/proc/{owner}/fd/{number}", "rb") as page:
                good = page.read()
            self.assertEqual(os.stat(f"/proc/{owner}/fd/{number}").st_mode & 0o777, 0o600)
            with self.assertRaises(PermissionError):  # only its owner writes, even to the same user
                with open(f"/proc/{owner}/fd/{number}", "r+b", buffering=0) as page:
                    page.write(b"x")
        for seed in range(40):
            damaged = bytearray(good)
            for at in range(64 + seed, len(damaged), 7 + 13 * seed):
                damaged[at] = (damaged[at] * 7 + 255 - seed) % 256
            number = make_page(bytes(damaged))
            try:
                for option in ("--json", "--prometheus", None):
                    done = status(os.getpid(), *([option] if option else []))
                    self.assertIn(done.returncode, (0, 1, 3), (seed, option, done.stderr))
            finally:
                os.close(number)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to become another user")
    def test_another_users_process(self):
        with Job(1, "*:pause") as job:
            owner = until("it is there", job.processes)[0]["pid"]
            copy = f"/tmp/coppice-status-{os.getpid()}"
            shutil.copy(STATUS, copy)
            os.chmod(copy, 0o755)
            try:
                done = subprocess.run([copy, str(owner)], capture_output=True, text=True, check=False, timeout=PATIENCE,
                                      user=65534, group=65534, extra_groups=[], env=clean_environment())
                everything = subprocess.run([copy, "--all"], capture_output=True, text=True, check=False, timeout=PATIENCE,
                                            user=65534, group=65534, extra_groups=[], env=clean_environment())
            finally:
                os.unlink(copy)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, rf"process {owner} can't be looked into: it is user 0's, and this is user 65534")
        self.assertEqual(everything.returncode, 1)
        self.assertRegex(everything.stderr, r"\d+ processes of other users can't be looked into")

    def test_no_such_process_and_bad_usage(self):
        self.assertEqual(status(2**22 + 1).returncode, 1)
        self.assertEqual(status("no-such-job").returncode, 1)
        self.assertEqual(status("--all", "1").returncode, 2)
        self.assertEqual(status("--nonsense").returncode, 2)
        self.assertEqual(status("--json", "--prometheus").returncode, 2)
        self.assertEqual(status("--help").returncode, 0)
        done = status(os.getpid())
        self.assertEqual(done.returncode, 1)
        self.assertIn("shows no page", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1]+sys.argv[5:], verbosity=2)
