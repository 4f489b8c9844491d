#!/usr/bin/env python3
"""Programs of Open MPI and of MPICH whose collectives are Coppice's by preloading: they get what MPI would have given them, and go on
after deaths.

Usage: preload_test.py COPPICE_MPIRUN PRELOADS SURVIVOR COPPICE_STATUS LAUNCHER=OPERATIONS… [TEST…]
with the test program as it was built for each MPI"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402

MPIRUN, PRELOADS, SURVIVOR, STATUS = (os.path.abspath(path) for path in sys.argv[1:5])
PROGRAMS = dict(word.split("=") for word in sys.argv[5:] if "=" in word)
HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE = 240 * int(os.environ.get("COPPICE_TEST_PATIENCE", "1"))
OPENMPI, MPICH = "mpirun.openmpi", "mpiexec.hydra"
# Long messages need the sender's progress then.
OVER_TCP = ["--mca", "btl", "self,tcp"]
WITHOUT_SETTING = ["sh", "-c", 'unset COPPICE_MPI_AFTER; exec "$@"', "sh"]
# MPICH's processes spin: no more of them than cores.
RANKS = {OPENMPI: 4, MPICH: 2}
OPTIONS = {OPENMPI: ["--oversubscribe", "--bind-to", "none"], MPICH: []}


def run(command, **more):
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("COPPICE_", "OMPI_", "PMIX_", "PMI_", "SLURM_", "LD_PRELOAD"))}
    given = {name: value for name, value in ({"COPPICE_MPI_REPORT": "1", "COPPICE_MPI_AFTER": "0"} | more).items() if value is not None}
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=DEADLINE,
                              env=clean | given)
        # Now and then Open MPI's mpirun sees the end of a rank that was held up before it sees its MPI_Finalize, without Coppice, too.
        if "exiting improperly" not in done.stderr:
            break
    return done


def preloaded(launcher, program, *options, within=(), **more):
    return run([*within, MPIRUN, "--launcher", launcher, "-n", str(RANKS[launcher]), *OPTIONS[launcher], *options, *program], **more)


class Preloaded(unittest.TestCase):
    def check(self, done, said):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(said, done.stdout)
        self.assertNotIn("left without the others", done.stderr)
        counts = re.findall(r"coppice-mpi: (\w+): (\d+) by Coppice, (\d+) passed on", done.stderr)
        self.assertEqual([name for name, *_ in counts], ["MPI_Bcast", "MPI_Barrier", "MPI_Ibcast"], done.stderr)
        return {name: (int(ours), int(passed)) for name, ours, passed in counts}

    def everywhere(self, way, openmpi=(), before=()):
        results = []
        for launcher, program in PROGRAMS.items():
            done = preloaded(launcher, [*before, program, way], *(openmpi if launcher == OPENMPI else ()))
            results.append((RANKS[launcher], self.check(done, f"{way}: 0 wrong"), done.stderr))
        return results

    def test_two_hundred_splits(self):
        for _, counts, said in self.everywhere("splits"):
            self.assertGreater(counts["MPI_Bcast"][0], 10)
            self.assertNotIn("could not be made", said)

    def test_communicators_freed_in_other_order(self):
        for ranks, counts, said in self.everywhere("kept"):
            self.assertEqual(counts["MPI_Bcast"], (ranks * (1 + 12 + 6), 0))
            self.assertIn("13 groups", said)

    def test_communicators_that_a_program_makes_get_a_group_when_it_is_worth_it(self):
        """Without a setting the world's communicator has a group from its first operation, others when they have been used for a while; what
        was called before is passed on, the same at all processes, whatever each of them is told."""
        for launcher, program in PROGRAMS.items():
            ranks = RANKS[launcher]
            counts = self.check(preloaded(launcher, [*WITHOUT_SETTING, program, "kept"]), "kept: 0 wrong")
            self.assertGreater(counts["MPI_Bcast"][0], 0)
            self.assertGreater(counts["MPI_Bcast"][1], 0)
            self.assertEqual(sum(counts["MPI_Bcast"]), ranks * (1 + 12 + 6))
            rank = "OMPI_COMM_WORLD_RANK" if launcher == OPENMPI else "PMI_RANK"
            differ = ["sh", "-c", f'COPPICE_MPI_AFTER=$((3 + 1000 * {rank})) exec "$@"', "sh"]
            done = preloaded(launcher, [*differ, program, "types"])
            self.assertEqual(self.check(done, "types: 0 wrong")["MPI_Bcast"], (16 * ranks + 1 - 3, 3))
            self.assertIn("3 on communicators before their group was worth it", done.stderr)

    def test_without_a_setting_a_group_comes_after_1024_operations(self):
        """Of those that could be Coppice's, whichever of the three they are."""
        for ranks, counts, said in self.everywhere("often", before=WITHOUT_SETTING):
            self.assertEqual(counts, {"MPI_Bcast": (10, 1000 + 2 * ranks), "MPI_Barrier": (1 + 3, 24), "MPI_Ibcast": (0, 0)})
            self.assertIn("1024 on communicators before their group was worth it (COPPICE_MPI_AFTER)", said)
            self.assertIn(f"passed on: {2 * ranks} larger than one message of Coppice", said)
            self.assertIn("2 groups", said)

    def test_broadcasts_larger_than_one_message_are_passed_on(self):
        for ranks, counts, said in self.everywhere("large"):
            self.assertEqual(counts["MPI_Bcast"], (ranks, ranks))
            self.assertEqual(re.findall("passed on: .*", said), [f"passed on: {ranks} larger than one message of Coppice"])

    def test_a_number_of_operations_that_is_none(self):
        for launcher, program in PROGRAMS.items():
            done = preloaded(launcher, [program, "types"], COPPICE_MPI_AFTER="oak")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("COPPICE_MPI_AFTER='oak' is not a number of operations", done.stderr)

    def test_derived_types(self):
        for ranks, counts, _ in self.everywhere("types"):
            self.assertEqual(counts["MPI_Bcast"], (16 * ranks + 1, 0))

    def test_types_that_are_rows_of_bytes_are_not_packed(self):
        for ranks, counts, said in self.everywhere("layouts"):
            self.assertEqual(counts["MPI_Bcast"], (9 * ranks, 0))
            self.assertIn(f"coppice-mpi: {3 * ranks} payloads of types with gaps were packed", said)

    def test_what_is_mpis_is_counted(self):
        for _, _, said in self.everywhere("counted"):
            found = dict(re.findall(r"coppice-mpi: MPI_(\w+): (\d+) calls, which are MPI's", said))
            once = ("Reduce_scatter_block", "Reduce_scatter", "Scan", "Exscan", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather",
                    "Allgatherv", "Alltoall", "Alltoallv", "Allreduce")
            self.assertEqual(found, {**dict.fromkeys(once, "1"), "Reduce": "2"})

    def test_requests_count_for_the_next_call_that_may_wait(self):
        """A communicator of MPI_Ibcast alone gets no group; with one other call it does, as soon as it is worth it."""
        for ranks, counts, said in self.everywhere("requests_alone", before=WITHOUT_SETTING):
            self.assertEqual(counts, {"MPI_Bcast": (ranks - 1, 1), "MPI_Barrier": (3, 0), "MPI_Ibcast": (5, 1028 + 1023)})
            self.assertIn("2051 on communicators that nothing had waited on before", said)
            self.assertIn("2 groups", said)

    def test_requests_in_whatever_order_and_beside_messages(self):
        for _, counts, said in self.everywhere("requests"):
            # The first of them come before anything that may wait for a group to be made.
            self.assertEqual(counts["MPI_Ibcast"], (180, 90))
            self.assertIn("90 on communicators that nothing had waited on before", said)

    def test_communicators_freed_while_broadcasts_are_pending(self):
        for ranks, counts, said in self.everywhere("freed"):
            self.assertEqual(counts["MPI_Ibcast"], (3 * 90, 0))
            self.assertEqual(counts["MPI_Bcast"][0], ranks * (1 + 3))
            self.assertIn("4 groups", said)

    def test_freeing_a_communicator_waits_for_nobody(self):
        for ranks, counts, _ in self.everywhere("sent", OVER_TCP):
            self.assertEqual(counts["MPI_Bcast"], (ranks + 1, 0))

    def test_a_group_ends_while_others_stay_away(self):
        self.everywhere("apart")

    def test_mpi_makes_progress_in_finalize(self):
        for launcher, program in PROGRAMS.items():
            options = OVER_TCP if launcher == OPENMPI else []
            # A machine that stands still may take as long as MPI_Finalize waits, though not three times.
            for _ in range(3):
                done = preloaded(launcher, [program, "last"], *options)
                self.check(done, "last: 0 wrong")
                if "MPI_Finalize has waited" not in done.stderr:
                    break
            self.assertNotIn("MPI_Finalize has waited", done.stderr)

    def test_a_process_that_cannot_take_part_ends_the_program(self):
        for way in ("unpackable", "unpackable_later"):
            for launcher, program in PROGRAMS.items():
                with self.subTest(way=way, launcher=launcher):
                    done = preloaded(launcher, [program, way])
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn("coppice-mpi: this process cannot take part in a broadcast: MPI_ERR_TYPE" if launcher == OPENMPI else
                                  "coppice-mpi: this process cannot take part in a broadcast: ", done.stderr)

    def test_that_program_without_a_group_says_so(self):
        for launcher, program in PROGRAMS.items():
            with self.subTest(launcher=launcher):
                done = preloaded(launcher, [program, "unpackable"], COPPICE_TREE="oak")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("unpackable: Coppice has no group here", done.stderr)

    def test_several_threads_at_once(self):
        for ranks, counts, _ in self.everywhere("threads"):
            self.assertEqual((counts["MPI_Bcast"], counts["MPI_Ibcast"]), ((3 * 300 * ranks, 0), (3 * 40, 0)))

    def test_what_is_not_for_coppice_is_passed_on(self):
        for _, counts, said in self.everywhere("other"):
            self.assertGreater(counts["MPI_Bcast"][1], 0)
            self.assertEqual(counts["MPI_Barrier"], (3, 2))
            for reason in ("communicators of one process", "intercommunicators", "arguments for MPI to complain about"):
                self.assertIn(reason, said)

    def test_a_group_that_cannot_be_made(self):
        """At one process: nothing goes through Coppice at any of them."""
        for launcher, program in PROGRAMS.items():
            with self.subTest(launcher=launcher):
                bad = ["sh", "-c", f'[ "${"OMPI_COMM_WORLD_RANK" if launcher == OPENMPI else "PMI_RANK"}" = 1 ] && export COPPICE_TREE=oak; exec "$@"', "sh"]
                done = preloaded(launcher, [*bad, program, "types"])
                counts = self.check(done, "types: 0 wrong")
                self.assertEqual(counts["MPI_Bcast"][0], 0)
                self.assertIn("1 groups could not be made", done.stderr)

    def test_a_program_that_uses_nothing_of_coppice_does_not_load_it(self):
        for _, counts, said in self.everywhere("unused"):
            self.assertEqual(set(counts.values()), {(0, 0)})
            self.assertIn("no group was needed, and the library was not loaded", said)
        for ranks, counts, said in self.everywhere("late"):
            self.assertEqual(counts["MPI_Bcast"], (ranks, 1))
            self.assertNotIn("was not loaded", said)

    def test_a_library_that_cannot_be_loaded(self):
        """At all processes, or at one: nothing goes through Coppice at any of them."""
        for launcher, program in PROGRAMS.items():
            mpi = "openmpi" if launcher == OPENMPI else "mpich"
            preload = os.path.join(PRELOADS, f"libcoppice-{mpi}.so")
            for content, sentence in ((b"", "the library can't be loaded: .*file too short"),
                                      (pathlib.Path(preload).read_bytes(), "libcoppice.so.0 has no coppice_context_create: it is of another version")):
                with self.subTest(launcher=launcher, sentence=sentence), tempfile.TemporaryDirectory() as folder:
                    os.mkdir(f"{folder}/coppice")
                    shutil.copy(preload, f"{folder}/coppice")
                    with open(f"{folder}/libcoppice.so.0", "wb") as library:
                        library.write(content)
                    rank = "OMPI_COMM_WORLD_RANK" if launcher == OPENMPI else "PMI_RANK"
                    for whose, said in ((f"${rank}", sentence), ("1", "at another process")):
                        script = f'if [ "${rank}" = "{whose}" ]; then LD_PRELOAD={folder}/coppice/libcoppice-{mpi}.so; fi; exec "$@"'
                        done = preloaded(launcher, ["sh", "-c", script, "sh", program, "types"])
                        self.assertEqual(self.check(done, "types: 0 wrong")["MPI_Bcast"], (0, 16 * RANKS[launcher] + 1))
                        self.assertEqual(len(re.findall(f"coppice-mpi: 1 groups could not be made: {said}", done.stderr)), 1, done.stderr)

    # MPICH itself ends by a bus error then, in MPI_Init.
    @unittest.skipUnless(OPENMPI in PROGRAMS, "without Open MPI")
    def test_a_full_dev_shm(self):
        if not jobs.can_fill_dev_shm():
            self.skipTest("a mount namespace cannot be made here: run as root to try it")
        # Open MPI goes without memory of its own there: several processes that complain of it at once bring its mpirun down, without
        # Coppice, too.
        done = preloaded(OPENMPI, [*OVER_TCP, PROGRAMS[OPENMPI], "types"], within=jobs.FULL_DEV_SHM)
        self.assertEqual(self.check(done, "types: 0 wrong")["MPI_Bcast"], (16 * RANKS[OPENMPI] + 1, 0))
        self.assertIn("there is: full\n", done.stdout)

    @unittest.skipUnless(OPENMPI in PROGRAMS, "without Open MPI")
    def test_pickled_objects(self):
        python = "/usr/bin/python3"
        if subprocess.run([python, "-c", "import mpi4py"], capture_output=True, check=False).returncode != 0:
            self.skipTest("there is no mpi4py here")
        command = [MPIRUN, "-np", "4", "--oversubscribe", python, os.path.join(HERE, "pickled.py")]
        ours, _ = self.check(run(command), "80 broadcasts among 4 processes: 0 wrong")["MPI_Bcast"]
        self.assertGreater(ours, 100)

    @unittest.skipUnless(OPENMPI in PROGRAMS, "without Open MPI")
    def test_coppice_status_beside_it(self):
        """The exact command, from elsewhere: it shows each process, and how far it is in the group of MPI_COMM_WORLD."""
        python = "/usr/bin/python3"
        if subprocess.run([python, "-c", "import mpi4py"], capture_output=True, check=False).returncode != 0:
            self.skipTest("there is no mpi4py here")
        command = [MPIRUN, "-np", "4", "--oversubscribe", python, os.path.join(HERE, "pickled.py"), "1000000"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as job:
            try:
                end = time.monotonic() + DEADLINE
                begun = {}
                while len(begun) < 4 or min(begun.values()) < 2:
                    self.assertLess(time.monotonic(), end, begun)
                    self.assertIsNone(job.poll())
                    done = subprocess.run([STATUS, "--all", "--json"], capture_output=True, text=True, check=False, timeout=DEADLINE)
                    begun = {}
                    for one in (one for shown in json.loads(done.stdout or '{"jobs": []}')["jobs"] for one in shown["processes"]):
                        if one["groups"] and jobs.descends(one["pid"], job.pid):
                            begun[one["groups"][0]["rank"]] = one["groups"][0]["broadcasts"]["entered"]
                self.assertEqual(sorted(begun), [0, 1, 2, 3])
            finally:
                os.killpg(job.pid, signal.SIGTERM)
                job.wait(DEADLINE)

    def test_fortran(self):
        """By mpif.h, and the modules mpi and mpi_f08."""
        for launcher in PROGRAMS:
            compiler = "mpifort.openmpi" if launcher == OPENMPI else "mpifort.mpich"
            ranks = RANKS[launcher]
            with self.subTest(compiler=compiler), tempfile.TemporaryDirectory() as folder:
                if not shutil.which(compiler):
                    self.skipTest(f"{compiler} is missing (tools/setup.sh --test installs it)")
                built = subprocess.run([compiler, *(os.path.join(HERE, name) for name in ("fortran.f90", "fortran_header.f90")), "-o", f"{folder}/fortran"],
                                       cwd=folder, capture_output=True, text=True, check=False)
                self.assertEqual(built.returncode, 0, built.stderr)
                counts = self.check(preloaded(launcher, [f"{folder}/fortran"]), "fortran: 0 wrong")
                self.assertEqual(counts, {"MPI_Bcast": (ranks + 2 + 1, 0), "MPI_Barrier": (ranks + 1 + 1, 0), "MPI_Ibcast": (1 + 1, 0)})

    @unittest.skipUnless(OPENMPI in PROGRAMS, "without Open MPI")
    def test_survivors_end_well(self):
        for victims, left in ((["2@50"], 3), (["0@20", "3@20", "1@150"], 1)):
            with self.subTest(victims=victims):
                done = preloaded(OPENMPI, [SURVIVOR, *victims], "--enable-recovery", COPPICE_MPI_AFTER=None)
                self.assertIn(f"{left} of 4 processes are left; pi is 3.141592654", done.stdout, done.stderr)
                self.assertEqual(done.returncode, 0, done.stderr)


    @unittest.skipUnless(OPENMPI in PROGRAMS, "without Open MPI")
    def test_what_recovery_needs_is_set_with_it(self):
        """Unless it is set otherwise; and without it nothing is."""
        tell = ["sh", "-c", "echo after=$COPPICE_MPI_AFTER async=$OMPI_MCA_async_mpi_finalize."]
        for options, given, told in (((), {}, "after= async=."), (("--enable-recovery",), {}, "after=0 async=1."),
                                     (("-enable-recovery",), {}, "after=0 async=1."),
                                     (("--enable-recovery",), {"COPPICE_MPI_AFTER": "7", "OMPI_MCA_async_mpi_finalize": "0"}, "after=7 async=0.")):
            with self.subTest(options=options, given=given):
                done = preloaded(OPENMPI, tell, *options, **{"COPPICE_MPI_AFTER": None, **given})
                self.assertEqual(done.stdout.split("\n"), [told] * RANKS[OPENMPI] + [""], done.stderr)


class WentWrong(unittest.TestCase):
    def test_the_preload_of_the_other_mpi(self):
        if len(PROGRAMS) < 2:
            self.skipTest("there are not two MPIs here")
        for name, program in ((("mpich", PROGRAMS[OPENMPI]), ("openmpi", PROGRAMS[MPICH]))):
            done = run([program, "other"], LD_PRELOAD=os.path.join(PRELOADS, f"libcoppice-{name}.so"))
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"libcoppice-{name}.so is preloaded", done.stderr)
            self.assertIn("use coppice-mpirun", done.stderr)

    def test_a_program_without_mpi_does_not_notice(self):
        for name in ("openmpi", "mpich"):
            path = os.path.join(PRELOADS, f"libcoppice-{name}.so")
            if os.path.exists(path):
                done = run(["sh", "-c", "echo fine"], LD_PRELOAD=path)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "fine\n", ""))

    def test_launchers_that_are_none(self):
        for launcher, word in (("/nonexistent/mpirun", "cannot run"), ("ls", "neither Open MPI's nor MPICH's")):
            done = run([MPIRUN, "--launcher", launcher, "-n", "2", "true"])
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *(word for word in sys.argv[5:] if "=" not in word)], verbosity=2)
