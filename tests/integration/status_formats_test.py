#!/usr/bin/env python3
"""What coppice-status prints beside jobs that run: numbers that grow, metrics, table after table; and what it costs.

Usage: status_formats_test.py COPPICE_STATUS COPPICE_RUN HANGING COPPICE_PERF [TEST…]"""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402
from status_jobs import Job, MPIRUN, PATIENCE, PERF, RUN, STATUS, clean_environment, status, until  # noqa: E402


class Work(unittest.TestCase):
    @unittest.skipUnless(os.path.exists("/proc/self/io"), "this kernel does not count what processes read")
    def test_each_rank_costs_the_same(self):
        """Several processes hold a rank's page. What is read of them grows with the ranks, and not with their square."""
        def bytes_read(launcher):
            with subprocess.Popen([STATUS, "--json", str(launcher)], stdout=subprocess.PIPE, env=clean_environment()) as reader:
                reader.stdout.read()
                os.waitid(os.P_PID, reader.pid, os.WEXITED | os.WNOWAIT)
                with open(f"/proc/{reader.pid}/io", encoding="utf-8") as counts:
                    return int(re.search(r"^rchar: (\d+)$", counts.read(), re.MULTILINE)[1])

        def of(ranks):
            with Job(ranks, "*:b0 pause") as job:
                until("all are there", lambda: len(job.by_rank()) == ranks)
                return min(bytes_read(job.launcher.pid) for _ in range(3))  # other processes come and go
        page, few, many = 48 * 1024, 4, 16
        self.assertLess(of(many) - of(few), (many - few) * 8 * page)


class BesidePerf(unittest.TestCase):
    def beside(self, command):
        """The exact command of the documentation, beside a running benchmark."""
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=clean_environment()) as launcher:
            try:
                def moving():
                    done = subprocess.run([STATUS, "--all", "--json"], capture_output=True, text=True, check=False,
                                          timeout=PATIENCE, env=clean_environment())
                    all_jobs = json.loads(done.stdout)["jobs"]
                    ours = [one for job in all_jobs for one in job["processes"] if jobs.descends(one["pid"], launcher.pid)]
                    counts = [one["groups"][0]["broadcasts"]["entered"] for one in ours if one["groups"]]
                    return sorted(counts) if len(counts) == 4 and min(counts) > 0 else None
                first = until("four ranks broadcast", moving)
                until("they have broadcast more", lambda: (moving() or first)[0] > first[-1])
            finally:
                launcher.terminate()
                launcher.communicate(timeout=PATIENCE)

    def test_under_coppice_run(self):
        self.beside([RUN, "-n", "4", PERF, "broadcast", "-s", "64", "-n", "10000000", "--verify"])

    @unittest.skipUnless(shutil.which("mpirun.openmpi"), "Open MPI's mpirun is missing (tools/setup.sh --test)")
    def test_under_mpirun(self):
        self.beside([*MPIRUN, "4", PERF, "broadcast", "-s", "64", "-n", "10000000", "--verify"])


SAMPLE = re.compile(r'^([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (-?\d[\d.e+-]*)$')


class Metrics(unittest.TestCase):
    def metrics(self, text):
        """Parses the text format, and holds it to its rules: HELP, TYPE, then all samples of that name, no series twice."""
        types, series, name = {}, {}, None
        for line in text.splitlines():
            if line.startswith("# HELP "):
                name = line.split()[2]
                self.assertNotIn(name, types, "the samples of a metric stand together")
            elif line.startswith("# TYPE "):
                self.assertEqual(line.split()[2], name)
                types[name] = line.split()[3]
                self.assertIn(types[name], ("gauge", "counter"))
                self.assertEqual(name.endswith("_total"), types[name] == "counter")
            else:
                sample = SAMPLE.match(line)
                self.assertTrue(sample, line)
                self.assertEqual(sample[1], name)
                key = (sample[1], sample[2])
                self.assertNotIn(key, series)
                series[key] = float(sample[3])
        self.assertTrue(text.endswith("\n"))
        return types, series

    def test_the_text_format(self):
        with Job(4, "*:b0 a b2", "2:b0 a pause") as job:
            job.await_blocked(0, 1, 3)
            done = status(job.launcher.pid, "--prometheus")
        self.assertEqual(done.returncode, 0, done.stderr)
        types, series = self.metrics(done.stdout)
        self.assertGreaterEqual(len(types), 15)
        entered = [value for (name, _), value in series.items() if name == "coppice_broadcasts_entered_total"]
        self.assertEqual(sorted(entered), [1, 2, 2, 2])
        waits = {re.search('rank="(.)"', labels)[1]: value for (name, labels), value in series.items()
                 if name == "coppice_operation_wait_seconds"}
        self.assertEqual(set(waits), {"0", "1", "3"})
        self.assertEqual(series[("coppice_findings", None)], 1)

    @unittest.skipUnless(shutil.which("promtool"), "promtool is missing (tools/setup.sh --test installs it)")
    def test_promtool_finds_nothing(self):
        with Job(4, "*:b0 a b2", "2:b0 a pause") as job:
            job.await_blocked(0, 1, 3)
            for who in ([job.launcher.pid], ["--all"]):
                done = status(*who, "--prometheus")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("coppice_operation_wait_seconds", done.stdout)
                judged = subprocess.run(["promtool", "check", "metrics"], input=done.stdout, capture_output=True, text=True, check=False)
                self.assertEqual((judged.returncode, judged.stdout + judged.stderr), (0, ""))


class Watching(unittest.TestCase):
    def test_it_shows_again_and_again(self):
        with Job(2, "*:b0 pause") as job:
            until("both are there", lambda: len(job.by_rank()) == 2)
            with subprocess.Popen([STATUS, str(job.launcher.pid), "--watch", "0.1"], stdout=subprocess.PIPE, text=True,
                                  env=clean_environment()) as watching:
                tables = 0
                while tables < 3:
                    line = watching.stdout.readline()
                    self.assertTrue(line, "it has ended")
                    tables += line.startswith("job coppice-run-")
                watching.terminate()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1]+sys.argv[5:], verbosity=2)
