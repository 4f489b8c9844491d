"""Jobs for coppice-status to look into, for tests that are called so:

NAME_test.py COPPICE_STATUS COPPICE_RUN HANGING COPPICE_PERF [TEST…]"""

import json
import os
import re
import signal
import subprocess
import sys
import time

STATUS, RUN, HANGING, PERF = (os.path.abspath(path) for path in sys.argv[1:5])
PATIENCE = 60 * int(os.environ.get("COPPICE_TEST_PATIENCE", "1"))
MPIRUN = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--enable-recovery", "-np")


def clean_environment(**more):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("COPPICE_", "OMPI_", "PMIX_", "PMI_", "SLURM_"))}
    return kept | more


def status(*arguments):
    return subprocess.run([STATUS, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=PATIENCE,
                          env=clean_environment())


def until(what, condition):
    """Waits for a condition, and returns what it gave."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        given = condition()
        if given:
            return given
        time.sleep(0.02)
    raise AssertionError(f"waited {PATIENCE} s in vain: {what}; it is:\n{status('--all').stdout}")


class Job:
    """A job under coppice-run, or the launcher that is named, which is ended at the end of the block."""

    def __init__(self, ranks, *arguments, options=(), program=None, launcher=(RUN, "-n"), **variables):
        self.ranks = ranks
        self.command = [*launcher, str(ranks), *options, program or HANGING, *arguments]
        self.variables = variables

    def __enter__(self):
        self.launcher = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, text=True, env=clean_environment(**self.variables))
        return self

    def __exit__(self, *_):
        try:
            for process in self.seen_pids():
                try:
                    os.kill(process, signal.SIGCONT)
                except ProcessLookupError:
                    pass
        finally:
            self.launcher.terminate()
        self.output = self.launcher.communicate(timeout=PATIENCE)[0]

    def seen_pids(self):
        return [one["pid"] for one in self.processes() if not one["ended"]]

    def report(self):
        done = status(self.launcher.pid, "--json")
        return json.loads(done.stdout)

    def processes(self):
        return [one for job in self.report()["jobs"] for one in job["processes"]]

    def by_rank(self):
        return {one["groups"][0]["rank"]: one for one in self.processes() if one["groups"]}

    def operations(self):
        """By rank, the operation that blocks it."""
        return {rank: next((op for op in one["operations"] if op["blocking"]), None) for rank, one in self.by_rank().items()}

    def await_blocked(self, *ranks):
        def all_blocked():
            operations = self.operations()
            return operations if all(operations.get(rank) and operations[rank]["waits_for"] for rank in ranks) else None
        return until(f"ranks {ranks} are blocked", all_blocked)

    def await_findings(self, pattern):
        def found():
            return [one for one in self.report()["findings"] if re.search(pattern, one)]
        return until(f"a finding like {pattern}", found)
