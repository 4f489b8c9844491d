"""coppice-run --kill, --kill-host and --stop with real processes."""

import os
import re
import shutil
import signal
import tempfile
import time

from launcher import alive, has_pending, LauncherTest, main, RANK, run, state_of, wait_for


class Faults(LauncherTest):
    def test_a_rank_killed_on_purpose_is_no_failure(self):
        running = self.start("-n", "4", "--kill", "2@start+100ms", "sh", "-c",
                             "[ $COPPICE_RANK = 2 ] && sleep 1000; exit 0")
        self.assertEqual(running.wait(), 0)
        self.assertRegex(running.stderr, r"^coppice-run: killed rank 2 \(pid \d+\) at 100 ms\n$")
        running.assert_nothing_left()

    def test_a_killed_host_is_all_its_ranks(self):
        running = self.start("-n", "5", "--hosts", "2", "--kill-host", "1@start+100ms", "sh", "-c",
                             "[ $COPPICE_RANK -lt 3 ] || sleep 1000")
        self.assertEqual(running.wait(), 0)
        for rank in (3, 4):
            self.assertRegex(running.stderr, rf"killed rank {rank} \(pid \d+\) at 100 ms")
        self.assertEqual(running.stderr.count("killed rank"), 2)

    def test_kills_count_from_the_first_exchange(self):
        # Rank 0 calls when it is told to. The kill at 0 must not come before.
        with tempfile.TemporaryDirectory() as directory:
            gate = f"{directory}/gate"
            running = self.start("-n", "2", "--kill", "1@joined+0", "sh", "-c",
                                 f"[ $COPPICE_RANK = 1 ] || while ! [ -e {gate} ]; do sleep 0.01; done; exec {RANK} stay")
            # Rank 1 waits for rank 0 and is not killed; a while later it still lives.
            time.sleep(0.5)
            self.assertEqual(running.stderr, "")
            with open(gate, "w", encoding="utf-8"):
                pass
            wait_for(lambda: "killed rank 1" in running.stderr, "the kill")
            running.wait_for_output("ready")
            running.process.send_signal(signal.SIGTERM)
            self.assertEqual(running.wait(), 128 + signal.SIGTERM)

    def test_kills_count_from_the_start_when_nobody_exchanges_anything(self):
        running = self.start("-n", "2", "--kill", "1@1ms", "sh", "-c", "[ $COPPICE_RANK = 0 ] || sleep 1000")
        self.assertEqual(running.wait(), 0)
        self.assertRegex(running.stderr, r"killed rank 1 \(pid \d+\) at 1 ms")

    def test_kills_may_count_from_the_start(self):
        running = self.start("-n", "3", "--kill", "1@start+0", RANK, "exchange")
        self.assertEqual(running.wait(), 0)
        self.assertTrue("killed rank 1" in running.stderr or "rank 1 had ended before" in running.stderr)

    def test_what_a_killed_rank_had_started_dies_with_it(self):
        running = self.start("-n", "2", "--kill", "1@start+100ms", "sh", "-c",
                             "[ $COPPICE_RANK = 1 ] || exit 0; sleep 1000 | sleep 1000")
        self.assertEqual(running.wait(), 0)
        running.assert_nothing_left()

    def test_the_keeper_of_a_killed_ranks_memory_stays(self):
        # It goes by its name, as the keeper names itself; a real one ends by itself a little later.
        with tempfile.TemporaryDirectory() as directory:
            keeper = f"{directory}/coppice-keep"
            os.symlink(f"{directory}/sleeps", keeper)
            shutil.copy(shutil.which("sleep"), f"{directory}/sleeps")
            # It is killed after both ranks have exchanged something, so after it has told of its children.
            script = f"""
                if [ $COPPICE_RANK = 1 ]; then
                    {keeper} 1000 & kept=$!
                    until [ "$(cat /proc/$kept/comm)" = coppice-keep ]; do sleep 0.01; done
                    sleep 1000 & echo $kept $!
                fi
                {RANK} stay >&2 & wait"""
            running = self.start("-n", "2", "--kill", "1@joined+0", "sh", "-c", script)
            wait_for(lambda: "killed rank 1" in running.stderr, "the kill")
            running.wait_for_output("\n")
            kept, other = (int(pid) for pid in running.stdout.split())
            wait_for(lambda: not alive(other), "the end of the other child")
            self.assertTrue(alive(kept))
            running.process.send_signal(signal.SIGTERM)
            self.assertEqual(running.wait(), 128 + signal.SIGTERM)
            running.assert_nothing_left()

    def test_a_rank_that_has_ended_is_not_ended_once_more(self):
        # The launcher looks which ranks have ended before it says which it ends: here all have, and a request has come
        # in meanwhile.
        with tempfile.TemporaryDirectory() as directory:
            gate = f"{directory}/gate"
            running = self.start("-n", "1", "sh", "-c", f"echo $$; exec {RANK} until {gate}")
            running.wait_for_output("\n")
            rank = int(running.stdout)
            worker = running.worker()
            os.kill(worker, signal.SIGSTOP)
            wait_for(lambda: state_of(worker) == "T", "the stop of the launcher's working process")
            with open(gate, "w", encoding="utf-8"):
                pass
            wait_for(lambda: not alive(rank), "the end of the rank")
            running.process.send_signal(signal.SIGINT)
            wait_for(lambda: has_pending(worker), "the request")
            os.kill(worker, signal.SIGCONT)
            running.wait()
            self.assertEqual(running.stderr, "")

    def test_a_kill_that_comes_too_late_is_warned_of(self):
        result = run("-n", "2", "--kill", "1@1h", "sh", "-c", "exit $COPPICE_RANK")
        self.assertEqual(result.returncode, 1)
        self.assertIn("warning: rank 1 had ended before it could be killed at 3600 s", result.stderr)

    def test_a_stopped_rank_is_continued_after_its_duration(self):
        running = self.start("-n", "2", "--stop", "1@50ms+200ms", RANK, "stay")
        running.wait_for_output("ready", 2)
        wait_for(lambda: "continued rank 1" in running.stderr, "the continuation")
        self.assertRegex(running.stderr, r"stopped rank 1 \(pid \d+\) at 50 ms\ncoppice-run: continued rank 1")
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.wait(), 128 + signal.SIGTERM)

    def test_a_stopped_rank_is_continued_when_all_others_have_ended(self):
        with tempfile.TemporaryDirectory() as directory:
            gate = f"{directory}/gate"
            # No shell: one that is stopped while it starts a child waits for that child, and never becomes T.
            running = self.start("-n", "3", "--stop", "1@start+0", RANK, "until", gate)
            wait_for(lambda: "stopped rank 1" in running.stderr, "the stop")
            pid = re.search(r"stopped rank 1 \(pid (\d+)\)", running.stderr).group(1)
            wait_for(lambda: state_of(pid) == "T", "the stop to take effect")
            with open(gate, "w", encoding="utf-8"):
                pass
            self.assertEqual(running.wait(), 0)
            self.assertIn("as all others have ended", running.stderr)


if __name__ == "__main__":
    main()
