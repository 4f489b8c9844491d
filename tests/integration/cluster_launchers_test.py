#!/usr/bin/env python3
"""Ranks on the hosts of a box, by launchers that are not ours: together, and when a host loses power or its cable.

Usage: cluster_launchers_test.py CLUSTER COPPICE_PERF LAUNCHED SOME_RANKS COPPICE_STATUS COPPICE_RUN"""

import itertools
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402

CLUSTER, PERF, LAUNCHED, SOME_RANKS, STATUS, RUN = (os.path.abspath(path) for path in sys.argv[1:7])
DEADLINE = 280
SRUN = ["srun", "-N4", "-n8", "--no-kill", "--kill-on-bad-exit=0"]
MPIRUN = ["mpirun", "--enable-recovery", "-np", "8"]
HYDRA = ["mpiexec.hydra", "-disable-auto-cleanup", "-n", "8"]
# As docs/launchers.md has it; and the box's own, by which it gets to know the ranks' exit codes.
THROUGH_A_SHELL = ["sh", "-c", 'trap "" USR1; "$@"; exit $?', "sh"]
THROUGH_THE_BOX = [os.path.join(os.path.dirname(CLUSTER), "cluster.d", "rank")]
# A rank's shell; of rank 3 it kills the program while it runs, once that has its group.
ONE_IS_KILLED = ('[ "${PMIX_RANK:-$PMI_RANK}" = 3 ] || exec "$@"; "$@" & '
                 f'while kill -0 $! && ! {STATUS} $! 2>&1 | grep -q " 3/8 "; do sleep 0.05; done; kill -9 $!; wait $!')
# The same, where the launcher itself has started the program.
ONE_IS_KILLED_BY_ANOTHER = (f'[ "${{PMIX_RANK:-$PMI_RANK}}" = 3 ] && (while kill -0 $$ && ! {STATUS} $$ 2>&1 | grep -q " 3/8 "; do sleep 0.05; done; kill -9 $$) & '
                            'exec "$@"')
# On a machine that is busy with other things, the kernel may let a silent host's peers wait. A rank of a living host that is kept from
# its core for longer than the bound is taken for dead: then the next one is tried, with as much more time for all of it.
BOUNDS = ((2, 0), (20, 30), (20, 30))
TAKEN_FOR_DEAD = re.compile("this rank was taken for dead by the others|whose side goes on without this one")
# So does Slurm take a host for lost that lives, and shows nothing more of what that one's ranks say.
NODE_TIMEOUTS = (5, 60, 60)


class InBox(unittest.TestCase):
    def run_in_box(self, *words, expected=True):
        lost = {fault.partition("@")[0] for option, fault in itertools.pairwise(words) if option in ("--power-off", "--cut")}
        for node_timeout in NODE_TIMEOUTS if lost else NODE_TIMEOUTS[1:]:
            done = jobs.run([CLUSTER, "run", "--hosts", "4", "--node-timeout", str(node_timeout), *words], DEADLINE)
            if lost.issuperset(re.findall(r"Node failure on n(\d+)", done.stdout + done.stderr)):
                break
        if expected:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def lose_a_host(self, command, seconds, said="2 of 8 ranks died"):
        """`command` makes the words from "COPPICE_DETECTION_BOUND=…" and the time that the program runs for."""
        for bound, more in BOUNDS:
            done = self.run_in_box(*command(f"COPPICE_DETECTION_BOUND={bound}s", f"{seconds + more}s"), expected=False)
            # Nor does the fault come when it should where the ranks begin late.
            if not TAKEN_FOR_DEAD.search(done.stderr) and "before its first broadcast" not in done.stdout:
                break
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(said, done.stdout)
        self.assertIn("lost 0 corrupt 0 duplicate 0", done.stdout)
        return done

    def expect_all(self, done, groups=2, dead=None):
        together = 0xff if dead is None else 0xff & ~(1 << dead)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"rank {r} of 8 on 4 hosts, {groups} groups, together {together:#x}" for r in range(8) if r != dead], done.stderr)

    def test_group_after_group_under_srun_with_pmix_and_pmi2_and_under_mpirun(self):
        for words in (["--slurm", "--", *SRUN, "--mpi=pmix"], ["--slurm", "--", *SRUN, "--mpi=pmi2"], ["--", *MPIRUN]):
            with self.subTest(words=words):
                self.expect_all(self.run_in_box(*words, LAUNCHED, "2"))

    def test_a_group_under_hydra(self):
        self.expect_all(self.run_in_box("--", *HYDRA, LAUNCHED, "1"), groups=1)

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
                self.expect_all(done, dead=3)
                self.assertEqual(done.returncode, 137, done.stderr)

    # Where ranks are on several hosts it never returns.
    def test_a_rank_is_killed_under_mpirun(self):
        done = self.run_in_box("--", *MPIRUN, LAUNCHED, "2", "3")
        self.expect_all(done, dead=3)
        self.assertIn("the surviving ranks are done; ending their launcher", done.stderr)

    # As docs/launchers.md has it: what ends the job all the same. A rank that comes to its time tells how many died.
    def expect_the_end(self, *words, program=ONE_IS_KILLED):
        done = self.run_in_box(*words, "sh", "-c", program, "sh", PERF, "agree", "-n", "16000000", "--for", "200s", expected=False)
        self.assertNotEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("of 8 ranks died", done.stdout)
        return done

    def test_a_killed_rank_ends_the_job_under_mpirun_without_recovery(self):
        self.expect_the_end("--", *(word for word in MPIRUN if word != "--enable-recovery"))

    # Whatever it was told: it has started the rank itself, and sees the signal.
    def test_a_killed_rank_ends_the_job_under_hydra_without_a_shell(self):
        self.expect_the_end("--", *HYDRA, program=ONE_IS_KILLED_BY_ANOTHER)

    def test_a_killed_rank_ends_the_job_under_srun_where_the_site_says_so(self):
        """Without the option it is as the site has configured it, which SLURM_KILL_BAD_EXIT stands for here."""
        done = self.expect_the_end("--slurm", "--", "env", "SLURM_KILL_BAD_EXIT=1", *(word for word in SRUN if word != "--kill-on-bad-exit=0"), "--mpi=pmi2")
        self.assertIn("Terminating StepId", done.stderr)

    def test_a_lost_host_ends_the_job_under_srun_without_no_kill(self):
        done = self.run_in_box("--slurm", "--power-off", "3@2s", "--", *(word for word in SRUN if word != "--no-kill"), "--mpi=pmi2", PERF, "agree", "-n", "16000000",
                               "--for", "200s", expected=False)
        self.assertIn("NODE FAIL", done.stderr.upper())
        self.assertNotIn("of 8 ranks died", done.stdout)

    # It takes the end of a client's connection for the failure of the step.
    def test_slurm_ends_a_step_whose_ranks_keep_their_sessions_of_pmix(self):
        done = self.run_in_box("--slurm", "--", "env", "COPPICE_PMIX_SESSION=keep", *SRUN, "--mpi=pmix", "sh", "-c", ONE_IS_KILLED, "sh", PERF,
                               "agree", "-n", "16000000", "--for", "200s", expected=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Job step aborted", done.stderr)
        self.assertNotIn("of 8 ranks died", done.stdout)

    def test_a_rank_is_killed_under_hydra(self):
        for through in (THROUGH_A_SHELL, THROUGH_THE_BOX):
            with self.subTest(through=through):
                for _ in range(jobs.HYDRAS_TRIES):
                    done = self.run_in_box("--", *HYDRA, *through, "sh", "-c", ONE_IS_KILLED, "sh", PERF, "agree", "-n", "2000000", "--for", "9s",
                                           expected=False)
                    if not jobs.hydra_has_lost_a_proxy(done.returncode, done.stdout + done.stderr):
                        break
                self.assertIn("1 of 8 ranks died", done.stdout)
                self.assertIn("disagreed 0 wrong 0 lost 0", done.stdout)
                self.assertEqual(done.returncode, 137, done.stderr)

    # Why the shell ignores SIGUSR1: of that mpiexec.hydra makes a notice to the ranks of other hosts, which is the end of those that do not expect it.
    def test_hydra_tells_other_hosts_of_a_rank_s_end_by_a_signal(self):
        goes_on = "exec python3 -c 'import time; time.sleep(200); print(\"it went on\")'"
        done = self.run_in_box("--", *HYDRA, "sh", "-c", f'"$@"; code=$?; [ $PMI_RANK = 3 ] || {goes_on}; exit $code', "sh",
                               LAUNCHED, "1", "3", expected=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("it went on", done.stdout)

    def test_a_host_loses_power_under_hydra_which_ends_the_job(self):
        done = self.run_in_box("--power-off", "3@2s", "--", *HYDRA, *THROUGH_THE_BOX, PERF, "agree", "-n", "16000000", "--for", "200s",
                               expected=False)
        self.assertEqual(done.returncode, 255, done.stdout + done.stderr)
        self.assertIn("[mpiexec@ctl]", done.stderr)
        self.assertNotIn("of 8 ranks died", done.stdout)

    def test_a_cable_is_cut_under_hydra(self):
        done = self.lose_a_host(lambda bound, time: ["--cut", "2@2s", "--", "env", bound, *HYDRA, *THROUGH_THE_BOX, PERF, "broadcast", "-s",
                                                     "64", "--for", time, "--verify"], 10)
        self.assertIn("the surviving ranks are done; ending their launcher", done.stderr)

    def test_a_host_loses_power_under_mpirun(self):
        done = self.run_in_box("--power-off", "3@2s", "--", *MPIRUN, PERF, "agree", "-n", "2000000", "--for", "8s")
        self.assertIn("2 of 8 ranks died", done.stdout)
        self.assertIn("disagreed 0 wrong 0 lost 0", done.stdout)
        self.assertIn("the surviving ranks are done; ending their launcher", done.stderr)

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

    # The other half of what srun can meet, in one box and at the same time: each of two steps loses a host of its own.
    def test_a_host_loses_power_under_pmix_and_a_cable_is_cut_under_pmi2(self):
        for bound, more in BOUNDS:
            def step(way, hosts, *program):
                words = ["srun", "-w", hosts, "-N3", "-n6", "--no-kill", "--kill-on-bad-exit=0", f"--mpi={way}", PERF, *program]
                return f"({' '.join(words)}; echo exit code $?) 2>&1 | sed 's/^/{way}: /' & "
            script = (f"export COPPICE_DETECTION_BOUND={bound}s; "  # pylint: disable=cell-var-from-loop
                      + step("pmix", "n0,n1,n3", "agree", "-n", "2000000", "--for", f"{8 + more}s")
                      + step("pmi2", "n0,n1,n2", "broadcast", "-s", "64", "--for", f"{8 + more}s", "--verify") + "wait")
            done = self.run_in_box("--slurm", "--power-off", "3@2s", "--cut", "2@2s", "--", "sh", "-c", script)
            if not TAKEN_FOR_DEAD.search(done.stdout):
                break
        for way, result in (("pmix", "disagreed 0 wrong 0 lost 0"), ("pmi2", "lost 0 corrupt 0 duplicate 0")):
            said = "\n".join(re.findall(f"^{way}: (.*)", done.stdout, re.M))
            for words in ("2 of 6 ranks died", result, "exit code 0"):
                self.assertIn(words, said, done.stdout + done.stderr)

    # coppice-run starts ranks on one machine, so the hosts that it loses are its own, within one of the box.
    def test_coppice_run_kills_a_rank_and_loses_hosts_of_its_own(self):
        run = [RUN, "-n", "8", "--hosts", "4"]
        done = self.run_in_box("--", *run, LAUNCHED, "2", "3", expected=False)
        self.expect_all(done, dead=3)
        self.assertEqual(done.returncode, 137, done.stderr)
        done = self.run_in_box("--", *run, "--kill", "1@1s", "--kill-host", "3@1500ms", PERF, "agree", "-n", "2000000", "--for", "4s")
        self.assertIn("3 of 8 ranks died", done.stdout)
        self.assertIn("disagreed 0 wrong 0 lost 0", done.stdout)
        self.lose_a_host(lambda bound, time: ["--", "env", bound, *run, "--cut", "2@joined+1s", PERF, "broadcast", "-s", "64", "--for", time, "--verify"],
                         5, said="0 of 8 ranks died, 2 lost: cut off, and still alive")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("SKIP: making hosts needs the rights of root")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[7:]])
