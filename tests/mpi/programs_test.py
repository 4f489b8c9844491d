#!/usr/bin/env python3
"""Programs that nobody wrote for Coppice work out the same with its preload and without: ScaLAPACK's testers, as Debian has them, which check the
residuals of what they solve.

Usage: programs_test.py COPPICE_MPIRUN LAUNCHER…"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

MPIRUN = os.path.abspath(sys.argv[1])
LAUNCHERS = sys.argv[2:]
DEADLINE = 240 * int(os.environ.get("COPPICE_TEST_PATIENCE", "1"))
OPENMPI, MPICH = "mpirun.openmpi", "mpiexec.hydra"
OPTIONS = {OPENMPI: ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"], MPICH: []}
# They spin while they wait: no more of them than cores.
RANKS = 2
# The testers of the solvers of linear equations and of orthogonal factorizations, with what they read: pivots and panels go along the rows
# and columns of the grids of processes, each a communicator of its own.
PROGRAMS = {
    "xdlu": ("LU.dat", """'ScaLAPACK, LU factorization input file'
'MPI machine'
'LU.out'       output file name, if any
6              device out
3              number of problem sizes
17 31 57       values of M
13 31 57       values of N
3              number of NBs
2 3 8          values of NB
2              number of NRHSs
1 9            values of NRHS
1              number of NBRHSs
3              values of NBRHS
2              number of process grids
1 2            values of P
2 1            values of Q
1.0            threshold
F              no condition estimation, nor iterative refinement
"""),
    "xdqr": ("QR.dat", """'ScaLAPACK, orthogonal factorizations input file'
'MPI machine'
'QR.out'       output file name, if any
6              device out
6              number of factorizations
'QR' 'QL' 'LQ' 'RQ' 'QP' 'TZ'
2              number of problem sizes
13 30          values of M
17 20          values of N
2              number of blocking sizes
4 5            values of MB
3 8            values of NB
2              number of process grids
1 2            values of P
2 1            values of Q
5.0            threshold
"""),
}


def tester(launcher, name):
    found = glob.glob(f"/usr/lib/*/scalapack/{'openmpi' if launcher == OPENMPI else 'mpich'}-tests/{name}")
    return found[0] if found else None


def environment():
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("COPPICE_", "OMPI_", "PMIX_", "PMI_", "SLURM_", "LD_PRELOAD"))}
    return clean | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def without_times(printed):
    """Each line of results, whose columns of times and speeds are left out; and what they are summed up to."""
    lines = []
    for line in printed.splitlines():
        words = line.split()
        if words and words[0] in ("WALL", "CPU"):
            lines.append([word for word in words[1:] if not re.fullmatch(r"[\d.E+-]*\.[\d.E+-]*", word)])
        elif "tests" in line or "residual" in line.lower():
            lines.append(words)
    return lines


@unittest.skipUnless(all(tester(launcher, name) for launcher in LAUNCHERS for name in PROGRAMS),
                     "ScaLAPACK's testers are not here (tools/setup.sh --test installs them)")
class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="coppice-programs-")
        self.addCleanup(shutil.rmtree, self.folder)

    def run_in_folder(self, command, **more):
        for _ in range(3):
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                                  timeout=DEADLINE, env=environment() | more)
            # Now and then Open MPI's mpirun sees the end of a rank that was held up before it sees its MPI_Finalize, without Coppice, too.
            if "exiting improperly" not in done.stderr:
                break
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr)
        return done

    def test_solvers_work_out_the_same_and_pass_their_checks(self):
        for launcher in LAUNCHERS:
            for name, (file, text) in PROGRAMS.items():
                with self.subTest(launcher=launcher, program=name):
                    with open(os.path.join(self.folder, file), "w", encoding="utf-8") as inputs:
                        inputs.write(text)
                    words = ["-n", str(RANKS), *OPTIONS[launcher], tester(launcher, name)]
                    alone = self.run_in_folder([launcher, *words])
                    ours = self.run_in_folder([MPIRUN, "--launcher", launcher, *words], COPPICE_MPI_REPORT="1", COPPICE_MPI_AFTER="0")
                    results = without_times(ours.stdout)
                    self.assertEqual(results, without_times(alone.stdout))
                    # Nothing is compared with nothing.
                    self.assertGreater(sum(line[-1] == "PASSED" for line in results), 20, ours.stdout[-2000:])
                    self.assertNotIn("FAILED", ours.stdout)
                    counts = dict(re.findall(r"coppice-mpi: (\w+): (\d+) by Coppice", ours.stderr))
                    self.assertGreater(int(counts["MPI_Bcast"]), 1000, ours.stderr)
                    self.assertNotIn("could not be made", ours.stderr)
                    self.assertNotIn("without the others", ours.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
