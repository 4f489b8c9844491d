"""The soak's judgement: each thing that it looks for, planted in the logs of a job, is found; and nothing where there is
nothing."""

import collections
import pathlib
import tempfile
import types
import unittest

import chaos
import chaos_check
import chaos_growth
import chaos_plan
import chaos_views

GOOD = """g 1f {rank} 0,1,2
b 1f 0 1 0
a 1f 0 0 7 -
b 1f 1 2 0
g 2f {rank} 0,1,2
s 2f 0 0
d 1f
e
"""


def judged_by(judge, plan, logs, output, code=0):
    """What is found in these logs, {name: text}, and what is said of it."""
    outcome = types.SimpleNamespace(found=collections.Counter(), notes=[], output=output)
    outcome.note = lambda kind, text: (outcome.found.update([kind]), outcome.notes.append(text))
    with tempfile.TemporaryDirectory() as directory:
        for name, text in logs.items():
            pathlib.Path(directory, f"log-{name}").write_text(text, encoding="utf-8")
        judge(outcome, pathlib.Path(directory), plan, code)
    return dict(outcome.found), outcome.notes


class Judge(unittest.TestCase):
    def judge(self, logs, output="", environment=None, doomed=(), options=()):
        plan = types.SimpleNamespace(ranks=len(logs), environment=environment or {}, options=list(options),
                                     doomed=lambda: set(doomed))
        found, self.notes = judged_by(chaos_check.judge, plan, dict(enumerate(logs)), output)
        return found

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

    def test_a_rank_without_the_room_knows_the_size_of_what_goes_in_chunks_and_maybe_no_more(self):
        narrow = 1, "b 1f 1 2 0", "b 1f 1 2 -4"
        self.assertEqual(self.judge(self.good(narrow)), {}, self.notes)
        killed = "coppice-run: killed rank 2 (pid 5) at 1 s\n"
        lost = 0, "b 1f 1 2 0", "b 1f 1 2 -6"
        self.assertEqual(self.judge(self.good(narrow, lost, (2, "e\n", "")), killed), {}, self.notes)
        self.assertEqual(self.judge(self.good(narrow, lost)), {"lost": 2}, self.notes)  # its root lives, and has it

    def test_no_quorum(self):
        killed = "coppice-run: killed rank 0 (pid 5) at 1 s\ncoppice-run: killed rank 1 (pid 6) at 1 s\n"
        logs = ["g 1f 0 0,1,2\n", "g 1f 1 0,1,2\n", "g 1f 2 0,1,2\nq 1f there is no quorum\n"]
        self.assertEqual(self.judge(logs, killed), {"lost": 1}, self.notes)  # the launcher has seen them end
        self.assertEqual(self.judge(logs, killed, doomed=[0]), {}, self.notes)  # one of the two that remain, and the lower half
        self.assertEqual(self.judge([log.replace("0,1,2", "2,1,0") for log in logs], killed, doomed=[0]), {"lost": 1}, self.notes)

    def test_no_quorum_beside_a_cut(self):
        logs = ["g 1f 0 0,1,2\nq 1f there is no quorum\n"] + self.good()[1:]
        self.assertEqual(self.judge(logs), {"lost": 1}, self.notes)
        self.assertEqual(self.judge(logs, doomed=[0]), {}, self.notes)
        self.assertEqual(self.judge(logs, doomed=[1]), {"lost": 1}, self.notes)
        self.assertEqual(self.judge(logs, doomed=[1, 2]), {}, self.notes)

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


# Three ranks; 2 is killed, left out, started again and taken in. What those log that are there all the time.
STAYS = """p 1{rank}
g a1 {rank} 0,1,2
v a1 0 0 3 -:0,-:0,-:0
b a1 0 0 0
a a1 0 -7 :5 2
g b2 {rank} 0,1
v b2 1 0 0 0:0,1:0
n a1 0 0 b2
d a1
b b2 0 0 0
g c3 {rank} 0,1,1002
v c3 2 0 1 0:0,1:1,-:2
n b2 0 0 c3
d b2
a c3 0 0 :6 -
z 100
d c3
e
"""
KILLED = """p 12
g a1 2 0,1,2
v a1 0 0 3 -:0,-:0,-:0
b a1 0 0 0
"""
NEW = """p 13
g c3 2 0,1,1002
v c3 2 0 1 0:0,1:1,-:2
a c3 0 0 :6 -
z 100
d c3
e
"""
KILLS = """coppice-run: killed rank 2 (pid 12) at 1 s
coppice-run: started rank 2 again (pid 13)
"""


class JudgeViews(unittest.TestCase):
    def judge(self, *changes, quorum="certain", far=(), output=KILLS, without=(), code=0, options=(), environment=None, more=None):
        """Changes are (process, what, by what); `far`: ranks that are cut off for good."""
        logs = {f"{rank}.0": STAYS.format(rank=rank) for rank in range(2)} | {"2.0": KILLED, "2.1": NEW} | (more or {})
        for process, old, new in changes:
            assert old in logs[process], old
            logs[process] = logs[process].replace(old, new)
        for process in without:
            del logs[process]
        plan = types.SimpleNamespace(ranks=3, spares=0, processes=lambda: 3, options=list(options), quorum=quorum, environment=environment or {},
                                     side_of=lambda rank: int(rank in far), is_parted=lambda: bool(far))
        found, self.notes = judged_by(chaos_views.judge, plan, logs, output, code)
        return found

    @staticmethod
    def ends_without_quorum(process, team="b2"):
        """In that team, after b2 was made; it is in no later one."""
        text = STAYS.format(rank=process[0])
        return process, text[text.index("b b2 0"):], f"n {team} 0 -19 -\nd {team}\nq {team} COPPICE_QUORUM=any\n"

    def test_nothing(self):
        self.assertEqual(self.judge(), {}, self.notes)

    def test_what_a_process_found_itself(self):
        for kind in chaos_check.KINDS:
            with self.subTest(kind):
                self.assertEqual(self.judge(("2.1", "e\n", f"x {kind} this\n"))[kind], 1)

    def test_ends(self):
        self.assertEqual(self.judge(("1.0", "\ne\n", "\n")), {"lost": 1}, self.notes)
        self.assertEqual(self.judge(("2.1", "\ne\n", "\n")), {"lost": 1}, self.notes)  # the kill was that of another process
        self.assertEqual(self.judge(("1.0", "\ne\n", "\n"), output=KILLS + "coppice-run: killed rank 1 (pid 11) at 2 s\n"), {}, self.notes)
        self.assertEqual(self.judge(("1.0", "\ne\n", "\nk 100\n"), code=137), {}, self.notes)
        self.assertEqual(self.judge(code=137), {"lost": 1}, self.notes)
        for signal in (9, 11):
            output = KILLS + f"coppice-run: rank 1 (pid 11) was killed by signal {signal} (Some)\n"
            self.assertEqual(self.judge(("1.0", "\ne\n", "\n"), output=output), {"lost": 1}, self.notes)
            armed = self.judge(("1.0", "\ne\n", "\nk 100\n"), output=output)
            self.assertEqual(armed, {} if signal == 9 else {"lost": 1}, self.notes)

    def test_a_process_without_a_trace(self):
        self.assertEqual(self.judge(without=["2.1"]), {"lost": 1}, self.notes)
        self.assertEqual(self.judge(without=["2.1"], output=KILLS + "coppice-run: killed rank 2 (pid 13) at 2 s\n"), {}, self.notes)
        self.assertEqual(self.judge(without=["2.0"]), {}, self.notes)

    def test_deliveries_that_differ(self):
        self.assertEqual(self.judge(("1.0", "b b2 0 0 0", "b b2 0 0 -6")), {"lost": 2}, self.notes)  # and its root lives
        self.assertEqual(self.judge(("1.0", "b b2 0 0 0\n", "")), {"lost": 1}, self.notes)
        self.assertEqual(self.judge(("2.1", "a c3 0 0 :6 -", "a c3 0 0 :7 -")), {"diverged": 1}, self.notes)

    def test_between_the_sides_of_a_cut_nothing_is_compared(self):
        change = "1.0", "b b2 0 0 0", "b b2 0 0 -6"
        self.assertEqual(self.judge(change, far=[1]), {}, self.notes)

    def test_a_live_process_that_was_taken_for_dead(self):
        dead = [(process, "a c3 0 0 :6 -", "a c3 0 -7 :6 1") for process in ("0.0", "2.1")]
        gone = "1.0", "a c3 0 0 :6 -\n", ""
        self.assertEqual(self.judge(*dead, gone, ("1.0", "\nz 100\nd c3\n", "\n")), {"lost": 2}, self.notes)
        self.assertEqual(self.judge(*dead, gone), {}, self.notes)  # it had left in peace
        self.assertEqual(self.judge(("1.0", "\nz 100\nd c3\ne\n", "\nf\n")), {"lost": 1}, self.notes)
        self.assertEqual(self.judge(("1.0", "\nz 100\nd c3\ne\n", "\nf\n"), environment={"COPPICE_DETECTION_BOUND": "4s"}), {}, self.notes)

    def test_two_groups_of_one_epoch(self):
        other = [("1.0", "g b2 1", "g b9 1"), ("1.0", "v b2 1", "v b9 1")]
        self.assertEqual(self.judge(*other)["diverged"], 1, self.notes)
        self.assertEqual(self.judge(*other, far=[1])["diverged"], 1, self.notes)
        self.assertNotIn("diverged", self.judge(*other, far=[1], quorum="any"), self.notes)
        self.assertEqual(self.judge(*other, quorum="any")["diverged"], 1, self.notes)  # there is no cut

    def test_views_that_differ(self):
        self.assertEqual(self.judge(("2.1", "0:0,1:1,-:2", "0:0,1:0,-:2"))["diverged"], 1, self.notes)
        self.assertEqual(self.judge(("2.1", "g c3 2 0,1,1002", "g c3 2 0,1,2002"))["diverged"], 1, self.notes)

    def test_incarnations_rise(self):
        back = [(process, "0,1,1002", "0,1,2") for process in ("0.0", "1.0", "2.1")]
        self.assertIn("2.0 is new in team c3 of epoch 2, and 2.0 was there before", " ".join((self.judge(*back), self.notes)[1]))

    def test_a_live_process_that_is_left_out(self):
        alone = [("0.0", "g c3 0 0,1,1002", "g c3 0 0,1002"), ("2.1", "g c3 2 0,1,1002", "g c3 1 0,1002"),
                 *((process, "0:0,1:1,-:2", "0:0,-:2") for process in ("0.0", "2.1"))]
        text = STAYS.format(rank=1)
        out = "1.0", text[text.index("g c3"):], "x lost this\n"
        self.assertEqual(self.judge(*alone, out), {"lost": 2}, self.notes)
        self.assertEqual(self.judge(*alone, out, far=[1]), {"lost": 1}, self.notes)
        asked = "1.0", text[text.index("b b2"):], "l b2\nb b2 0 0 0\nn b2 0 0 -\nd b2\no\n"
        self.assertEqual(self.judge(*alone, asked), {}, self.notes)

    def test_a_process_that_wanted_to_leave_and_is_taken_along(self):
        wants_to = "1.0", "b b2", "l b2\nb b2"
        self.assertEqual(self.judge(wants_to), {"lost": 1}, self.notes)
        process, old, new = self.ends_without_quorum("1.0")
        self.assertEqual(self.judge((process, old, "l b2\n" + new), far=[1]), {}, self.notes)
        self.assertEqual(self.judge(wants_to, ("1.0", "\ne\n", "\nk 1\n"), code=137), {}, self.notes)  # it may not have come to say so

    def test_a_process_that_was_known_to_have_failed_is_taken_along(self):
        known = [(process, "a c3", "a b2 0 -7 :6 1\na c3") for process in ("0.0", "1.0")]
        self.assertIn("team c3 has 1.0, whose failure process 0.0 knew of", (self.judge(*known), self.notes)[1], self.notes)

    def test_a_process_that_is_new_though_it_was_there(self):
        self.assertIn("process 1.0, which was there from the start, is new in team b2",
                      (self.judge(*((p, "0,1,2", "0,2") for p in ("0.0", "1.0", "2.0")), *((p, ":5 2", ":5 1") for p in ("0.0", "1.0"))),
                       self.notes)[1])

    def test_no_quorum(self):
        # Alone, as 0 has ended.
        changes = [("0.0", "b b2", "k 1\nb b2"), ("0.0", "\ne\n", "\n"), self.ends_without_quorum("1.0")]
        self.assertEqual(self.judge(*changes, code=137), {"lost": 1}, self.notes)  # that is certain
        self.assertEqual(self.judge(*changes, code=137, quorum="any"), {"lost": 1}, self.notes)
        self.assertEqual(self.judge(*changes, code=137, quorum="majority"), {}, self.notes)
        self.assertEqual(self.judge(*changes, code=137, environment={"COPPICE_DETECTION_BOUND": "4s"}), {}, self.notes)

    def test_no_quorum_on_a_side_of_a_cut(self):
        self.assertEqual(self.judge(self.ends_without_quorum("1.0"), far=[1]), {}, self.notes)
        self.assertEqual(self.judge(self.ends_without_quorum("0.0"), far=[1])["lost"], 1, self.notes)  # it has the lowest
        self.assertEqual(self.judge(self.ends_without_quorum("1.0"), far=[2])["lost"], 1, self.notes)

    def test_no_quorum_in_an_operation_alone(self):
        self.assertEqual(self.judge(("1.0", "b b2 0 0 0", "b b2 0 0 -19")), {"lost": 1}, self.notes)
        self.assertEqual(self.judge(("1.0", "a c3", "a b2 0 -19 :0 -\na c3")), {"lost": 1}, self.notes)

    def test_it_is_said_what_to_do_without_a_quorum(self):
        process, old, new = self.ends_without_quorum("1.0")
        self.assertEqual(self.judge((process, old, new.replace("COPPICE_QUORUM=any", "too few")), far=[1]), {"lost": 1}, self.notes)

    def test_a_newcomer_that_is_not_taken_in(self):
        text = "p 14\nw {} {}\n"
        nobody = "no member of the group is left that could take it in"
        twice = KILLS + "coppice-run: started rank 2 again (pid 14)\n"
        for found, when, why in ((0, 101, nobody), (1, 99, nobody), (1, 101, "rank 1 can't reach it"), (1, 101, "")):
            self.assertEqual(self.judge(output=twice, more={"2.2": text.format(when, why)}), {"lost": 1} if found else {}, self.notes)
        self.assertEqual(self.judge(output=twice, more={"2.2": text.format(99, "rank 1 can't reach it")}, far=[1]), {}, self.notes)
        self.assertEqual(self.judge(output=twice, more={"2.2": text.format(99, "")}, far=[1]), {"lost": 1}, self.notes)
        self.assertEqual(self.judge(output=twice, more={"2.2": "p 14\n"}), {"lost": 1}, self.notes)


class WaitsOfNewcomers(unittest.TestCase):
    def waits(self, logs, lives=("14",), then=None, grows=True, most=0, parted=False):
        """After a hundred seconds, of which in the middle the logs became `then`."""
        plan = types.SimpleNamespace(grows=grows, most=most, is_parted=lambda: parted)
        with tempfile.TemporaryDirectory() as directory:
            newcomers = chaos.Newcomers(pathlib.Path(directory), plan, lambda pid: pid in lives)
            for now, texts in ((1000, logs), (1050, then or logs), (1100, then or logs)):
                for name, text in texts.items():
                    pathlib.Path(directory, f"log-{name}").write_text(text, encoding="utf-8")
                waited = newcomers.seconds(now)
        return waited

    def test_a_newcomer_that_is_never_taken_in(self):
        logs = {"0.0": STAYS.format(rank=0), "2.2": "p 14\n"}
        self.assertEqual(self.waits(logs), 100)
        self.assertEqual(self.waits({"0.0": STAYS.format(rank=0)}, then=logs), 50)

    def test_what_is_no_wait(self):
        logs = {"0.0": STAYS.format(rank=0), "2.2": "p 14\n"}
        self.assertEqual(self.waits(logs, lives=()), 0)
        self.assertEqual(self.waits(logs, then=logs | {"2.2": NEW}), 0)
        self.assertEqual(self.waits(logs, then=logs | {"2.2": "p 14\nw 9 \n"}), 0)
        self.assertEqual(self.waits(logs | {"2.2": "p 1"}, lives=()), 0)

    def test_a_newcomer_that_something_keeps_out(self):
        logs = {"0.0": STAYS.format(rank=0), "2.2": "p 14\n"}
        self.assertEqual(self.waits(logs, most=3), 0)
        self.assertEqual(self.waits(logs, parted=True), 0)
        self.assertEqual(self.waits(logs, grows=False), 0)


class Draw(unittest.TestCase):
    def test_the_same_job_is_drawn_again(self):
        abilities = types.SimpleNamespace(tcp=True, automatic=True)
        for number in range(1, 300):
            plan, again = (chaos_plan.Plan(7, number, abilities) for _ in range(2))
            command = plan.command("run", "rank", "directory", 60)
            self.assertEqual(command, again.command("run", "rank", "directory", 60))
            self.assertEqual(plan.environment, again.environment)
            self.assertLess(len(plan.victims()), plan.ranks)

    def test_jobs_that_grow(self):
        abilities = types.SimpleNamespace(tcp=True, automatic=True)
        words = collections.Counter()
        for number in range(1, 600):
            plan, again = (chaos_growth.draw(7, number, abilities) for _ in range(2))
            command = plan.command("run", "rank", "directory", 60)
            self.assertEqual(command, again.command("run", "rank", "directory", 60))
            if not plan.grows:
                self.assertEqual(command, chaos_plan.Plan(7, number, abilities).command("run", "rank", "directory", 60))
                continue
            words.update(plan.describe().split(", "))
            self.assertLessEqual(plan.processes(), chaos_growth.MOST_PROCESSES)
            self.assertTrue(plan.respawns is not None or plan.spares or plan.joins)
            far = {plan.host_of(rank) for rank in range(plan.processes()) if plan.side_of(rank)}
            self.assertEqual(far, plan.side if plan.is_parted() else set())
        self.assertLess(150, words["grows"])
        for word in ("respawns", "spares", "joins", "leaves", "kills", "stops", "cuts", "long"):
            self.assertLess(5, words[word], word)

    def test_large_payloads_change_nothing_else(self):
        abilities = types.SimpleNamespace(tcp=True, automatic=True)
        words = collections.Counter()
        for number in range(1, 600):
            plan, forced = (chaos_growth.draw(7, number, abilities, large) for large in (False, True))
            options, most = plan.command("run", "rank", "directory", 60), forced.command("run", "rank", "directory", 60)
            self.assertIn("--large", most)
            if "large" in plan.words:
                self.assertEqual(options, most)
                self.assertEqual(plan.environment, forced.environment)
            else:
                self.assertNotIn("--large", options)
                self.assertEqual(options, self.without_payloads(most))
                self.assertEqual(plan.environment, {k: v for k, v in forced.environment.items() if k not in OF_PAYLOADS})
            words.update(word.split()[0] for word in plan.words)
            # The program knows what the library does.
            for name, option, default in (("EAGER", "--eager", 8192), ("PAYLOAD_WINDOW", "--payload-window", 2 ** 26)):
                told = most[most.index(option) + 1] if option in most else default
                self.assertEqual(int(forced.environment.get("COPPICE_" + name, default)), int(told))
        self.assertLess(abs(words["large"] / 599 - chaos_plan.LARGE_SHARE), 0.06)
        for word in ("eager", "payload_window", "payload_chunk", "payload_ahead", "payload_patience"):
            self.assertLess(10, words[word], word)
            self.assertLess(words[word], words["large"], word)

    @staticmethod
    def without_payloads(command):
        options = iter(command)
        return [word for word in options if word not in ("--large", "--eager", "--payload-window") or next(options) is None]


OF_PAYLOADS = ("COPPICE_EAGER", "COPPICE_PAYLOAD_WINDOW", "COPPICE_PAYLOAD_CHUNK", "COPPICE_PAYLOAD_AHEAD", "COPPICE_PAYLOAD_PATIENCE")


if __name__ == "__main__":
    unittest.main(verbosity=2)
