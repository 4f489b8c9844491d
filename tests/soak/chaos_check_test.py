"""The soak's judgement: each thing that it looks for, planted in the logs of a job, is found; and nothing where there is
nothing."""

import collections
import pathlib
import tempfile
import types
import unittest

import chaos_check
import chaos_plan

GOOD = """g 1f {rank} 0,1,2
b 1f 0 1 0
a 1f 0 0 7 -
b 1f 1 2 0
g 2f {rank} 0,1,2
s 2f 0 0
d 1f
e
"""


class Judge(unittest.TestCase):
    def judge(self, logs, output="", environment=None, doomed=(), options=()):
        plan = types.SimpleNamespace(ranks=len(logs), environment=environment or {}, options=list(options),
                                     doomed=lambda: set(doomed))
        outcome = types.SimpleNamespace(found=collections.Counter(), notes=[], output=output)
        outcome.note = lambda kind, text: (outcome.found.update([kind]), outcome.notes.append(text))
        with tempfile.TemporaryDirectory() as directory:
            for rank, text in enumerate(logs):
                pathlib.Path(directory, f"log-{rank}").write_text(text, encoding="utf-8")
            chaos_check.judge(outcome, pathlib.Path(directory), plan, 0)
        self.notes = outcome.notes
        return dict(outcome.found)

    @staticmethod
    def good(*changes):
        """Logs of three ranks; changes are (rank, what, by what)."""
        logs = [GOOD.format(rank=rank) for rank in range(3)]
        for rank, old, new in changes:
            assert old in logs[rank]
            logs[rank] = logs[rank].replace(old, new)
        return logs

    def test_nothing(self):
        self.assertEqual(self.judge(self.good()), {})

    def test_what_a_rank_found_itself(self):
        for kind in chaos_check.KINDS:
            with self.subTest(kind):
                self.assertEqual(self.judge(self.good((1, "e\n", f"x {kind} this\n")))[kind], 1)

    def test_a_root_that_failed_for_some_only(self):
        killed = "coppice-run: killed rank 2 (pid 5) at 1 s\n"
        logs = self.good((0, "b 1f 1 2 0", "b 1f 1 2 -6"), (2, "e\n", ""))
        self.assertEqual(self.judge(logs, killed), {"lost": 1}, self.notes)
        logs = self.good((0, "b 1f 1 2 0", "b 1f 1 2 -6"), (1, "b 1f 1 2 0", "b 1f 1 2 -6"), (2, "e\n", ""))
        self.assertEqual(self.judge(logs, killed), {})

    def test_a_root_that_lives_and_is_said_to_have_failed(self):
        everywhere = [(rank, "b 1f 1 2 0", "b 1f 1 2 -6") for rank in range(3)]
        self.assertEqual(self.judge(self.good(*everywhere)), {"lost": 1})

    def test_a_broadcast_that_a_rank_never_called(self):
        self.assertEqual(self.judge(self.good((2, "b 1f 1 2 0\n", ""))), {"lost": 1})

    def test_where_a_group_is_revoked_ranks_stop_at_different_calls(self):
        self.assertEqual(self.judge(self.good((0, "a 1f 0 0 7 -", "a 1f 0 -9 7 -"), (2, "b 1f 1 2 0\n", ""))), {})

    def test_agreements_that_differ(self):
        for other in ("a 1f 0 -7 7 -", "a 1f 0 0 3 -", "a 1f 0 0 7 1"):
            with self.subTest(other):
                found = self.judge(self.good((1, "a 1f 0 0 7 -", other)))
                self.assertGreaterEqual(found["diverged"], 1)

    def test_the_killed_that_went_on_were_told_the_same(self):
        killed = "coppice-run: killed rank 2 (pid 5) at 1 s\n"
        two = [(rank, "b 1f 1 2 0\n", "b 1f 1 2 0\na 1f 1 0 5 -\n") for rank in range(3)]
        logs = self.good(*two, (2, "a 1f 0 0 7 -", "a 1f 0 0 3 -"), (2, "e\n", ""))
        self.assertEqual(self.judge(logs, killed), {"diverged": 1})
        # It died with all that were told what it was told.
        logs = self.good((2, "a 1f 0 0 7 -", "a 1f 0 0 3 -"), (2, "e\n", ""))
        self.assertEqual(self.judge(logs, killed), {})
        logs = self.good(*two, (2, "a 1f 0 0 7 -", "a 1f 0 0 3 -"), (2, "a 1f 1 0 5 -", "a 1f 1 0 1 -"), (2, "e\n", ""))
        self.assertEqual(self.judge(logs, killed), {})

    def test_groups_that_differ(self):
        self.assertEqual(self.judge(self.good((1, "g 2f 1 0,1,2", "g 2f 1 0,1"))), {"diverged": 1})

    def test_a_live_rank_that_was_taken_for_dead(self):
        everywhere = [(rank, "a 1f 0 0 7 -", "a 1f 0 -7 3 2") for rank in range(3)]
        self.assertEqual(self.judge(self.good(*everywhere)), {"lost": 1})
        bound = {"COPPICE_DETECTION_BOUND": "4s"}
        self.assertEqual(self.judge(self.good(*everywhere), environment=bound), {})
        self.assertEqual(self.judge(self.good(*everywhere), doomed=[2]), {})

    def test_ends(self):
        logs = self.good((1, "e\n", ""))
        self.assertEqual(self.judge(logs), {"lost": 1})
        for signal in (9, 11):
            output = f"coppice-run: rank 1 (pid 5) was killed by signal {signal} (Some)\n"
            self.assertEqual(self.judge(logs, output), {"lost": 1})
            armed = self.good((1, "e\n", "k 100\n"))
            self.assertEqual(self.judge(armed, output), {} if signal == 9 else {"lost": 1})


class Draw(unittest.TestCase):
    def test_the_same_job_is_drawn_again(self):
        abilities = types.SimpleNamespace(tcp=True, automatic=True)
        for number in range(1, 300):
            plan, again = (chaos_plan.Plan(7, number, abilities) for _ in range(2))
            command = plan.command("run", "rank", "directory", 60)
            self.assertEqual(command, again.command("run", "rank", "directory", 60))
            self.assertEqual(plan.environment, again.environment)
            self.assertLess(len(plan.victims()), plan.ranks)


if __name__ == "__main__":
    unittest.main(verbosity=2)
