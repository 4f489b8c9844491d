#!/usr/bin/env python3
"""Programs of Open MPI and of MPICH whose collectives are Coppice's by preloading, over the hosts of a box.

Usage: preload_hosts_test.py CLUSTER COPPICE_MPIRUN SURVIVOR LAUNCHER=OPERATIONS…   with the test program as it was built for each MPI"""

import os
import re
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402

CLUSTER, MPIRUN, SURVIVOR = (os.path.abspath(path) for path in sys.argv[1:4])
PROGRAMS = dict(word.split("=") for word in sys.argv[4:])
DEADLINE = 280
OPENMPI = "mpirun.openmpi"
# Eight processes on however many cores: in MPI they give them away.
OPTIONS = {OPENMPI: ["--mca", "mpi_yield_when_idle", "1"], "mpiexec.hydra": []}
# MPICH 4.0.2 hangs in its own part of MPI_Finalize, with Coppice or without, in many runs on several hosts (docs/mpi.md). What its processes say
# before that ends the test.
SAYS = {OPENMPI: [], "mpiexec.hydra": ["say"]}
ALL = 8


class OverSeveralHosts(unittest.TestCase):
    def preloaded(self, launcher, *words):
        for _ in range(3):
            done = jobs.run([CLUSTER, "run", "--hosts", "4", "--", MPIRUN, "--launcher", launcher, "-n", str(ALL), *OPTIONS[launcher], *words], DEADLINE,
                            environment={"COPPICE_MPI_REPORT": "1", "COPPICE_MPI_AFTER": "0"},
                            is_over=lambda printed: printed.count(" is right\n") == ALL)
            # Now and then Open MPI's mpirun sees the end of a rank that was held up before it sees its MPI_Finalize, without Coppice, too.
            if "exiting improperly" not in done.stderr:
                break
        codes = [0]
        if done.was_ended:
            # Of the box, and of mpiexec.hydra, which may tell what its processes ended by as the kernel has it, or complains that some had
            # ended before it could pass SIGTERM on.
            codes += [128 + signal.SIGTERM, -signal.SIGTERM, signal.SIGTERM]
            if "[mpiexec@ctl]" in done.stderr:
                codes.append(255)
        self.assertIn(done.returncode, codes, done.stdout + done.stderr)
        return done

    def test_eight_processes_on_four_hosts_get_what_mpi_would_have_given_them(self):
        for launcher, program in PROGRAMS.items():
            for way, count in (("types", 16 * 8 + 1), ("kept", 8 * (1 + 12 + 6))):
                with self.subTest(launcher=launcher, way=way):
                    done = self.preloaded(launcher, program, way, *SAYS[launcher])
                    self.assertIn(f"{way}: 0 wrong", done.stdout)
                    self.assertIn("process 0 of 8", done.stderr)
                    self.assertEqual(re.findall(r"MPI_Bcast: (\d+) by Coppice, (\d+) passed on", done.stderr), [(str(count), "0")])

    def test_groups_of_freed_communicators_end(self):
        for launcher, program in PROGRAMS.items():
            for way in ("freed", "apart"):
                with self.subTest(launcher=launcher, way=way):
                    done = self.preloaded(launcher, program, way, *SAYS[launcher])
                    self.assertIn(f"{way}: 0 wrong", done.stdout)
                    self.assertNotIn("without the others", done.stderr)
                    self.assertNotIn("MPI_Finalize has waited", done.stderr)

    @unittest.skipUnless(OPENMPI in PROGRAMS, "without Open MPI")
    def test_survivors_of_all_processes_of_a_host_end_well(self):
        done = self.preloaded(OPENMPI, "--enable-recovery", SURVIVOR, "2@50", "6@50", "3@120")
        self.assertIn("5 of 8 processes are left; pi is 3.141592654", done.stdout, done.stderr)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("SKIP: making hosts needs the rights of root")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
