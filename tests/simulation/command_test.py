#!/usr/bin/env python3
"""coppice-sim as its users see it. Usage: command_test.py COPPICE_SIM"""

import csv
import io
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

COMMAND = None


def sim(*arguments):
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=250)


def runs(*arguments):
    done = sim("broadcast", *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class Broadcast(unittest.TestCase):
    def test_one_object_per_run(self):
        objects = runs("--ranks", "1024", "--tree", "lame:2", "--correction", "checked:synchronized", "--faults", "1%",
                       "--runs", "3", "--seed", "7")
        self.assertEqual([run["seed"] for run in objects], [7, 8, 9])
        for run in objects:
            self.assertEqual(run["failed"], 10)
            self.assertEqual(run["unreached"], 0)
            self.assertEqual(run["messages"], sum(run["messages_by_kind"].values()))
            self.assertEqual(run["quiescence_latency"], run["correction_start"] + run["correction_latency"])
            self.assertGreaterEqual(run["g_max"], 1)
            self.assertLessEqual(run["coloring_latency"], run["quiescence_latency"])

    def test_64k_fault_free_is_lemma_2(self):
        (run,) = runs("--ranks", "65536", "--tree", "binomial", "--correction", "checked:synchronized")
        self.assertEqual((run["coloring_latency"], run["quiescence_latency"], run["messages"]), (64, 72, 6 * 65536 - 1))

    def test_a_given_list_and_its_seedless_replay(self):
        (run,) = runs("--ranks", "48", "--tree", "kary:4", "--correction", "optimized-paper:4", "--failed", "3,8,9,10")
        self.assertEqual((run["failed"], run["unreached"], run["unreached_ranks"]), (4, 1, [25]))

    # A star up to 16 ranks, beyond that binomial, and optimized:2: what groups take where nobody chooses.
    def test_what_nobody_chooses_is_what_groups_take(self):
        for ranks, tree in (("2", "star"), ("16", "star"), ("17", "binomial"), ("300", "binomial")):
            faults = ("--ranks", ranks, "--failed-count", "1", "--runs", "5")
            self.assertEqual(runs(*faults), runs(*faults, "--tree", tree, "--correction", "optimized:2"), ranks)
            self.assertIn(f"{tree} optimized:2", sim("broadcast", "--ranks", ranks).stdout)
        self.assertRegex(sim("broadcast", "--help").stdout, r"--tree TEXT\W*auto\b[^-]*what groups take(.|\n)*--correction TEXT\W*optimized:2\b")
        (row,) = csv.DictReader(io.StringIO(sim("promise", "--ranks", "17", "--dead", "1", "--format", "csv").stdout))
        self.assertEqual((row["tree"], row["correction"]), ("binomial", "optimized:2"))

    def test_a_count(self):
        (run,) = runs("--ranks", "100", "--failed-count", "6")
        self.assertEqual(run["failed"], 6)

    def test_buntinas_broadcast_takes_twice_the_tree_and_restarts_around_the_dead(self):
        (run,) = runs("--ranks", "1024", "--algorithm", "bfb")
        self.assertEqual((run["quiescence_latency"], run["messages"]), (2 * 10 * 4, 2 * 1023))
        for run in runs("--ranks", "200", "--algorithm", "bfb", "--failed-count", "5", "--notice-after", "30", "--runs",
                        "20"):
            self.assertEqual(run["unreached"], 0)

    def test_optimal_follows_the_model(self):
        (run,) = runs("--ranks", "300", "--tree", "optimal", "--correction", "none", "--latency", "3", "--overhead", "1")
        (named,) = runs("--ranks", "300", "--tree", "optimal:1,3", "--correction", "none", "--latency", "3")
        self.assertEqual(run["coloring_latency"], named["coloring_latency"])

    def test_threads_change_nothing(self):
        arguments = ("--ranks", "500", "--faults", "2%", "--runs", "50", "--correction", "checked")
        self.assertEqual(runs(*arguments, "--threads", "1"), runs(*arguments, "--threads", "3"))

    def test_csv_and_table(self):
        done = sim("broadcast", "--ranks", "64", "--runs", "4", "--failed-count", "3", "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([row["seed"] for row in rows], ["1", "2", "3", "4"])
        self.assertEqual({row["failed"] for row in rows}, {"3"})
        table = sim("broadcast", "--ranks", "64", "--runs", "4").stdout
        for words in ("coloring latency", "quiescence latency", "messages per rank", "g_max", "seeds 1 to 4"):
            self.assertIn(words, table)

    def test_a_conversation(self):
        lines = sim("broadcast", "--ranks", "2", "--correction", "none", "--conversation").stdout.splitlines()
        self.assertEqual([line.split() for line in lines], [["0", "send", "0", "->", "1", "tree"],
                                                            ["4", "receive", "0", "->", "1", "tree"],
                                                            ["4", "color", "0", "->", "1", "tree"]])


class InChunks(unittest.TestCase):
    def test_shapes_beside_each_other(self):
        done = sim("broadcast", "--ranks", "8", "--bytes", "100K", "--chunk", "4K,8K", "-G", "0.01", "--format", "csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split(",") for line in done.stdout.splitlines()]
        self.assertEqual(lines[0], ["shape", "chunk", "steps", "messages", "most_sent"])
        shapes = ("pull", "chain", "binomial pipeline", "scatter+allgather")
        self.assertEqual([line[:2] for line in lines[1:]], [[shape, chunk] for shape in shapes for chunk in ("4096", "8192")])
        # 13 chunks of 8 KiB along a chain of 8: each of 7 hops 2o + L + (k - 1) G, then one chunk each o + (k - 1) G, the last one shorter.
        body, last = 8191 * 0.01, (102400 - 12 * 8192 - 1) * 0.01
        self.assertAlmostEqual(float(lines[4][2]), 6 * (4 + body) + 12 * (1 + body) + 4 + last, delta=1e-3)
        table = sim("broadcast", "--ranks", "8", "--bytes", "100K").stdout
        self.assertIn("8 ranks, 102400 bytes, L=2 o=1 g=1 G=0.001 a byte", table)
        self.assertEqual(sum(line.startswith("> ") for line in table.splitlines()), 1)

    def test_what_says_nothing_about_it_is_refused(self):
        for words, named in ((("--bytes", "1M", "--failed", "1"), "--failed"), (("--bytes", "1M", "--tree", "binomial"), "--tree"),
                             (("--chunk", "4K"), "--chunk"), (("--bytes", "0"), "--bytes"),
                             (("--ranks", "1000", "--bytes", "4G", "--chunk", "1K"), "larger ones")):
            done = sim("broadcast", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn(named, done.stderr)


class Advise(unittest.TestCase):
    # IPDPS'17, IV-C and D: TSUBAME 2.0.
    TSUBAME = ("--ranks", "4096", "--latency", "2", "--overhead", "1", "--mtbf", "18304", "--job-hours", "12",
               "--reliability", "0.5", "--broadcasts", "1e6", "--runs", "3")

    def test_tsubame_as_one_object(self):
        done = sim("advise", *self.TSUBAME, "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        advice = json.loads(done.stdout)
        self.assertAlmostEqual(advice["expected_dead"], 2.69, delta=0.01)
        self.assertAlmostEqual(advice["tolerated_probability"], 6.93e-7, delta=1e-9)
        best = advice["recommended"]
        self.assertEqual(best["distance"], 2)
        self.assertEqual(best["settings"], f"COPPICE_TREE={best['tree']} COPPICE_CORRECTION={best['correction']}")
        self.assertLess(best["unreached_probability"], advice["tolerated_probability"])
        by_name = {candidate["name"].split(":")[0]: candidate for candidate in advice["candidates"]}
        self.assertEqual((by_name["ocg"]["gossip_time"], by_name["ocg"]["distance"]), (31, 5))
        self.assertEqual(by_name["ccg"]["gossip_time"], 33)
        self.assertIn("COPPICE_ALGORITHM=", advice["gossip_instead"]["settings"])
        self.assertEqual((advice["first_seed"], advice["runs"]), (1, 3))
        self.assertTrue(advice["assumptions"])
        # What is recommended can be run.
        again = sim("broadcast", "--ranks", "4096", "--tree", best["tree"], "--correction", best["correction"])
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_tsubame_in_words(self):
        text = sim("advise", *self.TSUBAME).stdout
        for words in ("2.68 ranks are expected to be dead", "6.93e-07", "Recommended: ", "  COPPICE_TREE=", "T = 31 steps",
                      "COPPICE_ALGORITHM=ocg:", "Why", "Compared", "Assumed", "3 broadcasts of each, seeds 1 to 3"):
            self.assertIn(words, text)

    def test_more_dead_ask_for_more(self):
        def distance(hours):
            done = sim("advise", "--ranks", "512", "--mtbf", "1000", "--job-hours", hours, "--reliability", "0.99999",
                       "--runs", "1", "--format", "json")
            found = [one["distance"] for one in json.loads(done.stdout)["candidates"] if "optimized" in one["name"]]
            return max(found)
        self.assertLess(distance("1"), distance("100"))

    def test_bad_values_are_named(self):
        def said(*arguments):
            done = sim("advise", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            return done.stderr
        complete = ["--ranks", "64", "--mtbf", "1000", "--job-hours", "1", "--reliability", "0.9"]
        self.assertIn("--mtbf is required", said("--ranks", "64"))
        self.assertIn("between 0 and 1", said(*complete[:-1], "1.5"))
        self.assertIn("half of the ranks", said(*complete[:5], "5000", *complete[6:]))
        self.assertIn("--ranks", said("--ranks", "1", *complete[2:]))
        self.assertIn("one broadcast at least", said(*complete, "--broadcasts", "0"))
        self.assertIn("longer than nothing", said(*complete, "--step-us", "0"))
        self.assertIn("overhead", said(*complete, "--overhead", "0"))

    def test_a_payload_in_chunks(self):
        wanted = ("advise", "--ranks", "8", "--mtbf", "1000", "--job-hours", "1", "--reliability", "0.9", "--runs", "1",
                  "--bytes", "1M", "--gap-per-byte", "0.001")
        text = sim(*wanted).stdout
        for words in ("A payload of 1048576 bytes, G=0.001", "COPPICE_PAYLOAD_CHUNK=", "The fastest of those compared: "):
            self.assertIn(words, text)
        payload = json.loads(sim(*wanted, "--format", "json").stdout)["payload"]
        self.assertEqual((payload["bytes"], payload["recommended"]["shape"]), (1048576, "pull"))
        self.assertIn(payload["recommended"]["chunk"], [1024 << i for i in range(11)])
        self.assertLessEqual(payload["fastest"]["steps"], payload["recommended"]["steps"])

    @staticmethod
    def level(name, L, o, g):
        return {"level": name, "transport": "tcp", "ranks": [0, 1],
                **{key: {"median": us, "min": us, "max": us} for key, us in (("L", L), ("o", o), ("g", g))}}

    def measured(self, directory, **changes):
        path = pathlib.Path(directory) / "logp.json"
        path.write_text(json.dumps({"format": "coppice-logp", "version": 1,
                                    "levels": [self.level("host", 0.3, 0.1, 0.1), self.level("network", 5.9, 2.5, 3)]} | changes))
        return str(path)

    def test_what_was_measured_is_taken(self):
        wanted = ("advise", "--ranks", "64", "--mtbf", "1000", "--job-hours", "1", "--reliability", "0.9", "--runs", "1")
        with tempfile.TemporaryDirectory() as directory:
            file = self.measured(directory)
            outermost = sim(*wanted, "--measured", file)
            self.assertEqual(outermost.returncode, 0, outermost.stderr)
            self.assertIn("64 ranks, L=2 o=1, a step is 3 us", outermost.stdout)
            self.assertIn("L=3 o=1, a step is 0.1 us", sim(*wanted, "--measured", file, "--level", "host").stdout)
            same = sim(*wanted, "-L", "2", "--step-us", "3", "--format", "json")
            self.assertEqual(sim(*wanted, "--measured", file, "--format", "json").stdout, same.stdout)

    def test_files_that_were_not_measured_are_refused(self):
        wanted = ("advise", "--ranks", "64", "--mtbf", "1000", "--job-hours", "1", "--reliability", "0.9")
        with tempfile.TemporaryDirectory() as directory:
            def said(*arguments, **changes):
                done = sim(*wanted, "--measured", self.measured(directory, **changes), *arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn("logp.json", done.stderr)
                return done.stderr
            self.assertIn('no level "pod"; these it has: host, network', said("--level", "pod"))
            self.assertIn("no file of coppice-perf logp", said(format="other"))
            self.assertIn("of another version", said(version=2))
            self.assertIn("no level", said(levels=[]))
            self.assertIn("no file of coppice-perf logp", said(levels=[{"level": "network"}]))
            self.assertIn("o and g are nothing", said(levels=[self.level("network", 1, 0, 0)]))
            self.assertIn("L is -1", said(levels=[self.level("network", -1, 1, 1)]))
            self.assertIn("steps", said(levels=[self.level("network", 1e8, 1e-3, 1e-3)]))
            self.assertIn("excludes", sim(*wanted, "--measured", self.measured(directory), "-L", "2").stderr)
        self.assertIn("No such file", sim(*wanted, "--measured", "nowhere.json").stderr)


class Promise(unittest.TestCase):
    def rows(self, *arguments):
        done = sim("promise", *arguments, "--format", "csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        return list(csv.DictReader(io.StringIO(done.stdout)))

    # As many as broadcasts of these sets show.
    def test_every_set_of_a_small_group_counts_once(self):
        (row,) = self.rows("--ranks", "8", "--dead", "3", "--tree", "binomial", "--correction", "opportunistic:1")
        self.assertEqual((row["sets"], row["exact"]), ("35", "yes"))
        broken = [dead for dead in itertools.combinations(range(1, 8), 3)
                  if runs("--ranks", "8", "--tree", "binomial", "--correction", "opportunistic:1", "--failed",
                          ",".join(map(str, dead)))[0]["unreached"]]
        self.assertIn((1, 4, 6), broken)
        self.assertEqual(int(row["waiting_sets"]), len(broken))

    def test_drawn_sets_are_those_of_their_seeds(self):
        drawn = ("--ranks", "64", "--dead", "8", "--runs", "2000", "--correction", "opportunistic:1")
        (row,) = self.rows(*drawn)
        self.assertEqual((row["tree"], row["exact"]), ("binomial", "no"))
        waiting = sum(run["unreached"] > 0 for run in runs("--ranks", "64", "--correction", "opportunistic:1", "--failed-count",
                                                           "8", "--runs", "2000"))
        self.assertEqual(int(row["waiting_sets"]), waiting)
        self.assertGreater(waiting, 50)

    def test_the_tree_is_that_of_groups_and_checked_leaves_nobody_waiting(self):
        found = self.rows("--ranks", "16,17", "--dead", "2,5", "--correction", "opportunistic:1,checked")
        self.assertEqual([row["tree"] for row in found], 4 * ["star"] + 4 * ["binomial"])
        waiting = {(row["ranks"], row["correction"], row["dead"]): int(row["waiting_sets"]) for row in found}
        self.assertGreater(waiting.pop(("17", "opportunistic:1", "5")), 0)
        self.assertEqual(set(waiting.values()), {0})

    def test_the_table_and_what_makes_no_sense(self):
        self.assertIn("most left out", sim("promise", "--ranks", "64", "--dead", "3").stdout)
        for wrong in (("--correction", "nothing"), ("--tree", "oak"), ("--ranks", "0"), ("--runs", "0")):
            self.assertEqual(sim("promise", *wrong).returncode, 2, wrong)


class Models(unittest.TestCase):
    def test_one_sided_ring_messages_beside_the_papers_in_one_plot(self):
        with tempfile.TemporaryDirectory() as directory:
            done = sim("models", "--max-ranks", "1024", "--corrections", "checked:synchronized", "--out", directory,
                       "--no-plots")
            self.assertEqual(done.returncode, 0, done.stderr)
            plot = json.loads((pathlib.Path(directory) / "models.plot.json").read_text(encoding="utf-8"))
        curves = {curve["label"]: curve for curve in plot["panels"][0]["curves"]}
        papers = curves["checked:synchronized, as in the papers"]
        one_sided = curves["checked:synchronized, one-sided"]
        self.assertEqual(papers["x"], [64, 256, 1024])
        # Lemma 2's eight steps, and two less: the receptions' o of the last message and of the one that stops its
        # sender.
        self.assertEqual([two - one for two, one in zip(papers["y"], one_sided["y"])], [2, 2, 2])
        self.assertTrue(one_sided["dashed"] and not papers["dashed"])


class Refusals(unittest.TestCase):
    def refused(self, *arguments):
        done = sim(*arguments)
        self.assertEqual(done.returncode, 2, arguments)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_unknown_names_list_the_known(self):
        self.assertIn("binomial, kary:K, lame:K, optimal", self.refused("broadcast", "--tree", "oak"))
        self.assertIn("checked", self.refused("broadcast", "--correction", "chequed"))
        self.assertIn("optimized-paper", self.refused("broadcast", "--correction", "chequed"))
        # No group runs it.
        self.assertIn("gos has no correction", self.refused("broadcast", "--algorithm", "gos:9:rounds", "--as-engine"))
        self.assertIn("broadcast", self.refused("brodcast"))
        self.assertIn("fuzz broadcast", self.refused("fuzz", "everything"))
        self.assertIn("json", self.refused("broadcast", "--format", "yaml"))
        self.refused()

    def test_what_makes_no_sense(self):
        for arguments in (["--ranks", "0"], ["--failed", "64"], ["--failed", "0"], ["--failed", "3,3"], ["--faults", "2"],
                          ["--failed-count", "64"], ["--overhead", "0"], ["--dying", "3"], ["--frob"], ["--runs", "0"],
                          ["--tree", "optimal:2,3:inorder"]):
            self.assertIn("coppice-sim: ", self.refused("broadcast", *arguments))

    def test_sizes_that_do_not_fit_say_how_much_they_need(self):
        sentence = self.refused("broadcast", "--ranks", str(2**31), "--correction", "checked")
        self.assertRegex(sentence, r"needs about [\d.]+ GiB of memory, and .* is available")


class Help(unittest.TestCase):
    def test_every_subcommand_has_one_with_examples(self):
        self.assertIn("coppice-sim broadcast --ranks", sim("--help").stdout)
        for words in (["broadcast"], ["fuzz", "broadcast"], ["advise"], ["models"], ["promise"], ["membership"], ["placement"],
                      ["explore", "membership"], ["fuzz", "membership"]):
            done = sim(*words, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Examples:", done.stdout)


class Fuzz(unittest.TestCase):
    def test_promises_hold(self):
        done = sim("fuzz", "broadcast", "--seeds", "4000")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("every promise held", done.stdout)

    def test_every_algorithm_is_drawn(self):
        drawn = sim("fuzz", "broadcast", "--seeds", "500", "--verbose").stdout
        for name in (": big, ", ": bfb, ", ": gos:", ": ocg:", ": ccg:", ": fcg:", " checked", " optimized:", " failure-proof:"):
            self.assertIn(name, drawn)

    def test_a_seed_is_a_broadcast(self):
        first = sim("fuzz", "broadcast", "--seed", "99", "--seeds", "1", "--verbose").stdout
        self.assertEqual(first, sim("fuzz", "broadcast", "--seed", "99", "--seeds", "1", "--verbose").stdout)
        self.assertIn("seed 99: ", first)


class Explore(unittest.TestCase):
    def test_slots_of_agreements_are_used_again(self):
        done = sim("explore", "agreement", "--ranks", "3", "--crashes", "1", "--window", "1", "--agreements", "6")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()[2:]
        self.assertEqual(len(lines), 8)
        for line in lines:
            self.assertRegex(line, "all hold$")

    def test_trees_of_three_and_four_levels(self):
        # Four hosts, two on each leaf switch.
        for tree in ("bin/bin/star", "bin/chain/star/bin"):
            done = sim("explore", "agreement", "--ranks", "4", "--hosts", "4", "--crashes", "1", "--agreements", "2", "--tree", tree)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, tree + r" +10593 .*all hold\n$")

    def test_agreements_on_a_clock_go_by_levels(self):
        for tree in ("bin/bin/bin", "bin/bin/bin/star"):
            done = sim("agree", "--ranks", "512", "--ranks-per-host", "4", "--hosts-per-leaf", "8", "--leaves-per-pod", "4", "--tree", tree)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("messages 1022,", done.stdout)
        self.assertEqual(sim("agree", "--tree", "bin/bin/bin/bin/bin").returncode, 2)

    def test_two_deaths_in_a_broadcast_among_four(self):
        for tree in ("binomial", "star"):
            done = sim("explore", "broadcast", "--ranks", "4", "--crashes", "2", "--tree", tree, "--correction", "opportunistic:1")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("every promise held", done.stdout)


class Membership(unittest.TestCase):
    def test_the_next_view_takes_what_the_paper_says(self):
        done = sim("membership", "--ranks", "1048576", "--radix", "4", "--failures", "5")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("stable after 114.0 us", done.stdout)
        self.assertIn("1048571 members, the same at all that live", done.stdout)

    def test_every_schedule_of_a_small_group(self):
        done = sim("explore", "membership", "--ranks", "4", "--crashes", "2", "--joins", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("every promise held", done.stdout)

    def test_without_bound_votes_there_are_two_groups(self):
        done = sim("explore", "membership", "--ranks", "3", "--joins", "1", "--cuts", "1", "--without", "bound-votes")
        self.assertEqual(done.returncode, 1)
        self.assertIn("A shortest way there", done.stdout)
        self.assertIn("another had view 1", done.stdout)

    def test_the_printed_rules_break(self):
        for rule, group in (("views-without-numbers", ["--ranks", "3", "--cuts", "1"]),
                            ("root-forgets", ["--ranks", "3", "--cuts", "1"]),
                            ("two-roots", ["--ranks", "3", "--cuts", "1"]),
                            ("welcome-first", ["--ranks", "2", "--joins", "1", "--crashes", "1"]),
                            ("same-identity", ["--ranks", "3", "--rejoins", "1", "--crashes", "1", "--views", "2"])):
            done = sim("explore", "membership", *group, "--printed", rule)
            self.assertEqual(done.returncode, 1, rule)
            self.assertIn("A shortest way there", done.stdout)

    def test_bad_options_are_refused(self):
        for words in (["explore", "membership", "--without", "nothing"], ["explore", "membership", "--ranks", "6", "--joins", "3"],
                      ["explore", "membership", "--engine", "--radix", "4"], ["fuzz", "membership", "--ranks", "5..4"], ["membership", "--radix", "3"],
                      ["membership", "--ranks", "4", "--failures", "4"]):
            self.assertEqual(sim(*words).returncode, 2, words)

    def test_seeds(self):
        done = sim("fuzz", "membership", "--seeds", "1000", "--ranks", "3..64")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("every promise held", done.stdout)


if __name__ == "__main__":
    COMMAND = sys.argv.pop(1)
    unittest.main()
