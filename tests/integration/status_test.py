#!/usr/bin/env python3
"""coppice-status beside jobs that hang or are stopped: what waits, for what, and since when.

Usage: status_test.py COPPICE_STATUS COPPICE_RUN HANGING COPPICE_PERF [TEST…]"""

import ctypes
import os
import signal
import sys
import time
import unittest

from status_jobs import Job, status, until


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

    def test_a_wait_is_shown_since_it_began_and_not_since_an_earlier_one(self):
        for variables in ({}, {"COPPICE_PROGRESS_THREAD": "0"}):
            with self.subTest(variables), Job(2, "0:b0 r1", "1:b0 pause", **variables) as job:
                until("it has waited, and stopped itself", lambda: job.by_rank().get(0, {}).get("state") == "stopped")
                time.sleep(0.2)  # longer than who comes back for a request at once is away
                begins = time.monotonic()
                os.kill(job.by_rank()[0]["pid"], signal.SIGCONT)

                def waits_since_then():
                    operation = job.operations()[0]
                    return operation and operation["waits_for"] and operation["since_s"] <= time.monotonic() - begins
                until("it waits again, and not for longer", waits_since_then)

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
                self.assertEqual([one[name] for name in ("writes", "garbage", "refused", "chunks", "chunks_damaged", "unregistered")], [0] * 6, counters)
            # The other three have received at least one broadcast and one result each; four ranks are not joined by fewer than three connections.
            self.assertGreaterEqual(sum(one["sends"] for one in counters), 6)
            self.assertGreaterEqual(sum(one["connections"] for one in counters), 3)
        with Job(4, "*:b0 a b3", "3:b0 a pause") as job:
            job.await_blocked(0, 1, 2)
            self.assertEqual({one["transports"] for one in groups(job)}, {"shm within hosts"})
            self.assertEqual({(one["counters"]["sends"], one["counters"]["received"]) for one in groups(job)}, {(0, 0)})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1]+sys.argv[5:], verbosity=2)
