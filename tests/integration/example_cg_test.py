#!/usr/bin/env python3
"""The conjugate-gradient example with real processes: whichever rank dies, the survivors end with the same
residuals, to the last bit.

Usage: example_cg_test.py COPPICE_RUN CG"""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402

RUN, CG = (os.path.abspath(path) for path in sys.argv[1:3])
DEADLINE = 240


def solve(ranks, *options, launcher=(), faults=None):
    """Runs it; the text of its results, and all that it has printed."""
    done = jobs.run([RUN, "-n", str(ranks), *launcher, CG, *options], DEADLINE, {"COPPICE_FAULTS": faults} if faults else {})
    return re.findall(r"^cg: (source \d+: .*)$", done.stdout, re.M), done


def with_spares(spares, faults):
    """The same with spares, of a job that lasts until these are there: one that came too late to be taken in is told of by the launcher,
    and then there is more to solve. Also how many equations there were."""
    sources = 2
    while True:
        options = ("--grid", "10", "--sources", str(sources), "--checkpoint-every", "5")
        results, done = solve(4, *options, launcher=("--spares", str(spares)), faults=faults)
        if "4 of 4 ranks live" in done.stdout or "no member of the group is left that could take it in" not in done.stderr:
            return results, done, sources
        sources *= 2


class ConjugateGradients(unittest.TestCase):
    SMALL = ("--grid", "10", "--sources", "2", "--checkpoint-every", "5")

    @classmethod
    def setUpClass(cls):
        cls.undisturbed, done = solve(4, *cls.SMALL)
        assert done.returncode == 0 and len(cls.undisturbed) == 2, done.stdout + done.stderr

    def undisturbed_of(self, sources):
        if sources == 2:
            return self.undisturbed
        results, done = solve(4, "--grid", "10", "--sources", str(sources), "--checkpoint-every", "5")
        self.assertEqual(done.returncode, 0, done.stderr)
        return results

    def test_solves_the_equation(self):
        for line in self.undisturbed:
            residual, error = re.search(r"residual (\S+) after \d+ iterations, off the solution by (\S+) at most",
                                        line).groups()
            self.assertLessEqual(float(residual), 1e-12)
            self.assertLess(float(error), 1e-10)

    def test_a_death_changes_no_bit_of_the_result(self):
        # Counted in messages of the victim: at the start, between checkpoints, in the second equation.
        for message in (4, 47, 130):
            with self.subTest(message=message):
                results, done = solve(4, *self.SMALL, faults=f"kill-before:{message}@2")
                self.assertIn("rank 2 (pid", done.stderr)
                self.assertIn("was killed by signal 9", done.stderr)
                self.assertIn("cg: rank 2 died", done.stdout, done.stderr)
                self.assertIn("cg: slab 2 restored by rank ", done.stdout)
                self.assertIn("3 of 4 ranks live", done.stdout)
                self.assertEqual(results, self.undisturbed)

    def test_a_death_before_all_have_begun(self):
        # While the ranks tell each other of the memory that they share, which rank 0 makes; each message, before and
        # after.
        for victim in (0, 2):
            for moment in ("kill-before:1", "kill-after:1", "kill-before:2", "kill-after:2", "kill-before:3"):
                with self.subTest(victim=victim, moment=moment):
                    results, done = solve(4, *self.SMALL, faults=f"{moment}@{victim}")
                    self.assertIn(f"cg: rank {victim} died", done.stdout, done.stderr)
                    self.assertIn("3 of 4 ranks live", done.stdout)
                    self.assertEqual(results, self.undisturbed)

    def test_several_deaths(self):
        results, done = solve(4, *self.SMALL, faults="kill-before:30@0,kill-before:45@2")
        self.assertIn("cg: rank 0 died", done.stdout, done.stderr)
        self.assertIn("cg: rank 2 died", done.stdout)
        self.assertIn("2 of 4 ranks live", done.stdout)
        self.assertEqual(results, self.undisturbed)

    def test_a_death_as_the_results_are_printed(self):
        # Of the rank that prints them: each of its last ten messages, and some that it does not get to.
        def dies_before(message):
            results, done = solve(4, *self.SMALL, faults=f"kill-before:{message}@0")
            # Printed by another, too, if nobody knew that they had been.
            self.assertIn(results, (self.undisturbed, self.undisturbed * 2), done.stderr)
            return "was killed by signal 9" in done.stderr
        reached, beyond = 1, 2
        while dies_before(beyond):
            reached, beyond = beyond, 2 * beyond
            self.assertLess(beyond, 100_000)
        while beyond - reached > 1:
            middle = (reached + beyond) // 2
            if dies_before(middle):
                reached = middle
            else:
                beyond = middle
        for message in range(max(reached - 10, 1), beyond + 3):
            with self.subTest(message=message):
                dies_before(message)

    def test_spares_take_the_places_of_the_dead(self):
        # The first rank too, and one death at the start, before all have begun.
        for faults in ("kill-before:2@2", "kill-before:50@2", "kill-before:60@0", "kill-before:40@1,kill-before:130@3"):
            with self.subTest(faults=faults):
                results, done, sources = with_spares(2, faults)
                for victim in re.findall("@([0-9])", faults):
                    self.assertIn(f"cg: rank {victim} died", done.stdout, done.stderr)
                self.assertIn("4 of 4 ranks live", done.stdout, done.stderr)
                self.assertEqual(results, self.undisturbed_of(sources))

    def test_a_spare_dies_as_it_is_brought_what_it_lacks(self):
        # And rank 3 with it or soon after, whose slab rank 0 has a copy of; of rank 1's slab rank 2 has one.
        for message in range(1, 17):
            for second in ("", f",kill-before:{54 + message}@3"):
                with self.subTest(message=message, second=second):
                    faults = f"kill-before:50@1,kill-before:{message}@4{second}"
                    results, done, sources = with_spares(4, faults)
                    self.assertIn("cg: rank 1 died", done.stdout, done.stderr)
                    self.assertIn("4 of 4 ranks live", done.stdout, done.stderr)
                    self.assertEqual(results, self.undisturbed_of(sources))

    def test_a_rank_that_is_started_again_is_taken_in(self):
        # How far the others are then depends on the times.
        results, done = solve(4, "--grid", "24", "--sources", "6", "--checkpoint-every", "5",
                              launcher=("--respawn", "--kill", "2@20ms", "--kill", "0@60ms"))
        undisturbed, _ = solve(4, "--grid", "24", "--sources", "6")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(results, (undisturbed, undisturbed * 2))

    def test_a_death_on_another_host(self):
        results, done = solve(4, *self.SMALL, launcher=("--hosts", "2"), faults="kill-before:60@3")
        if "--hosts:" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertIn("cg: rank 3 died", done.stdout, done.stderr)
        self.assertEqual(results, self.undisturbed)

    def test_more_ranks_than_planes_are_refused(self):
        _, done = solve(5, "--grid", "4")
        self.assertEqual(done.returncode, 1)
        self.assertIn("one for each plane", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
