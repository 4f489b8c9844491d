#!/usr/bin/env python3
"""What a user does on a cluster with Slurm, in one box: coppice-info, coppice-status and an MPI beside Coppice by srun, and the job scripts of
docs/launchers.md.

Usage: cluster_slurm_test.py CLUSTER LAUNCHED COPPICE_INFO COPPICE_STATUS HANGING [MPI_BESIDE]"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "support"))
import jobs  # noqa: E402

CLUSTER, LAUNCHED, INFO, STATUS, HANGING = (os.path.abspath(path) for path in sys.argv[1:6])
MPI_BESIDE = os.path.abspath(sys.argv[6]) if len(sys.argv) > 6 else None
DOCUMENT = os.path.join(HERE, os.pardir, os.pardir, "docs", "launchers.md")
DEADLINE = 280
NAME = f"slurm-{os.getpid()}"
SRUN = ["srun", "-N4", "-n8", "--no-kill", "--kill-on-bad-exit=0"]
# Without what the box tells mpirun and mpiexec.hydra: they find out themselves that this is a job of Slurm's.
AS_ELSEWHERE = ["sh", "-c", r'unset $(env | sed -n "s/^\(\(OMPI_MCA\|HYDRA\)_[A-Za-z_]*\)=.*/\1/p"); exec "$@"', "sh"]
# Who is killed, and the job's exit code. Over several hosts mpirun does not return when a rank is killed, before its `timeout` is over.
JOBS = {"srun": ("3", 137), "mpirun": (None, 0), "mpiexec.hydra": ("3", 137)}


def scripts():
    """By launcher, as the document has them."""
    with open(DOCUMENT, encoding="utf-8") as file:
        blocks = re.findall(r"^    #!/bin/sh\n(?:    .*\n)+", file.read(), re.M)
    texts = ["".join(line[4:] + "\n" for line in block.splitlines()) for block in blocks]
    return {next(name for name in JOBS if re.search(rf"\b{name} ", text)): text for text in texts}


class UnderSlurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()  # which the hosts have, too, as the box is made from there
        done = jobs.run([CLUSTER, "--name", NAME, "up", "--hosts", "4", "--slurm"], DEADLINE, directory=cls.folder.name)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        jobs.run([CLUSTER, "--name", NAME, "down"], DEADLINE)
        cls.folder.cleanup()

    def on_control_host(self, *command, code=0):
        done = jobs.run([CLUSTER, "--name", NAME, "exec", "ctl", *command], DEADLINE, directory=self.folder.name)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_coppice_info_shows_by_what_ranks_are_brought_together(self):
        for way, name in (("pmix", "pmix"), ("pmi2", "pmi")):
            with self.subTest(way=way):
                facts = json.loads(self.on_control_host(*SRUN, f"--mpi={way}", INFO, "--json").stdout)
                self.assertEqual(facts["bootstrap"], name)
                self.assertEqual((facts["group"]["ranks"], facts["group"]["positions"]), (8, 4))

    def status(self, host, *words, **settings):
        """What coppice-status shows on that host: the ranks, the hosts that they are on, and the names of their jobs."""
        command = [CLUSTER, "--name", NAME, "exec", str(host), "env", *(f"{name}={value}" for name, value in settings.items()), STATUS, "--json", *words]
        done = jobs.run(command, DEADLINE, directory=self.folder.name)
        shown = json.loads(done.stdout) if done.stdout else {"jobs": []}
        ranks = {one["groups"][0]["rank"]: one for job in shown["jobs"] for one in job["processes"] if one["groups"]}
        return ranks, {job["job"] for job in shown["jobs"]}, done.stdout + done.stderr

    def await_ranks(self, ranks, host, *words, **settings):
        end = time.monotonic() + DEADLINE
        while True:
            found, names, said = self.status(host, *words, **settings)
            if sorted(found) == ranks and all(one["groups"][0]["broadcasts"]["entered"] == 1 for one in found.values()):
                return found, names
            self.assertLess(time.monotonic(), end, said)
            time.sleep(0.2)

    def test_coppice_status_shows_the_ranks_of_a_job(self):
        """Those of a host from there, and all of them by the command of docs/status.md, within the job's allocation."""
        for way in ("pmix", "pmi2"):
            with self.subTest(way=way):
                command = [CLUSTER, "--name", NAME, "exec", "ctl", *SRUN, f"--mpi={way}", HANGING, "*:b0 pause"]
                with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as job:
                    try:
                        names = set()
                        for host in range(4):
                            names |= self.await_ranks([2 * host, 2 * host + 1], host, "--all")[1]
                        (name,) = names
                        number = re.fullmatch(r"slurm-(\d+)\.\d+", name)[1]
                        found, _ = self.await_ranks(list(range(8)), 0, "--everywhere", "--reach", "srun --overlap -N1 -n1 -w", name, SLURM_JOB_ID=number)
                        self.assertEqual([found[rank]["host"] for rank in range(8)], [f"n{rank // 2}" for rank in range(8)])
                    finally:
                        job.terminate()
                        job.wait(DEADLINE)

    @unittest.skipUnless(MPI_BESIDE, "without Open MPI")
    def test_the_launchers_exchange_does_not_disturb_an_mpi(self):
        done = self.on_control_host("env", "OMPI_MCA_mpi_yield_when_idle=1", *SRUN, "--mpi=pmix", MPI_BESIDE, "10", "launcher")
        self.assertIn("10 broadcasts among 8 ranks: 0 wrong", done.stdout)

    def submit(self, *names):
        """By launcher: its job's exit code and output."""
        submit = 'for name; do (cd $name; sbatch -W -o output job.sh; echo "$name: $?") & done; wait'
        done = self.on_control_host(*AS_ELSEWHERE, "sh", "-c", submit, "sh", *names)
        ended = {}
        for name in names:
            with open(os.path.join(self.folder.name, name, "output"), encoding="utf-8") as file:
                output = file.read() + done.stdout + done.stderr
            code = re.search(rf"^{re.escape(name)}: (\d+)$", done.stdout, re.M)
            self.assertTrue(code, output)
            ended[name] = int(code[1]), output
        return ended

    def test_job_scripts(self):
        """At the same time, because sbatch looks for the end of a job less and less often."""
        self.assertEqual(sorted(scripts()), sorted(JOBS))
        for name, text in scripts().items():
            victim, _ = JOBS[name]
            os.mkdir(os.path.join(self.folder.name, name))
            for file, content in (("job.sh", text), ("program", f"#!/bin/sh\nexec {LAUNCHED} 1 {victim or ''}\n")):
                with open(os.open(os.path.join(self.folder.name, name, file), os.O_WRONLY | os.O_CREAT, 0o755), "w", encoding="utf-8") as opened:
                    opened.write(content)
        ended = self.submit(*JOBS)
        for _ in range(jobs.HYDRAS_TRIES):
            if not jobs.hydra_has_lost_a_proxy(*ended["mpiexec.hydra"]):
                break
            ended |= self.submit("mpiexec.hydra")
        for name, (victim, code) in JOBS.items():
            with self.subTest(launcher=name):
                found, output = ended[name]
                self.assertEqual(found, code, output)
                left = [rank for rank in range(8) if str(rank) != victim]
                self.assertEqual(sorted(line for line in output.splitlines() if line.startswith("rank ")),
                                 [f"rank {rank} of 8 on 4 hosts, 1 groups, together {sum(1 << r for r in left):#x}" for rank in left], output)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("SKIP: making hosts needs the rights of root")
        sys.exit(77)
    if shutil.which("slurmctld", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        print("Slurm is missing (tools/setup.sh --test installs it)")
        sys.exit(1)
    unittest.main(argv=[sys.argv[0], *sys.argv[6 + (MPI_BESIDE is not None):]])
