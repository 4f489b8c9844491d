#!/usr/bin/env python3
"""Ranks that other launchers start find each other: Open MPI's mpirun by PMIx, mpiexec.hydra by PMI. And what goes wrong.

Usage: launchers_test.py LAUNCHED COPPICE_PERF COPPICE_INFO COPPICE_RUN UNSURE_PMIX"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402

LAUNCHED, PERF, INFO, RUN, UNSURE_PMIX = (os.path.abspath(path) for path in sys.argv[1:6])
DEADLINE = 240 * int(os.environ.get("COPPICE_TEST_PATIENCE", "1"))
MPIRUN = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--enable-recovery"]
HYDRA = ["mpiexec.hydra", "-disable-auto-cleanup"]


def environment(**more):
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("COPPICE_", "OMPI_", "PMIX_", "PMI_", "SLURM_"))}
    # The test runner lets programs find each library that a test is given; UNSURE_PMIX is for the one test that asks for it, not for launchers.
    found = [folder for folder in clean.get("LD_LIBRARY_PATH", "").split(":") if folder and folder != os.path.dirname(UNSURE_PMIX)]
    return clean | {"LD_LIBRARY_PATH": ":".join(found)} | more


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=DEADLINE,
                          env=environment(**more))


def hold_up_in_turns(launcher):
    """Stops the launcher and its ranks, one after the other, for some tens of milliseconds each, until the launcher ends."""
    turn = 0
    while launcher.poll() is None:
        children = subprocess.run(["pgrep", "-P", str(launcher.pid)], capture_output=True, text=True, check=False).stdout
        for process in [launcher.pid, *map(int, children.split())]:
            turn += 1
            try:
                os.kill(process, signal.SIGSTOP)
                time.sleep(0.02 + 0.037 * (turn % 5))
                os.kill(process, signal.SIGCONT)
            except ProcessLookupError:
                pass
        time.sleep(0.01)


def on_two_hosts(rank_variable, command):
    """Ranks that tell two hosts apart, so that they talk over TCP."""
    return ["sh", "-c", f'COPPICE_HOST=h$(({rank_variable} % 2)) exec "$@"', "sh", *command]


LAUNCHERS = (("pmix", MPIRUN, "PMIX_RANK"), ("pmi", HYDRA, "PMI_RANK"))
GROUPS = {"pmix": 3, "pmi": 1}  # mpiexec.hydra closes the connection after the first
# It ends all ranks when a process that it has started itself ends by a signal; and sends signals to those of other hosts.
THROUGH_A_SHELL = {"pmix": [], "pmi": ["sh", "-c", 'trap "" USR1; "$@"; exit $?', "sh"]}


def library_of_the_system(name):
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return re.search(rf"^\s*{re.escape(name)} .* => (\S+)$", known, re.MULTILINE)[1]


def real_pmix():
    return library_of_the_system("libpmix.so.2")


class Launched(unittest.TestCase):
    def test_ranks_find_each_other_group_after_group(self):
        for name, launcher, rank in LAUNCHERS:
            program = [LAUNCHED, str(GROUPS[name])]
            for hosts, command in (("1", program), ("2", on_two_hosts(rank, program))):
                with self.subTest(launcher=name, hosts=hosts):
                    done = run([*launcher, "-n", "4", *command])
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(sorted(done.stdout.splitlines()),
                                     [f"rank {r} of 4 on {hosts} hosts, {GROUPS[name]} groups, together 0xf"
                                      for r in range(4)], done.stderr)

    def test_survivors_of_a_rank_go_on(self):
        for name, launcher, _ in LAUNCHERS:
            for victim in (0, 2):
                with self.subTest(launcher=name, victim=victim):
                    done = run([*launcher, "-n", "4", *THROUGH_A_SHELL[name], LAUNCHED, str(GROUPS[name]), str(victim)])
                    self.assertEqual(sorted(done.stdout.splitlines()),
                                     [f"rank {r} of 4 on 1 hosts, {GROUPS[name]} groups, together {0xf & ~(1 << victim):#x}"
                                      for r in range(4) if r != victim], done.stderr)

    # Of which Open MPI's server makes nothing: it tells of no death.
    def test_sessions_that_are_kept_under_mpirun(self):
        for victim, together in (("-1", "0xf"), ("2", "0xb")):
            with self.subTest(victim=victim):
                done = run([*MPIRUN, "-n", "4", LAUNCHED, "3", victim], COPPICE_PMIX_SESSION="keep")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(sorted(done.stdout.splitlines()),
                                 [f"rank {r} of 4 on 1 hosts, 3 groups, together {together}" for r in range(4) if str(r) != victim], done.stderr)

    # A server of PMIx that sees the end of a rank's session late takes the rank for gone, also when its next one has begun.
    def test_ranks_and_launcher_are_held_up_between_groups(self):
        for _ in range(3):
            with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
                with subprocess.Popen([*MPIRUN, "-n", "4", LAUNCHED, "6"], stdin=subprocess.DEVNULL, stdout=output,
                                      stderr=errors, env=environment()) as launcher:
                    hold_up_in_turns(launcher)
                output.seek(0)
                errors.seek(0)
                self.assertEqual(sorted(output.read().splitlines()),
                                 [f"rank {r} of 4 on 1 hosts, 6 groups, together 0xf" for r in range(4)], errors.read())

    def test_a_rank_that_comes_late_to_a_group_is_waited_for(self):
        done = run([*MPIRUN, "-n", "4", LAUNCHED, "3", "2", "late"])
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"rank {r} of 4 on 1 hosts, 3 groups, together 0xf" for r in range(4)], done.stderr)

    # A host's server that is asked while another one is between two sessions of a rank says that there is no such rank.
    def test_a_server_that_does_not_know_a_rank_yet_is_asked_again(self):
        done = run([*MPIRUN, "-n", "4", "env", f"LD_LIBRARY_PATH={os.path.dirname(UNSURE_PMIX)}", f"UNSURE_PMIX={real_pmix()}",
                    LAUNCHED, "2"])
        self.assertIn("is not known", done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"rank {r} of 4 on 1 hosts, 2 groups, together 0xf" for r in range(4)], done.stderr)

    def test_survivors_of_a_rank_make_more_groups(self):
        for when in ("0", "1"):
            with self.subTest(when=when):
                done = run([*MPIRUN, "-n", "4", LAUNCHED, "3", "2", when])
                self.assertEqual(sorted(done.stdout.splitlines()),
                                 [f"rank {r} of 4 on 1 hosts, 3 groups, together 0xb" for r in (0, 1, 3)], done.stderr)

    def test_coppice_perf_under_mpirun(self):
        done = run(["mpirun", "--allow-run-as-root", "--oversubscribe", "--enable-recovery", "-np", "4", PERF, "broadcast",
                    "-s", "64", "-n", "2000", "--verify"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("lost 0 corrupt 0 duplicate 0", done.stdout)

    def test_a_full_dev_shm(self):
        if not jobs.can_fill_dev_shm():
            self.skipTest("a mount namespace cannot be made here: run as root to try it")
        for name, launcher, _ in LAUNCHERS:
            with self.subTest(launcher=name):
                done = run([*jobs.FULL_DEV_SHM, *launcher, "-n", "4", PERF, "broadcast", "-s", "64", "-n", "200", "--verify"])
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("lost 0 corrupt 0 duplicate 0", done.stdout)
                self.assertIn("there is: full\n", done.stdout)

    def test_coppice_info_shows_whether_deaths_are_told_of(self):
        library = real_pmix()
        for more, expected in (({}, None), ({"COPPICE_PMIX_SESSION": "keep"}, True),
                               ({"COPPICE_PMIX_SESSION": "keep", "UNSURE_PMIX_EVENTS": "refused"}, False)):
            with self.subTest(more=more):
                done = run([*MPIRUN, "-n", "2", "env", f"LD_LIBRARY_PATH={os.path.dirname(UNSURE_PMIX)}", f"UNSURE_PMIX={library}", INFO,
                            "--json"], **more)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(done.stdout)["group"].get("launcher_tells_of_deaths"), expected)

    def test_coppice_info_shows_which(self):
        for name, launcher, _ in LAUNCHERS:
            with self.subTest(launcher=name):
                done = run([*launcher, "-n", "2", INFO, "--json"])
                self.assertEqual(done.returncode, 0, done.stderr)
                facts = json.loads(done.stdout)
                self.assertEqual(facts["bootstrap"], name)
                self.assertEqual(facts["group"]["ranks"], 2)

    def test_few_addresses_are_fetched_from_the_store(self):
        # Each rank is a position: 2 log2 P + 2 d + 4, of more than 32 ranks without being asked for it.
        for name, launcher, _ in LAUNCHERS:
            for ranks, bound, chosen in ((16, 16, {"COPPICE_ADDRESSES": "few"}), (40, 18, {})):
                with self.subTest(launcher=name, ranks=ranks):
                    done = run([*launcher, "-n", str(ranks), INFO, "--json"], COPPICE_HIERARCHY="flat", COPPICE_TRANSPORT="tcp", **chosen)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    addresses = json.loads(done.stdout)["group"]["addresses"]
                    self.assertGreater(addresses["fetched"], 0)
                    self.assertLessEqual(addresses["fetched"], bound)

    def test_ranks_with_few_addresses_find_each_other(self):
        for name, launcher, rank in LAUNCHERS:
            with self.subTest(launcher=name):
                done = run([*launcher, "-n", "12", *on_two_hosts(rank, [PERF, "broadcast", "-s", "64", "-n", "200", "--verify"])],
                           COPPICE_ADDRESSES="few", COPPICE_HIERARCHY="flat", COPPICE_TREE="star")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("lost 0 corrupt 0 duplicate 0", done.stdout)


class WentWrong(unittest.TestCase):
    def expect(self, done, status, *words):
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_no_launcher_says_the_three_ways_out(self):
        self.expect(run([LAUNCHED]), 3, "coppice-run -n", "mpirun", "srun --mpi=pmix", "mpiexec.hydra",
                    "coppice_group_options_t.exchange")

    def test_two_launchers_at_once_ask_for_a_choice(self):
        command = [*[word for word in MPIRUN if word != "--enable-recovery"], "-n", "1", RUN, "-n", "2", LAUNCHED]
        self.expect(run(command), 3, "has the variables of two launchers, coppice-run", "PMIX_RANK", "COPPICE_BOOTSTRAP=coppice-run or pmix")
        done = run(command, COPPICE_BOOTSTRAP="coppice-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rank 1 of 2", done.stdout)

    def test_a_launcher_that_is_wanted_and_not_there(self):
        self.expect(run([RUN, "-n", "2", LAUNCHED], COPPICE_BOOTSTRAP="pmix"), 3, "PMIX_RANK is not set")
        self.expect(run([LAUNCHED], COPPICE_BOOTSTRAP="mpirun"), 3, "auto, coppice-run, pmix or pmi")

    def test_a_server_that_the_library_cannot_talk_to(self):
        self.expect(run([LAUNCHED], PMIX_NAMESPACE="job", PMIX_RANK="0"), 3, "can't talk to the launcher's server", "OpenPMIx")

    def test_a_server_of_another_version(self):
        # What libpmix answers a client whose server refuses it: nobody there speaks its words.
        done = run([*MPIRUN, "-n", "2", "env", f"LD_LIBRARY_PATH={os.path.dirname(UNSURE_PMIX)}", f"UNSURE_PMIX={real_pmix()}",
                    "UNSURE_PMIX_INIT=-25", "sh", "-c", f'{LAUNCHED}; echo "ended with $?"'])
        self.assertEqual(done.stdout, "ended with 3\n" * 2, done.stderr)
        self.assertEqual(len(re.findall("OpenPMIx.* can't talk to the launcher's server of PMIx: .*UNREACH.*of a version that the library does not know",
                                        done.stderr)), 2, done.stderr)

    def test_a_library_of_pmix_that_cannot_be_used(self):
        for content, words in ((b"", ["can't be loaded", "file too short", "libpmix2", "LD_LIBRARY_PATH"]),
                               (pathlib.Path(library_of_the_system("libm.so.6")).read_bytes(), ["libpmix.so.2 lacks a function", "PMIx_Init"])):
            with self.subTest(words=words), tempfile.TemporaryDirectory() as folder:
                with open(f"{folder}/libpmix.so.2", "wb") as library:
                    library.write(content)
                self.expect(run([LAUNCHED], PMIX_NAMESPACE="job", PMIX_RANK="0", LD_LIBRARY_PATH=folder), 3, *words)

    def test_a_second_group_under_hydra(self):
        done = run([*HYDRA, "-n", "2", LAUNCHED, "2"])
        self.expect(done, 3, "brings the ranks of one group together")

    def test_a_descriptor_that_is_no_launchers(self):
        self.expect(run([LAUNCHED], PMI_FD="77", PMI_RANK="0", PMI_SIZE="2"), 3, "PMI_FD=77")
        self.expect(run([LAUNCHED], PMI_FD="77", PMI_RANK="2", PMI_SIZE="2"), 3, "PMI_RANK=2 is not below PMI_SIZE=2")
        self.expect(run([LAUNCHED], PMI_FD="x", PMI_RANK="0", PMI_SIZE="2"), 3, "PMI_FD='x'")

    def test_a_rank_that_never_calls_is_waited_for_until_the_deadline(self):
        for name, launcher, rank in LAUNCHERS:
            with self.subTest(launcher=name), tempfile.TemporaryDirectory() as folder:
                over = os.path.join(folder, "over")
                late = f'if [ ${rank} = 0 ]; then while [ ! -e {over} ]; do sleep 0.1; done; else {LAUNCHED}; echo "ended with $?"; touch {over}; fi'
                done = run([*launcher, "-n", "2", "sh", "-c", late], COPPICE_START_TIMEOUT="2s")
                self.assertIn("not all ", done.stderr)
                self.assertIn("ended with 3", done.stdout)

    def test_a_launcher_that_dies_in_mid_exchange(self):
        for name, launcher, rank in LAUNCHERS:
            with self.subTest(launcher=name), tempfile.TemporaryDirectory() as folder:
                # Rank 0 never calls, and outlives the launcher, as rank 1 does.
                script = (f'trap "" TERM HUP; if [ ${rank} = 0 ]; then sleep 600 & echo $! >{folder}/pid.new; mv {folder}/pid.new {folder}/pid; wait; exit; fi; echo here >{folder}/here; '
                          f'{LAUNCHED} 2>{folder}/error; echo $? >{folder}/code.new; mv {folder}/code.new {folder}/code')
                job = subprocess.Popen([*launcher, "-n", "2", "sh", "-c", script], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(), start_new_session=True)
                try:
                    self.wait_for(f"{folder}/pid", f"{folder}/here")
                    time.sleep(0.5)  # rank 1 is in the exchange by now, or comes too late for it: an error either way
                    # The proxy first: it ends its ranks when it sees mpiexec gone.
                    for server in (*descendants(job.pid, "hydra_pmi_proxy"), job.pid):
                        os.kill(server, signal.SIGKILL)
                    self.wait_for(f"{folder}/code")
                    with open(f"{folder}/error", encoding="utf-8") as file:
                        error = file.read()
                    self.assertRegex(error, "broke off|can't talk|has ended|is it gone")
                    with open(f"{folder}/code", encoding="utf-8") as file:
                        self.assertEqual(file.read().strip(), "3")
                finally:
                    with open(f"{folder}/pid", encoding="utf-8") as file:
                        os.kill(int(file.read()), signal.SIGKILL)
                    if job.poll() is None:
                        job.kill()
                    job.wait()

    CALLS = ("PMIx_Init", "PMIx_Get", "PMIx_Put", "PMIx_Commit", "PMIx_Fence_nb", "PMIx_Get_nb", "PMIx_Finalize")

    def test_a_server_of_pmix_that_is_stopped(self):
        """Before a rank begins, and before each of the calls: no rank waits for it longer than for a group."""
        for call in ("", *self.CALLS):
            with self.subTest(call=call), tempfile.TemporaryDirectory() as folder:
                # A launcher that is stopped starts no more ranks.
                script = (f'number=$PMIX_RANK; touch {folder}/here.$number; while [ ! -e {folder}/here.0 ] || [ ! -e {folder}/here.1 ]; do sleep 0.05; done; '
                          f'{"" if call else "kill -STOP $PPID; "}UNSURE_PMIX_SERVER=$PPID {LAUNCHED} 2 2>{folder}/error.$number; '
                          f'echo $? >{folder}/new.$number; mv {folder}/new.$number {folder}/code.$number')
                stopping = [f"LD_LIBRARY_PATH={os.path.dirname(UNSURE_PMIX)}", f"UNSURE_PMIX={real_pmix()}", f"UNSURE_PMIX_STOP={call}"]
                job = subprocess.Popen([*MPIRUN, "-n", "2", "env", *(stopping if call else []), "COPPICE_START_TIMEOUT=2s", "sh", "-c", script],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
                try:
                    codes = [f"{folder}/code.{rank}" for rank in range(2)]
                    self.wait_for(*codes)
                    for rank, code in enumerate(codes):
                        error = pathlib.Path(folder, f"error.{rank}").read_text("utf-8")
                        self.assertEqual(pathlib.Path(code).read_text("utf-8").strip(), "3", error)
                        self.assertRegex(error, "the launcher's server .*is stopped, or hangs")
                finally:
                    job.send_signal(signal.SIGCONT)
                    job.kill()
                    job.wait()

    def wait_for(self, *files):
        end = time.monotonic() + DEADLINE
        while not all(os.path.exists(file) for file in files):
            self.assertLess(time.monotonic(), end, f"waited in vain for {files}")
            time.sleep(0.02)


def descendants(pid, name):
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    rows = [row.split(None, 2) for row in listed.splitlines()]
    found, grown = {str(pid)}, True
    while grown:
        more = {row[0] for row in rows if row[1] in found} - found
        found, grown = found | more, bool(more)
    return [int(row[0]) for row in rows if row[0] in found and re.match(row[2], name)]


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]])
