#!/usr/bin/env python3
"""coppice-status beside jobs that hang, are stopped, or whose ranks are killed.

Usage: status_test.py COPPICE_STATUS COPPICE_RUN HANGING COPPICE_PERF"""

import ctypes
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402

STATUS, RUN, HANGING, PERF = (os.path.abspath(path) for path in sys.argv[1:5])
PATIENCE = 60 * int(os.environ.get("COPPICE_TEST_PATIENCE", "1"))
PAGE_VERSION = 2
MPIRUN = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--enable-recovery", "-np")


def clean_environment(**more):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("COPPICE_", "OMPI_", "PMIX_", "PMI_", "SLURM_"))}
    return kept | more


def status(*arguments):
    return subprocess.run([STATUS, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=PATIENCE,
                          env=clean_environment())


def until(what, condition):
    """Waits for a condition, and returns what it gave."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        given = condition()
        if given:
            return given
        time.sleep(0.02)
    raise AssertionError(f"waited {PATIENCE} s in vain: {what}; it is:\n{status('--all').stdout}")


class Job:
    """A job under coppice-run, or the launcher that is named, which is ended at the end of the block."""

    def __init__(self, ranks, *arguments, options=(), program=None, launcher=(RUN, "-n"), **variables):
        self.ranks = ranks
        self.command = [*launcher, str(ranks), *options, program or HANGING, *arguments]
        self.variables = variables

    def __enter__(self):
        self.launcher = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, text=True, env=clean_environment(**self.variables))
        return self

    def __exit__(self, *_):
        try:
            for process in self.seen_pids():
                try:
                    os.kill(process, signal.SIGCONT)
                except ProcessLookupError:
                    pass
        finally:
            self.launcher.terminate()
        self.output = self.launcher.communicate(timeout=PATIENCE)[0]

    def seen_pids(self):
        return [one["pid"] for one in self.processes() if not one["ended"]]

    def report(self):
        done = status(self.launcher.pid, "--json")
        return json.loads(done.stdout)

    def processes(self):
        return [one for job in self.report()["jobs"] for one in job["processes"]]

    def by_rank(self):
        return {one["groups"][0]["rank"]: one for one in self.processes() if one["groups"]}

    def operations(self):
        """By rank, the operation that blocks it."""
        return {rank: next((op for op in one["operations"] if op["blocking"]), None) for rank, one in self.by_rank().items()}

    def await_blocked(self, *ranks):
        def all_blocked():
            operations = self.operations()
            return operations if all(operations.get(rank) and operations[rank]["waits_for"] for rank in ranks) else None
        return until(f"ranks {ranks} are blocked", all_blocked)

    def await_findings(self, pattern):
        def found():
            return [one for one in self.report()["findings"] if re.search(pattern, one)]
        return until(f"a finding like {pattern}", found)


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


class Hanging(unittest.TestCase):
    def test_a_rank_that_never_calls_is_named_with_those_that_wait_for_it(self):
        with Job(4, "*:b0 a b2", "2:b0 a pause") as job:
            operations = job.await_blocked(0, 1, 3)
            for rank in (0, 1, 3):
                self.assertEqual((operations[rank]["operation"], operations[rank]["number"], operations[rank]["root"]),
                                 ("broadcast", 1, 2))
                self.assertEqual([one["rank"] for one in operations[rank]["waits_for"]], [2])
                self.assertIn("waits for rank 2, which has not entered broadcast 1", operations[rank]["why"])
            ranks = job.by_rank()
            self.assertEqual({rank: one["groups"][0]["broadcasts"]["entered"] for rank, one in ranks.items()},
                             {0: 2, 1: 2, 2: 1, 3: 2})
            self.assertEqual({one["groups"][0]["agreements"]["entered"] for one in ranks.values()}, {1})
            job.await_findings(r"rank 2 \(pid \d+, \w+\) has not entered broadcast 1 .*ranks 0, 1 and 3 wait for it")
            self.assertEqual({one["program"] for one in ranks.values()}, {"hanging"})

    def test_a_caller_that_waits_a_little_at_a_time_is_blocked_all_the_same(self):
        for waits in ("p2", "q2"):
            with self.subTest(waits), Job(4, f"*:b0 {waits}", "2:b0 pause") as job:
                operations = job.await_blocked(0, 1, 3)
                for rank in (0, 1, 3):
                    self.assertEqual((operations[rank]["operation"], operations[rank]["number"]), ("broadcast", 1))
                    self.assertIn("waits for rank 2, which has not entered broadcast 1", operations[rank]["why"])
                job.await_findings(r"rank 2 \(pid \d+, \w+\) has not entered broadcast 1 .*ranks 0, 1 and 3 wait for it")

    def test_a_call_that_was_given_up_is_not_shown_any_more(self):
        with Job(2, "0:b0 T", "1:b0 pause") as job:
            until("it has stopped itself", lambda: job.by_rank().get(0, {}).get("state") == "stopped")
            self.assertIsNone(job.operations()[0])

    def test_a_shrink_names_the_ranks_that_have_not_entered_it(self):
        with Job(5, "*:b0 s", "2:b0 pause", "4:b0 pause") as job:
            def all_wait():
                operations = job.await_blocked(0, 1, 3)
                return operations if [one["rank"] for one in operations[0]["waits_for"]] == [2, 4] else None
            operations = until("the root of the shrink waits for both", all_wait)
            self.assertEqual({operations[rank]["operation"] for rank in (0, 1, 3)}, {"renewal"})
            self.assertEqual({one["why"] for one in operations[0]["waits_for"]}, {"vote"})
            for rank in (1, 3):
                self.assertIn("waits for rank 0, which waits for rank 2", operations[rank]["why"])

    def test_ranks_that_call_different_operations_are_told_apart(self):
        with Job(4, "*:b0 b3", "3:b0 B") as job:
            job.await_blocked(0, 1, 2, 3)
            found = job.await_findings("called different operations")
            self.assertRegex(found[0], r"rank 3 in barrier 0; ranks 0-2 in broadcast 1 from rank 3")

    def test_ranks_that_name_different_roots_are_told_apart(self):
        # Between ranks of one host this ends with an error; where each is a position of its own it hangs.
        with Job(2, "0:b1", "1:b0", COPPICE_HIERARCHY="flat", COPPICE_PROGRESS_THREAD="0") as job:
            found = job.await_findings("different roots")
            self.assertRegex(found[0], "broadcast 0: rank 1 root 0; rank 0 root 1")

    def test_the_error_at_a_deadline_says_what_holds_it_up(self):
        for mine, other, stop, words in (("limit b1", "pause", False, "waits for rank 1.*has not entered broadcast 1 and is in no call"),
                                         ("limit a", "b0", False, "waits for rank 1, which has not entered agreement 0 and is in broadcast 1 from rank 0"),
                                         ("limit B", "pause", True, "waits for rank 1, which is stopped and has not entered barrier 0")):
            with self.subTest(words=words), Job(2, f"0:b0 signal {mine} pause", f"1:b0 {other}") as job:
                ranks = until("both are there", lambda: (lambda ranks: ranks if all(
                    rank in ranks and ranks[rank]["groups"][0]["broadcasts"]["entered"] > 0 for rank in (0, 1)) else None)(job.by_rank()))
                if stop:
                    os.kill(ranks[1]["pid"], signal.SIGSTOP)
                    until("it is stopped", lambda: job.by_rank()[1]["stopped"])
                os.kill(ranks[0]["pid"], signal.SIGUSR1)
                until("the deadline passes", lambda: job.by_rank().get(0, {"ended": True})["ended"])
            self.assertRegex(job.output, "hanging: .*seen from outside, it " + words)

    def test_a_rank_that_is_stopped_is_named_and_its_page_is_read(self):
        with Job(4, "*:b0 b1", "1:b0 pause") as job:
            job.await_blocked(0, 2, 3)
            victim = job.by_rank()[1]["pid"]
            os.kill(victim, signal.SIGSTOP)
            job.await_findings(rf"rank 1 \(pid {victim}\) is stopped")
            self.assertEqual(job.by_rank()[1]["state"], "stopped")
            self.assertIn("rank 1, which is stopped and has not entered", job.operations()[0]["why"])
            for rank, one in job.by_rank().items():  # all of them: nobody can take part in the reading
                os.kill(one["pid"], signal.SIGSTOP)
                until(f"rank {rank} is stopped", lambda rank=rank: job.by_rank()[rank]["state"] == "stopped")
            self.assertEqual(job.operations()[2]["number"], 1)
            text = status(job.launcher.pid)
            self.assertEqual(text.returncode, 0, text.stderr)
            self.assertRegex(text.stdout, r"1/4 +\d+ +stopped")

    def test_one_that_a_debugger_holds_is_said_so(self):
        libc = ctypes.CDLL(None, use_errno=True)
        attach, detach = 16, 17
        with Job(2, "*:b1", "1:pause") as job:
            job.await_blocked(0)
            victim = job.by_rank()[1]["pid"]
            self.assertEqual(libc.ptrace(attach, victim, None, None), 0, os.strerror(ctypes.get_errno()))
            try:
                os.waitpid(victim, 0x40000000)  # __WALL
                self.assertEqual(job.by_rank()[1]["state"], f"held by a debugger (pid {os.getpid()})")
                self.assertEqual(job.by_rank()[1]["debugger"], os.getpid())
                job.await_findings("rank 1 .* is held by a debugger")
            finally:
                libc.ptrace(detach, victim, None, None)

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

    def test_the_chain_goes_over_a_leader(self):
        # Two hosts: ranks 0 and 1, 2 and 3. Rank 3 waits for its leader, which waits for a root that has not called.
        with Job(4, "*:b0 b0", "0:b0 pause", options=("--hosts", "2")) as job:
            operations = job.await_blocked(1, 2, 3)
            self.assertEqual(operations[3]["waits_for"][0], {"rank": 2, "why": "payload from its leader", "number": 1})
            self.assertEqual(operations[3]["why"], "waits for rank 2 (its leader), which waits for rank 0, which has not entered "
                                                   "broadcast 1 and is in no call that waits")

    def test_an_operation_that_has_ended_is_not_shown_any_more(self):
        # Nobody looks after rank 0 once it is through.
        with Job(2, "*:b1 pause", "1:signal b1 pause", COPPICE_PROGRESS_THREAD="0") as job:
            job.await_blocked(0)
            os.kill(job.by_rank()[1]["pid"], signal.SIGUSR1)
            until("rank 1 has called", lambda: job.by_rank()[1]["groups"][0]["broadcasts"]["entered"] == 1)
            until("rank 0 waits no longer", lambda: job.operations()[0] is None)

    def test_non_blocking_operations_and_a_full_window(self):
        with Job(2, "*:" + "n1 " * 4 + "b1", "1:pause", COPPICE_WINDOW="4") as job:
            found = until("rank 0 finds no room", lambda: [op for op in job.by_rank().get(0, {"operations": []})["operations"]
                                                           if not op["begun"]])
            self.assertEqual((found[0]["operation"], found[0]["number"], found[0]["blocking"]), ("broadcast", 4, True))
            waiting = [op["number"] for op in job.by_rank()[0]["operations"] if not op["blocking"]]
            self.assertEqual(waiting, [0, 1, 2, 3])

    def test_a_group_that_is_being_made_and_one_that_is_left(self):
        with Job(3, "*:b0 leave pause", "2:pause") as job:
            until("rank 0 leaves", lambda: (job.operations().get(0) or {}).get("operation") == "leaving")
            self.assertIn("waits for rank 2", job.operations()[0]["why"])

    def test_transports_connections_and_counters(self):
        def groups(job):
            return [one["groups"][0] for one in job.by_rank().values()]
        with Job(4, "*:b0 a b3", "3:b0 a pause", COPPICE_TRANSPORT="tcp", COPPICE_HIERARCHY="flat") as job:
            job.await_blocked(0, 1, 2)
            self.assertEqual({one["transports"] for one in groups(job)}, {"tcp"})

            def settled():
                counters = [one["counters"] for one in groups(job)]
                sent, received = (sum(one[name] for one in counters) for name in ("sends", "received"))
                return counters if len(counters) == 4 and sent == received else None
            counters = until("what was sent has been received", settled)
            for one in counters:
                self.assertGreater(one["received"], 0, counters)
                self.assertEqual((one["writes"], one["garbage"], one["refused"]), (0, 0, 0), counters)
            # The other three have received at least one broadcast and one result each; four ranks are not joined by fewer than three connections.
            self.assertGreaterEqual(sum(one["sends"] for one in counters), 6)
            self.assertGreaterEqual(sum(one["connections"] for one in counters), 3)
        with Job(4, "*:b0 a b3", "3:b0 a pause") as job:
            job.await_blocked(0, 1, 2)
            self.assertEqual({one["transports"] for one in groups(job)}, {"shm within hosts"})
            self.assertEqual({(one["counters"]["sends"], one["counters"]["received"]) for one in groups(job)}, {(0, 0)})

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


class Work(unittest.TestCase):
    @unittest.skipUnless(os.path.exists("/proc/self/io"), "this kernel does not count what processes read")
    def test_each_rank_costs_the_same(self):
        """Several processes hold a rank's page. What is read of them grows with the ranks, and not with their square."""
        def bytes_read(launcher):
            with subprocess.Popen([STATUS, "--json", str(launcher)], stdout=subprocess.PIPE, env=clean_environment()) as reader:
                reader.stdout.read()
                os.waitid(os.P_PID, reader.pid, os.WEXITED | os.WNOWAIT)
                with open(f"/proc/{reader.pid}/io", encoding="utf-8") as counts:
                    return int(re.search(r"^rchar: (\d+)$", counts.read(), re.MULTILINE)[1])

        def of(ranks):
            with Job(ranks, "*:b0 pause") as job:
                until("all are there", lambda: len(job.by_rank()) == ranks)
                return min(bytes_read(job.launcher.pid) for _ in range(3))  # other processes come and go
        page, few, many = 48 * 1024, 4, 16
        self.assertLess(of(many) - of(few), (many - few) * 8 * page)


class BesidePerf(unittest.TestCase):
    def beside(self, command):
        """The exact command of the documentation, beside a running benchmark."""
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=clean_environment()) as launcher:
            try:
                def moving():
                    done = subprocess.run([STATUS, "--all", "--json"], capture_output=True, text=True, check=False,
                                          timeout=PATIENCE, env=clean_environment())
                    all_jobs = json.loads(done.stdout)["jobs"]
                    ours = [one for job in all_jobs for one in job["processes"] if jobs.descends(one["pid"], launcher.pid)]
                    counts = [one["groups"][0]["broadcasts"]["entered"] for one in ours if one["groups"]]
                    return sorted(counts) if len(counts) == 4 and min(counts) > 0 else None
                first = until("four ranks broadcast", moving)
                until("they have broadcast more", lambda: (moving() or first)[0] > first[-1])
            finally:
                launcher.terminate()
                launcher.communicate(timeout=PATIENCE)

    def test_under_coppice_run(self):
        self.beside([RUN, "-n", "4", PERF, "broadcast", "-s", "64", "-n", "10000000", "--verify"])

    @unittest.skipUnless(shutil.which("mpirun.openmpi"), "Open MPI's mpirun is missing (tools/setup.sh --test)")
    def test_under_mpirun(self):
        self.beside([*MPIRUN, "4", PERF, "broadcast", "-s", "64", "-n", "10000000", "--verify"])


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


SAMPLE = re.compile(r'^([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (-?\d[\d.e+-]*)$')


class Metrics(unittest.TestCase):
    def metrics(self, text):
        """Parses the text format, and holds it to its rules: HELP, TYPE, then all samples of that name, no series twice."""
        types, series, name = {}, {}, None
        for line in text.splitlines():
            if line.startswith("# HELP "):
                name = line.split()[2]
                self.assertNotIn(name, types, "the samples of a metric stand together")
            elif line.startswith("# TYPE "):
                self.assertEqual(line.split()[2], name)
                types[name] = line.split()[3]
                self.assertIn(types[name], ("gauge", "counter"))
                self.assertEqual(name.endswith("_total"), types[name] == "counter")
            else:
                sample = SAMPLE.match(line)
                self.assertTrue(sample, line)
                self.assertEqual(sample[1], name)
                key = (sample[1], sample[2])
                self.assertNotIn(key, series)
                series[key] = float(sample[3])
        self.assertTrue(text.endswith("\n"))
        return types, series

    def test_the_text_format(self):
        with Job(4, "*:b0 a b2", "2:b0 a pause") as job:
            job.await_blocked(0, 1, 3)
            done = status(job.launcher.pid, "--prometheus")
        self.assertEqual(done.returncode, 0, done.stderr)
        types, series = self.metrics(done.stdout)
        self.assertGreaterEqual(len(types), 15)
        entered = [value for (name, _), value in series.items() if name == "coppice_broadcasts_entered_total"]
        self.assertEqual(sorted(entered), [1, 2, 2, 2])
        waits = {re.search('rank="(.)"', labels)[1]: value for (name, labels), value in series.items()
                 if name == "coppice_operation_wait_seconds"}
        self.assertEqual(set(waits), {"0", "1", "3"})
        self.assertEqual(series[("coppice_findings", None)], 1)
        if promtool := shutil.which("promtool"):  # of Debian's prometheus, which brings a daemon: no test installs it
            judged = subprocess.run([promtool, "check", "metrics"], input=done.stdout, capture_output=True, text=True, check=False)
            self.assertEqual(judged.returncode, 0, judged.stdout + judged.stderr)


class Watching(unittest.TestCase):
    def test_it_shows_again_and_again(self):
        with Job(2, "*:b0 pause") as job:
            until("both are there", lambda: len(job.by_rank()) == 2)
            with subprocess.Popen([STATUS, str(job.launcher.pid), "--watch", "0.1"], stdout=subprocess.PIPE, text=True,
                                  env=clean_environment()) as watching:
                tables = 0
                while tables < 3:
                    line = watching.stdout.readline()
                    self.assertTrue(line, "it has ended")
                    tables += line.startswith("job coppice-run-")
                watching.terminate()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1]+sys.argv[5:], verbosity=2)
