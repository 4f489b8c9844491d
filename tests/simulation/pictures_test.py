#!/usr/bin/env python3
"""coppice-sim timeline and coppice-sim reproduce, end to end.

  pictures_test.py COPPICE_SIM
"""
import csv
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as xml

SIM = ""
SVG = "{http://www.w3.org/2000/svg}"
DEADLINE = 900 * int(os.environ.get("COPPICE_TEST_PATIENCE", "1"))


def sim(*arguments, env=None):
    return subprocess.run([SIM, *map(str, arguments)], capture_output=True, text=True, timeout=DEADLINE, check=False,
                          env={**os.environ, **(env or {})})


def has_matplotlib():
    for python in ("python3", "/usr/bin/python3"):
        try:
            if subprocess.run([python, "-c", "import matplotlib"], capture_output=True, check=False).returncode == 0:
                return True
        except OSError:
            pass
    return False


class Timeline(unittest.TestCase):
    SETUP = ("--ranks", 12, "--tree", "lame:2", "--correction", "checked:synchronized", "--failed", "2,5", "--seed", 1)

    def draw(self, *more):
        ran = sim("timeline", *self.SETUP, *more)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    def tooltips(self):
        root = xml.fromstring(self.draw().encode())
        self.assertEqual(root.tag, SVG + "svg")
        return [title.text for title in root.iter(SVG + "title")]

    def conversation(self):
        ran = sim("broadcast", *self.SETUP, "--conversation")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        lines = [re.match(r"\s*(\d+)\s+(\w+)\s+(\d+) -> (\d+)\s+(\w+)", line) for line in ran.stdout.splitlines()]
        return [line.groups() for line in lines if line]

    def test_shows_every_message_that_the_conversation_has(self):
        events = self.conversation()
        tooltips = self.tooltips()
        sent = [f"{kind} {a} to {b}, sent from step {at} on" for at, what, a, b, kind in events if what == "send"]
        received = [f"{kind} {a} to {b}, received at step {at}" for at, what, a, b, kind in events if what == "receive"]
        self.assertGreater(len(sent), 11)
        self.assertCountEqual(sent, [tip for tip in tooltips if ", sent from" in tip])
        self.assertCountEqual(received, [tip for tip in tooltips if ", received at" in tip])

    def test_shows_the_dead_and_when_the_others_were_colored(self):
        colored = {f"rank {b} has the payload from step {at} on"
                   for at, what, _, b, _ in self.conversation() if what == "color"}
        tooltips = self.tooltips()
        self.assertEqual(colored | {"rank 0 has the payload from step 0 on"},
                         {tip for tip in tooltips if "has the payload" in tip})
        self.assertEqual({"rank 2 is dead", "rank 5 is dead"}, {tip for tip in tooltips if "is dead" in tip})

    def test_says_which_ranks_were_not_reached(self):
        ran = sim("timeline", "--ranks", 8, "--tree", "binomial", "--correction", "none", "--failed", 1)
        words = [text.text for text in xml.fromstring(ran.stdout.encode()).iter(SVG + "text")]
        # Below the dead child of a binomial tree of eight.
        self.assertEqual(words.count("not reached"), 3)

    def test_dot_has_the_tree_the_ring_the_dead_and_the_uncolored(self):
        dot = self.draw("--dot")
        self.assertEqual(len(re.findall(r"shape=box", dot)), 2)
        self.assertEqual(len(re.findall(r"^  \d+ -> \d+ \[dir=none", dot, re.M)), 12)
        self.assertEqual(len(re.findall(r"^  \d+ -> \d+ \[color", dot, re.M)), 11)
        uncolored = sim("timeline", "--ranks", 8, "--tree", "binomial", "--correction", "none", "--failed", 1, "--dot").stdout
        self.assertEqual(uncolored.count('tooltip="not reached"'), 3)

    def test_writes_to_a_file(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "picture.svg")
            self.assertEqual(sim("timeline", *self.SETUP, "--out", path).returncode, 0)
            xml.parse(path)
            self.assertEqual(os.listdir(directory), ["picture.svg"])
            self.assertEqual(sim("timeline", *self.SETUP, "--out", path + "/in-a-file").returncode, 1)

    def test_refuses_what_nobody_could_read(self):
        ran = sim("timeline", "--ranks", 100000)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("512 are the most", ran.stderr)


class Reproduce(unittest.TestCase):
    NAME = "gossip-fig5"

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.out = os.path.join(self.scratch.name, "out")

    def reproduce(self, *more, what=NAME, out=None, env=None):
        return sim("reproduce", what, "--quick", "--out", out or self.out, *more, env=env)

    def read(self, name):
        with open(os.path.join(self.out, name), encoding="utf-8") as file:
            return file.read()

    def rows(self, out=None):
        """The CSV without what differs from run to run."""
        with open(os.path.join(out or self.out, self.NAME + ".csv"), encoding="utf-8", newline="") as file:
            return [{key: value for key, value in row.items() if key != "cpu_seconds"} for row in csv.DictReader(file)]

    def counts(self, ran):
        found = re.search(r"(\d+) broadcasts run, (\d+) read", ran.stdout)
        self.assertIsNotNone(found, ran.stdout + ran.stderr)
        return int(found[1]), int(found[2])

    def test_writes_figures_and_a_page_of_claims(self):
        ran = self.reproduce("--no-plots")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        rows = self.rows()
        self.assertEqual([int(row["T"]) for row in rows], list(range(18, 35)))
        self.assertEqual({row["first_seed"] for row in rows}, {"1"})
        self.assertEqual({row["unreached_ranks"] for row in rows}, {"0"})
        page = self.read(self.NAME + ".md")
        self.assertIn("IPDPS'17, Figure 5", page)
        self.assertRegex(page, r"\| The approximation predicts T = 25\. \|.*\| (holds|\*\*does not hold\*\*) \|")

    def test_points_whose_gossip_time_was_tuned_keep_their_dead(self):
        self.assertEqual(self.reproduce("--no-plots", what="gossip-table").returncode, 0)
        with open(os.path.join(self.out, "gossip-table.csv"), encoding="utf-8", newline="") as file:
            dead = {row["series"]: row["dead"] for row in csv.DictReader(file) if row["failed"] == "3"}
        for series in ("GOS", "OCG", "CCG", "FCG", "BIG"):
            self.assertEqual(dead[series], "3", series)

    def test_stops_in_time_with_a_first_part_of_every_point(self):
        ran = self.reproduce("--no-plots", "--minutes", 0, what="table1")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertRegex(ran.stdout, r"\d+ broadcasts left out: the time was over")
        with open(os.path.join(self.out, "table1.csv"), encoding="utf-8", newline="") as file:
            runs = {row["series"]: row["runs"] for row in csv.DictReader(file)}
        self.assertEqual((runs["binomial, gaps"], runs["all trees, gaps"]), ("128", "512"))

    def test_another_experiment_end_to_end(self):
        ran = self.reproduce("--no-plots", what="gossip-fig3")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        page = self.read("gossip-fig3.md")
        self.assertRegex(page, r"\| The approximation predicts T = 24\. \|.*\| 24 \| 24 \| holds \|")

    def test_says_what_does_not_hold_and_why(self):
        ran = self.reproduce("--no-plots", what="gossip-fig1")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        page = self.read("gossip-fig1.md")
        self.assertRegex(page, r"\(t ≈ 18\)\. \|.*\| 20 \| 17 to 19 \(ours\) \| \*\*does not hold\*\* \|")
        self.assertIn("the paper's own Equation 1 has its largest step from t = 19", page)
        self.assertRegex(page, r"95\.1 % of the time\. \|.*\| 9\d(\.\d+)? \| 94\.1 to 96\.1 \(ours\) \| holds \|")

    def test_membership_is_held_against_the_sentences_of_its_paper(self):
        held = {"membership-fig4": (4, 2), "membership-fig5": (4, 2), "membership-fig6": (5, 1), "membership-fig7": (5, 0),
                "membership-fig8": (4, 2)}
        for name, (holds, broken) in held.items():
            ran = self.reproduce("--no-plots", what=name)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            page = self.read(name + ".md")
            self.assertIn("ICS'06, Figure " + name[-1], page)
            self.assertEqual((page.count("| holds |"), page.count("| **does not hold** |")), (holds, broken), name)

    def test_figure_4_of_membership_is_drawn(self):
        ran = sim("reproduce", "membership-fig4", "--out", self.out)
        self.assertEqual(ran.returncode, 0 if has_matplotlib() else 1, ran.stderr)
        self.assertIn("ICS'06, Figure 4", self.read("membership-fig4.md"))
        if not has_matplotlib():
            self.assertIn("python3-matplotlib", ran.stderr)
            self.assertIn("membership-fig4.plot.json", os.listdir(self.out))
            return
        for kind in ("svg", "png"):
            self.assertGreater(os.path.getsize(os.path.join(self.out, "membership-fig4." + kind)), 1000)

    def test_agreements_are_held_against_the_sentences_of_their_paper(self):
        held = {"era-2a": (4, 1, 0), "era-2b": (5, 3, 0), "era-2c": (5, 0, 1), "era-2d": (2, 1, 1), "era-3": (10, 3, 2), "era-4": (1, 2, 1)}
        for name, verdicts in held.items():
            ran = self.reproduce("--no-plots", what=name)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            page = self.read(name + ".md")
            self.assertRegex(page, "SC'15, (Figure|Table) " + name[4:])
            found = tuple(page.count(f"| {verdict} |") for verdict in ("holds", "**does not hold**", "not comparable"))
            self.assertEqual(found, verdicts, name)

    def test_counts_the_broadcasts_that_leave_somebody_out(self):
        ran = self.reproduce("--no-plots", what="incomplete")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        page = self.read("incomplete.md")
        self.assertRegex(page, r"\| With less than 1 % failed, .*\| 0 \| 0 \| holds \|")
        self.assertRegex(page, r"around 2,600 .*two messages a side.* \| \d+ \| 2384 to 2816 \(ours\) \| not comparable \|")
        self.assertRegex(page, r"around 2,600 .*\(with four messages a side\)\. .*\| 0 \| 2384 to 2816")
        for rare in (r"every 10\^5 simulations with 1 %", r"More than 90 % of the simulations .* a single"):
            self.assertRegex(page, rare + r".* \| not comparable \|")

    def test_goes_on_after_it_was_killed(self):
        whole = os.path.join(self.scratch.name, "whole")
        ran = self.reproduce("--no-plots", out=whole)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        total = self.counts(ran)[0]

        store = os.path.join(self.out, "runs.jsonl")
        with subprocess.Popen([SIM, "reproduce", self.NAME, "--quick", "--no-plots", "--threads", "1", "--out", self.out],
                              stdout=subprocess.DEVNULL) as process:
            until = time.monotonic() + DEADLINE
            while time.monotonic() < until and process.poll() is None:
                if os.path.exists(store) and os.path.getsize(store) > 500:
                    break
                time.sleep(0.001)
            process.send_signal(signal.SIGKILL)
            process.wait()
        with open(store, "a", encoding="utf-8") as file:
            file.write('{"cell":"torn in the mid')
        ran = self.reproduce("--no-plots")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        again, kept = self.counts(ran)
        self.assertGreater(kept, 0)
        self.assertEqual(again + kept, total)
        self.assertEqual(self.rows(), self.rows(whole))
        for line in self.read("runs.jsonl").splitlines():
            json.loads(line)
        # And now there is nothing left to do.
        self.assertEqual(self.counts(self.reproduce("--no-plots")), (0, total))

    def test_goes_on_in_another_directory_and_says_how_long_it_takes(self):
        ran = self.reproduce("--no-plots")
        self.assertRegex(ran.stderr, self.NAME + r": 5100 broadcasts to run at 17 points, .* \(guessed for 17 points\)")
        other = os.path.join(self.scratch.name, "other")
        os.mkdir(other)
        shutil.copy(os.path.join(self.out, self.NAME + ".runs.jsonl"), os.path.join(other, "runs.jsonl"))
        ran = sim("reproduce", self.NAME, "--no-plots", "--minutes", 0, "--out", other)
        self.assertEqual(self.counts(ran), (0, 5100))
        self.assertEqual(self.rows(other), self.rows())

        # Killed on the way it leaves a table of what there is.
        before = self.rows(other)
        with subprocess.Popen([SIM, "reproduce", self.NAME, "--no-plots", "--report-every", "0", "--out", other],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            until = time.monotonic() + DEADLINE
            while time.monotonic() < until and process.poll() is None and self.rows(other) == before:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            said = process.communicate()[1]
        rows = self.rows(other)
        self.assertEqual(len(rows), 17)
        self.assertGreater(sum(int(row["runs"]) for row in rows), 5100)
        self.assertGreaterEqual(len(re.findall(r"\d+ broadcasts to run at 17 points, \d+ (s|min|h)\n", said)), 2)

    def test_the_same_figures_with_any_number_of_threads(self):
        one = os.path.join(self.scratch.name, "one")
        self.assertEqual(self.reproduce("--no-plots", "--threads", "1", out=one).returncode, 0)
        self.assertEqual(self.reproduce("--no-plots", "--threads", "3").returncode, 0)
        self.assertEqual(self.rows(), self.rows(one))

    def test_unknown_names_list_the_known_ones(self):
        ran = self.reproduce(what="fig99")
        self.assertEqual(ran.returncode, 2)
        for name in ("fig1b", "table1", "gossip-scaling", "all"):
            self.assertIn(name, ran.stderr)
        self.assertFalse(os.path.exists(self.out))

    def test_a_directory_that_cannot_be_made_is_said_at_once(self):
        with open(self.out, "w", encoding="utf-8"):
            pass
        ran = self.reproduce(out=self.out + "/below-a-file")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("below-a-file", ran.stderr)
        self.assertEqual(ran.stdout, "")

    def test_two_at_once_do_not_write_into_each_other(self):
        os.mkdir(self.out)
        with open(os.path.join(self.out, "runs.jsonl"), "w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            ran = self.reproduce()
        self.assertEqual(ran.returncode, 1)
        self.assertIn("another coppice-sim is at work", ran.stderr)

    def test_a_damaged_line_is_named(self):
        self.assertEqual(self.reproduce("--no-plots").returncode, 0)
        lines = self.read("runs.jsonl").splitlines(keepends=True)
        lines[2] = lines[2][:40] + "\n"
        with open(os.path.join(self.out, "runs.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(lines)
        ran = self.reproduce("--no-plots")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("line 3", ran.stderr)

    @unittest.skipUnless(has_matplotlib(), "no matplotlib (Debian: python3-matplotlib)")
    def test_draws_plots(self):
        ran = self.reproduce()
        self.assertEqual(ran.returncode, 0, ran.stderr)
        xml.parse(os.path.join(self.out, self.NAME + ".svg"))
        with open(os.path.join(self.out, self.NAME + ".png"), "rb") as file:
            self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")

    def test_without_matplotlib_everything_but_the_plots_is_there(self):
        broken = os.path.join(self.scratch.name, "broken")
        os.mkdir(broken)
        with open(os.path.join(broken, "matplotlib.py"), "w", encoding="utf-8") as file:
            file.write("raise ImportError\n")
        ran = self.reproduce(env={"PYTHONPATH": broken})
        self.assertEqual(ran.returncode, 1)
        self.assertIn("python3-matplotlib", ran.stderr)
        self.assertIn("IPDPS'17", self.read(self.NAME + ".md"))
        self.assertGreater(len(self.rows()), 0)


if __name__ == "__main__":
    SIM = sys.argv.pop(1)
    unittest.main(verbosity=2)
