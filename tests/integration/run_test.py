"""coppice-run with real processes: what it starts, how it ends, and that nothing is left behind."""

import glob
import os
import re
import resource
import signal
import subprocess
import tempfile

from launcher import DEADLINE, environment, LauncherTest, main, RANK, RUN, run, wait_for


class Arguments(LauncherTest):
    def refused(self, *arguments, says):
        result = run(*arguments)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(says, result.stderr)
        self.assertIn("--help", result.stderr)
        for line in result.stderr.splitlines():
            self.assertTrue(line.startswith("coppice-run: "), line)

    def test_help_has_examples(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        for part in ("--kill", "--stop", "--hosts", "--timeout", "--tag-output", "--bind", "Examples:"):
            self.assertIn(part, result.stdout)

    def test_version(self):
        result = run("--version")
        self.assertEqual((result.returncode, bool(re.match(r"coppice-run \d+\.\d+\.\d+\n", result.stdout))), (0, True))

    def test_mistakes_are_named(self):
        self.refused("-n", "2", says="no PROGRAM")
        self.refused("true", says="--ranks")
        self.refused("-n", "0", "true", says="not in range")
        self.refused("-n", "many", "true", says="many")
        self.refused("-n", "2", "--frobnicate", "true", says="unknown option '--frobnicate'")
        self.refused("--frobnicate", says="unknown option '--frobnicate'")
        self.refused("-n", "2", "--kill", "1", "true", says="RANK@TIME")
        self.refused("-n", "2", "--kill", "x@1s", "true", says="RANK@TIME")
        self.refused("-n", "2", "--kill", "1@3", "true", says="'3' is no time")
        self.refused("-n", "2", "--kill", "1@-3s", "true", says="is no time")
        self.refused("-n", "2", "--kill", "1@3s+1s", "true", says="is no time")
        self.refused("-n", "2", "--kill", "2@3s", "true", says="outside of 0…1")
        self.refused("-n", "2", "--kill-host", "1", "true", says="HOST@TIME")
        self.refused("-n", "4", "--hosts", "2", "--kill-host", "2@3s", "true", says="host 2 is outside of 0…1")
        self.refused("-n", "2", "--stop", "7@3s", "true", says="outside of 0…1")
        self.refused("-n", "2", "--stop", "1@3s+x", "true", says="is no duration")
        self.refused("-n", "2", "--hosts", "2", "--cut", "1", "true", says="HOST@TIME")
        self.refused("-n", "2", "--hosts", "2", "--cut", "1@3s+x", "true", says="is no duration")
        self.refused("-n", "3", "--hosts", "2", "--cut", "2@3s", "true", says="host 2 is outside of 0…1")
        self.refused("-n", "3", "--cut", "0@3s", "true", says="no cables without simulated hosts")
        self.refused("-n", "2", "--devices", "a,b", "--cut", "0@3s", "true", says="RDMA devices have no cables")
        for cut, reason in (("0,1/2,3", "HOSTS/HOSTS@TIME"), ("0,1/2@1s", "host 3 is on neither side of 0,1/2"),
                            ("0,1/2,3,4@1s", "host 4 is outside of 0…3"), ("0,1/2,3,999@1s", "host 999 is outside of"),
                            ("0,1/1,2,3@1s", "host 1 is named twice"), ("0,1,2,3/@1s", "'' is no host"),
                            ("0,1/2,3,@1s", "'' is no host"), ("0-1/2,3@1s", "'0-1' is no host"),
                            ("0,1/2,3@1s+x", "is no duration"), ("0/1/2,3@1s", "'1/2' is no host")):
            self.refused("-n", "4", "--hosts", "4", "--cut", cut, "true", says=reason)
        self.refused("-n", "4", "--cut", "0,1/2,3@3s", "true", says="no cables without simulated hosts")
        self.refused("-n", "2", "--devices", "a,b", "--cut", "0/1@3s", "true", says="RDMA devices have no cables")
        self.refused("-n", "4", "--hosts", "4", "--kill", "0,1/2,3@1s", "true", says="RANK@TIME")
        self.refused("-n", "2", "--timeout", "soon", "true", says="--timeout")
        self.refused("-n", "2", "--timeout", "0", "true", says="--timeout")
        self.refused("-n", "2", "--bind", "socket", "true", says="socket")
        self.refused("-n", "2", "--hosts", "3", "true", says="only 2 ranks")

    def test_options_end_at_the_program(self):
        result = run("-n", "1", "echo", "5", "-n", "--kill", "--help", "--", "x")
        self.assertEqual((result.returncode, result.stdout), (0, "5 -n --kill --help -- x\n"))
        result = run("-n", "1", "--", "echo", "--", "y")
        self.assertEqual((result.returncode, result.stdout), (0, "-- y\n"))


class Endings(LauncherTest):
    def test_zero_when_all_ranks_exit_with_zero(self):
        result = run("-n", "5", "true")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_a_failing_rank_is_named_and_its_code_returned(self):
        result = run("-n", "4", "sh", "-c", "[ $COPPICE_RANK != 2 ] || exit 42")
        self.assertEqual(result.returncode, 42)
        self.assertRegex(result.stderr, r"^coppice-run: rank 2 \(pid \d+\) exited with code 42\n$")

    def test_a_crash_is_128_plus_the_signal(self):
        result = run("-n", "3", "sh", "-c", "[ $COPPICE_RANK != 1 ] || kill -SEGV $$")
        self.assertEqual(result.returncode, 128 + signal.SIGSEGV)
        self.assertRegex(result.stderr, r"rank 1 \(pid \d+\) was killed by signal 11 \(Segmentation fault\)")

    def test_every_failing_rank_is_named(self):
        result = run("-n", "3", "sh", "-c", "exit $((COPPICE_RANK + 3))")
        self.assertIn(result.returncode, (3, 4, 5))
        for rank in range(3):
            self.assertRegex(result.stderr, rf"rank {rank} \(pid \d+\) exited with code {rank + 3}")

    def test_a_program_that_is_not_there(self):
        for name in ("no-such-program", "./no-such-program"):
            result = run("-n", "3", name)
            self.assertEqual(result.returncode, 127)
            self.assertIn(f"cannot run '{name}'", result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertEqual(run("-n", "2", "/etc/passwd").returncode, 126)

    def test_timeout_names_the_ranks_still_running(self):
        # Rank 1 ends at once, which on a busy machine may take more than the shortest of them.
        for seconds in (1, 5, 25):
            result = run("-n", "3", "--timeout", str(seconds), "sh", "-c", "[ $COPPICE_RANK = 1 ] || exec sleep 1000")
            self.assertEqual(result.returncode, 124)
            self.assertIn(f"timeout after {seconds} s; still running: ranks 0, ", result.stderr)
            if "ranks 0, 1, 2" not in result.stderr:
                break
        self.assertIn("still running: ranks 0, 2", result.stderr)

    def test_timeout_also_ends_ranks_that_do_not_want_to(self):
        script = "trap '' TERM; echo deaf; while :; do sleep 0.1; done"
        running = self.start("-n", "2", "--timeout", "1s", "sh", "-c", script)
        self.assertEqual(running.wait(), 124)
        running.assert_nothing_left()

    def test_ranks_that_cannot_be_forked_are_an_error_and_leave_nothing(self):
        if os.geteuid() != 0:
            self.skipTest("the test needs another user's limit on processes")
        user = 20000 + os.getpid() % 40000  # whose processes no other run of this test counts
        # The limit counts what the user has everywhere, so it starts from there.
        used = subprocess.run(["find", "/proc", "-maxdepth", "1", "-uid", str(user)], capture_output=True, text=True,
                              check=False).stdout.count("\n")
        limit = (used + 10, used + 10)
        try:
            result = subprocess.run([RUN, "-n", "50", "sleep", "1000"], capture_output=True, text=True,
                                    timeout=DEADLINE, env=environment(), cwd="/", check=False, user=user, group=user,
                                    extra_groups=[], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, limit))
        except PermissionError:
            self.skipTest("another user cannot reach the program here")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"only \d+ of 50 ranks could be started: fork: .*ulimit -u")


class Ranks(LauncherTest):
    def test_environment(self):
        script = "echo $COPPICE_RANK/$COPPICE_SIZE $COPPICE_LOCAL_RANK/$COPPICE_LOCAL_SIZE ${COPPICE_HOST-none}"
        result = run("-n", "3", "sh", "-c", script)
        self.assertEqual(sorted(result.stdout.splitlines()), [f"{r}/3 {r}/3 none" for r in range(3)])

    DEVICES = "echo $COPPICE_RANK $COPPICE_HOST $COPPICE_LOCAL_RANK/$COPPICE_LOCAL_SIZE $COPPICE_VERBS_DEVICE " \
              "$COPPICE_UCX_NET_DEVICES; readlink /proc/self/ns/net"

    def test_devices_stand_for_hosts(self):
        here = os.readlink("/proc/self/ns/net")
        expected = sorted(["0 host0 0/2 a a:1", "1 host0 1/2 a a:1", "2 host1 0/1 b b:1"] + [here] * 3)
        result = run("-n", "3", "--devices", "a,b", "sh", "-c", self.DEVICES)
        self.assertEqual(sorted(result.stdout.splitlines()), expected, result.stderr)
        os.environ["COPPICE_RUN_DEVICES"] = "a,b,c"
        try:
            result = run("-n", "3", "--hosts", "2", "sh", "-c", self.DEVICES, clean=False)
            self.assertEqual(sorted(result.stdout.splitlines()), expected, result.stderr)
            result = run("-n", "1", "sh", "-c", "echo ${COPPICE_HOST-none}", clean=False)
            self.assertEqual(result.stdout, "none\n")
        finally:
            del os.environ["COPPICE_RUN_DEVICES"]

    def test_more_hosts_than_devices_are_refused(self):
        result = run("-n", "4", "--hosts", "3", "--devices", "a,b", "true")
        self.assertEqual(result.returncode, 2)
        self.assertIn("only 2 RDMA devices", result.stderr)
        self.assertEqual(run("-n", "4", "--devices", "a,,b", "true").returncode, 2)

    def test_one_session_and_process_group_for_all(self):
        result = run("-n", "3", "python3", "-c", "import os; os.write(1, f'{os.getsid(0)} {os.getpgid(0)}\\n'.encode())",
                     process_group=0)
        self.assertEqual(len(set(result.stdout.splitlines())), 1)
        self.assertEqual(result.stdout.split()[0], str(os.getsid(0)))

    def test_pinned_round_robin_unless_told_not_to(self):
        cores = sorted(os.sched_getaffinity(0))
        program = ("python3", "-c", "import os; print(sorted(os.sched_getaffinity(0)))")
        result = run("-n", "5", "--tag-output", *program)
        self.assertEqual(sorted(result.stdout.splitlines()), [f"[{r}] [{cores[r % len(cores)]}]" for r in range(5)])
        result = run("-n", "2", "--tag-output", "--bind", "none", *program)
        self.assertEqual(sorted(result.stdout.splitlines()), [f"[{r}] {cores}" for r in range(2)])

    def test_only_rank_0_has_the_standard_input(self):
        with tempfile.TemporaryFile("w+") as file:
            file.write("words")
            file.seek(0)
            result = run("-n", "3", "sh", "-c", "echo $COPPICE_RANK:$(cat)", stdin=file)
        self.assertEqual(sorted(result.stdout.splitlines()), ["0:words", "1:", "2:"])

    def test_signals_and_limits_are_as_the_launcher_found_them(self):
        show = "grep -E '^Sig(Blk|Ign)' /proc/self/status; ulimit -n"
        bare = subprocess.run(["sh", "-c", show], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
        self.assertEqual(run("-n", "1", "sh", "-c", show).stdout, bare.stdout)

    def test_tagged_output_loses_nothing(self):
        script = "i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); done; printf last; echo bad >&2; kill -9 $$"
        result = run("-n", "3", "--tag-output", "sh", "-c", script)
        lines = result.stdout.splitlines()
        for rank in range(3):
            mine = [line for line in lines if line.startswith(f"[{rank}] ")]
            self.assertEqual(mine, [f"[{rank}] line {i}" for i in range(300)] + [f"[{rank}] last"])
            self.assertIn(f"[{rank}] bad\n", result.stderr)
        self.assertEqual(len(lines), 903)


class Exchange(LauncherTest):
    def test_sixteen_ranks_several_rounds(self):
        result = run("-n", "16", RANK, "exchange", "10")
        self.assertEqual((result.returncode, result.stdout), (0, "exchanged, dead: 0\n" * 16), result.stderr)

    def test_ranks_that_never_call_and_end_count_as_dead(self):
        result = run("-n", "6", "sh", "-c", f"[ $COPPICE_RANK = 4 ] || exec {RANK} exchange")
        self.assertEqual((result.returncode, result.stdout), (0, "exchanged, dead: 1\n" * 5), result.stderr)

    def test_wrapped_by_shells_and_one_program_after_the_other(self):
        result = run("-n", "4", "sh", "-c", f"sh -c '{RANK} exchange; {RANK} exchange; true'; {RANK} exchange; true")
        self.assertEqual((result.returncode, result.stdout), (0, "exchanged, dead: 0\n" * 12), result.stderr)

    def test_garbage_is_dropped_and_counted(self):
        result = run("-n", "3", RANK, "garbage")
        self.assertEqual((result.returncode, result.stdout), (0, "exchanged, dead: 0\n" * 3), result.stderr)
        self.assertIn("dropped 3 connections", result.stderr)


class NothingLeft(LauncherTest):
    # A rank with a child that has left its session, and one that ignores signals.
    SCRIPT = (f"trap '' INT TERM HUP; setsid sleep 1000 & {RANK} stay & wait")

    def started(self, *options):
        before = set(glob.glob("/tmp/coppice-*"))
        running = self.start("-n", "3", *options, "sh", "-c", self.SCRIPT)
        running.wait_for_output("ready", 3)
        # Launchers of other tests have theirs for a moment when they start.
        for folder in set(glob.glob("/tmp/coppice-??????")) - before:
            wait_for(lambda: not os.path.exists(folder), f"the end of {folder}")  # pylint: disable=cell-var-from-loop
        return running

    def test_after_sigint_sigterm_and_sighup(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                running = self.started()
                running.process.send_signal(number)
                self.assertEqual(running.wait(), 128 + number)
                self.assertIn("ending 3 ranks", running.stderr)
                running.assert_nothing_left()

    def test_after_ctrl_c_for_the_whole_process_group(self):
        running = self.start("-n", "3", RANK, "stay")
        running.wait_for_output("ready", 3)
        os.killpg(running.process.pid, signal.SIGINT)
        self.assertEqual(running.wait(), 128 + signal.SIGINT)
        running.assert_nothing_left()

    def test_after_sigkill_of_the_launcher(self):
        running = self.started()
        running.process.kill()
        running.wait()
        running.assert_nothing_left()

    def test_after_sigkill_of_the_launchers_working_process(self):
        running = self.started()
        os.kill(running.worker(), signal.SIGKILL)
        self.assertEqual(running.wait(), 128 + signal.SIGKILL)
        running.assert_nothing_left()

    def test_after_a_normal_end_with_a_forgotten_child(self):
        running = self.start("-n", "2", "sh", "-c", "setsid sleep 1000 &")
        self.assertEqual(running.wait(), 0)
        running.assert_nothing_left()


if __name__ == "__main__":
    main()
