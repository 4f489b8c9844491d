#!/usr/bin/env python3
"""Groups of some ranks, under coppice-run, with an exchange of the program's own, and by PMIx.

Usage: some_ranks_test.py SOME_RANKS COPPICE_RUN [MPIRUN MPIEXEC_HYDRA]"""

import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM, RUN = (os.path.abspath(path) for path in sys.argv[1:3])
OTHERS = sys.argv[3:5]
DEADLINE = 240 * int(os.environ.get("COPPICE_TEST_PATIENCE", "1"))
RANKS = 7


def run(*command, **more):
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("COPPICE_", "OMPI_", "PMIX_", "PMI_", "SLURM_"))}
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=DEADLINE, env=clean | more)


def expected(victim=None):
    lines = []
    for ranks in ([0, 2, 4, 6], [5, 3, 1]):
        together = sum(1 << rank for rank in ranks if rank != victim)
        lines += [f"rank {rank} is {place} of {len(ranks)}, together {together:#x}" for place, rank in enumerate(ranks) if rank != victim]
    return sorted(lines)


class Expecting(unittest.TestCase):
    def expect(self, done, victim=None):
        self.assertEqual(sorted(done.stdout.splitlines()), expected(victim), done.stderr)


class SomeRanks(Expecting):
    def test_under_coppice_run(self):
        for how in ("first", "after"):
            for words in ((), ("sh", "-c", 'COPPICE_HOST=h$((COPPICE_RANK % 3)) exec "$@"', "sh")):
                with self.subTest(how=how, words=words):
                    done = run(RUN, "-n", str(RANKS), "--", *words, PROGRAM, how, "3")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.expect(done)

    def test_under_coppice_run_a_rank_dies_before(self):
        for how in ("first", "after"):
            with self.subTest(how=how):
                self.expect(run(RUN, "-n", str(RANKS), "--", PROGRAM, how, "2", "6"), victim=6)

    def test_by_an_exchange_of_the_programs_own(self):
        done = run(RUN, "-n", str(RANKS), "--", PROGRAM, "exchange", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.expect(done)

    def test_who_does_not_come_is_named(self):
        # Only those that wait for it have a deadline: however late the odd ranks are, they meet.
        late = f'[ $(($COPPICE_RANK % 2)) = 1 ] || export COPPICE_START_TIMEOUT=5s; if [ $COPPICE_RANK = 4 ]; then while [ ! -e "$0" ]; do sleep 0.1; done; else {PROGRAM} first 1; ended=$?; [ $COPPICE_RANK = 0 ] && touch "$0"; exit $ended; fi'
        with tempfile.TemporaryDirectory() as folder:
            done = run(RUN, "-n", str(RANKS), "--", "sh", "-c", late, os.path.join(folder, "over"))
        self.assertIn("missing: rank 4 (alive, but never called)", done.stderr)
        # The odd ranks do without it.
        self.assertEqual(sorted(done.stdout.splitlines()), [line for line in expected() if line[5] in "135"])


@unittest.skipUnless(OTHERS, "Open MPI or MPICH is missing")
class OtherLaunchers(Expecting):
    def mpirun(self, *words):
        return run(OTHERS[0], "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--enable-recovery", "-n", str(RANKS), *words)

    def test_under_mpirun(self):
        for how in ("after", "exchange"):
            for words in ((), ("sh", "-c", 'COPPICE_HOST=h$((PMIX_RANK % 3)) exec "$@"', "sh")):
                with self.subTest(how=how, words=words):
                    done = self.mpirun(*words, PROGRAM, how, "3")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.expect(done)

    def test_under_mpirun_a_rank_dies_before(self):
        self.expect(self.mpirun(PROGRAM, "after", "2", "6"), victim=6)

    def test_pmix_says_that_a_group_of_all_comes_first(self):
        done = run(OTHERS[0], "--allow-run-as-root", "--oversubscribe", "-n", "3", PROGRAM, "first", "1")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("make a group of all first", done.stderr)

    def test_hydra_says_that_it_brings_all_together_or_none(self):
        done = run(OTHERS[1], "-n", "3", PROGRAM, "first", "1", SLURM_NTASKS="3")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("brings all 3 ranks together, or none", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5 if OTHERS else 3:]])
