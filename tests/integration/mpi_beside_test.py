#!/usr/bin/env python3
"""An MPI program that broadcasts and then waits in MPI: nothing stalls, with every correction, on 2, 4 and 8 ranks.

Usage: mpi_beside_test.py PROGRAM [PROGRAM_OF_MPICH]"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM, MPICH = (os.path.abspath(path) if path else None for path in (*sys.argv[1:3], None)[:2])
DEADLINE = 300 * int(os.environ.get("COPPICE_TEST_PATIENCE", "1"))
# Each form of a correction that users can choose, and gossip with each of its corrections.
CORRECTIONS = ("opportunistic:1", "optimized:2", "checked", "delayed:100000", "failure-proof:1", "failure-proof:2:100000",
               "opportunistic:2:one-directional", "optimized:2:one-directional", "opportunistic:2:overlapped",
               "opportunistic:2:synchronized", "optimized:2:synchronized", "optimized:2:one-directional:synchronized",
               "opportunistic:1:one-directional:synchronized", "checked:synchronized", "delayed:100000:synchronized",
               "failure-proof:1:synchronized", "none", "ack")
ALGORITHMS = ("ocg", "ccg", "fcg:1", "ocg:4:rounds")


class BesideMpi(unittest.TestCase):
    def run_beside(self, ranks, *more, **settings):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("COPPICE_", "OMPI_", "PMIX_"))}
        environment.update(settings, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        names = [word for name in settings for word in ("-x", name)]
        command = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
                   *names, "-n", str(ranks), PROGRAM, "40", *more]
        for _ in range(3):
            done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                                  timeout=DEADLINE, env=environment)
            # Now and then mpirun sees the end of a rank that was held up before it sees its MPI_Finalize, without Coppice, too.
            if "exiting improperly" not in done.stderr:
                break
        self.assertEqual(done.returncode, 0, done.stderr)
        for way in more[1:] or ["default"]:
            self.assertIn(f"{way}: 40 broadcasts among {ranks} ranks: 0 wrong", done.stdout)

    def test_two_ranks_with_every_correction(self):
        ways = [*CORRECTIONS, *(f"algorithm={name}" for name in ALGORITHMS)]
        for transport in ("ucx", "tcp"):
            with self.subTest(transport=transport):
                self.run_beside(2, "mpi", *ways, COPPICE_TRANSPORT=transport)

    def test_more_ranks(self):
        for ranks in (4, 8):
            for correction in ("opportunistic:1", "checked"):
                with self.subTest(ranks=ranks, correction=correction):
                    self.run_beside(ranks, COPPICE_TRANSPORT="ucx", COPPICE_CORRECTION=correction)

    def test_the_launchers_exchange_does_not_disturb_the_mpi(self):
        self.run_beside(4, "launcher")

    def test_in_shared_memory_by_messages(self):
        self.run_beside(4, COPPICE_HIERARCHY="flat", COPPICE_TREE="binomial")


@unittest.skipUnless(MPICH, "without MPICH")
class BesideMpich(unittest.TestCase):
    def under_hydra(self, *more):
        """How it has ended, and what each rank said: a launcher that is told to abort may not read that any more."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("COPPICE_", "PMI_"))}
        with tempfile.TemporaryDirectory() as folder:
            kept = ["sh", "-c", f'exec "$@" 2>{folder}/$PMI_RANK', "sh", MPICH, "40", *more]
            done = subprocess.run(["mpiexec.hydra", "-n", "2", *kept], capture_output=True, text=True, check=False,
                                  stdin=subprocess.DEVNULL, timeout=DEADLINE, env=environment)
            return done, "".join(path.read_text() for path in pathlib.Path(folder).iterdir())

    def test_the_mpi_brings_the_ranks_together(self):
        done, said = self.under_hydra()
        self.assertEqual(done.returncode, 0, said)
        self.assertIn("40 broadcasts among 2 ranks: 0 wrong", done.stdout)

    def test_the_mpi_has_the_launchers_connection_for_itself(self):
        done, said = self.under_hydra("launcher")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(said, r"mpi_beside: .*an MPI of this process holds the launcher's connection \(PMI_FD\).*"
                               "coppice_group_options_t.exchange to a function that calls MPI_Allgather")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
