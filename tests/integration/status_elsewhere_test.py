#!/usr/bin/env python3
"""coppice-status on one host of a box shows the ranks on all of them, also when these hang and a host can't be asked.

Usage: status_elsewhere_test.py CLUSTER COPPICE_STATUS HANGING"""

import json
import os
import socket
import socketserver
import subprocess
import sys
import time
import unittest

HOSTS = 3
PORT = 4711
PATIENCE = 120 * int(os.environ.get("COPPICE_TEST_PATIENCE", "1"))


def serve():
    """On a host: what sshd does. Runs what a connection asks for, a word per line, and sends what it prints."""
    class Shell(socketserver.StreamRequestHandler):
        def handle(self):
            words = self.rfile.read().decode().split("\0")
            if words == ["vanish"]:
                os._exit(0)
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=False)
            self.wfile.write(done.stdout)

    socketserver.ThreadingTCPServer.allow_reuse_address = True
    with socketserver.ThreadingTCPServer(("", PORT), Shell) as server:
        print("ready", flush=True)
        server.serve_forever()


def reach(host, words):
    """On another host: what ssh does."""
    with socket.create_connection((host, PORT), timeout=PATIENCE) as connection:
        connection.sendall("\0".join(words).encode())
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            sys.stdout.buffer.write(answer.read())


class Elsewhere(unittest.TestCase):
    name = f"status-{os.getpid()}"
    reaches = f"{sys.executable} {os.path.abspath(__file__)} reach"

    @classmethod
    def cluster(cls, *words, start=False, **more):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("COPPICE_", "OMPI_", "PMIX_", "PMI_", "SLURM_"))}
        command = [CLUSTER, "--name", cls.name, *words]
        if start:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True, env=environment, **more)
        return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=PATIENCE, env=environment)

    def setUp(self):
        made = self.cluster("up", "--hosts", str(HOSTS))
        self.assertEqual(made.returncode, 0, made.stderr)
        self.started = []
        self.addCleanup(self.end)
        for host in range(HOSTS):
            shell = self.cluster("exec", str(host), sys.executable, os.path.abspath(__file__), "serve", start=True, stdout=subprocess.PIPE)
            self.started.append(shell)
            self.assertEqual(shell.stdout.readline(), "ready\n")

    def end(self):
        self.cluster("down")
        for process in self.started:
            process.kill()
            process.communicate()

    def status(self, host, *words):
        return self.cluster("exec", str(host), STATUS, "--reach", self.reaches, *words)

    def hang(self):
        """Six ranks, two on each host, 0 and 3 on the first: 5 is in no call, and the others wait for its broadcast."""
        self.started.append(self.cluster("exec", "ctl", "mpirun", "--enable-recovery", "-np", "6", HANGING, "*:b0 b5", "5:b0 pause", start=True))

    def await_all(self, host, ranks, *words):
        end = time.monotonic() + PATIENCE
        while True:
            done = self.status(host, "--json", *words)
            shown = json.loads(done.stdout) if done.stdout else {"jobs": []}
            groups = {one["groups"][0]["rank"]: one for job in shown["jobs"] for one in job["processes"] if one["groups"]}
            blocked = [rank for rank, one in groups.items() if any(op["blocking"] and op["waits_for"] for op in one["operations"])]
            if sorted(groups) == ranks and len(blocked) == sum(rank != 5 for rank in ranks) and len(shown["jobs"]) == 1:
                return done, shown, groups
            self.assertLess(time.monotonic(), end, done.stdout + done.stderr)
            time.sleep(0.2)

    def test_all_hosts_of_a_job_that_hangs(self):
        self.hang()
        here = self.await_all(0, [0, 3])[1]
        self.assertNotIn("in no call", " ".join(here["findings"]))
        done, shown, groups = self.await_all(0, list(range(6)), "--everywhere")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([groups[rank]["host"] for rank in range(6)], ["n0", "n1", "n2"] * 2)
        self.assertRegex(" ".join(shown["findings"]), "rank 5.*in no call")
        (waits,) = {op["why"] for rank in (0, 1) for op in groups[rank]["operations"] if op["blocking"]}
        self.assertIn("rank 5", waits)
        self.assertIn("has not entered broadcast 1", waits)
        # The job by its name, from where no rank is; and for people.
        job = shown["jobs"][0]["job"]
        self.await_all(2, list(range(6)), "--on", "n1", job)
        text = self.status(1, "--everywhere", job)
        self.assertIn("6 processes of hanging on n0, n1, n2", text.stdout)
        self.assertRegex(text.stdout, r"5/6 +n2:\d+ ")
        # A host that can't be asked is a problem, and hides no other.
        self.cluster("exec", "0", sys.executable, os.path.abspath(__file__), "reach", "n1", "vanish")
        self.assertEqual(self.started[1].wait(PATIENCE), 0)
        done, shown, _ = self.await_all(0, [0, 2, 3, 5], "--everywhere")
        self.assertEqual(done.returncode, 3)
        (problem,) = shown["problems"]
        self.assertEqual((problem["host"], problem["pid"], problem["trouble"]), ("n1", None, "unreached"))
        # One that is silent is waited for as long as it was said.
        self.assertEqual(self.cluster("cut", "2").returncode, 0)
        began = time.monotonic()
        done = self.status(0, "--everywhere", "--patience", "2", "--json")
        self.assertLess(time.monotonic() - began, PATIENCE / 2)
        self.assertIn({"n2": "no answer within 2 s"}, [{one["host"]: one["message"]} for one in json.loads(done.stdout)["problems"]])

    def test_what_answers_is_no_dump(self):
        self.hang()
        self.await_all(0, [0, 3])
        for answer, message in (("echo garbage #", "no coppice-status of this version"), ("exit 9 #", "ended with 9 and said nothing"),
                                ("no-such-command", "not found"), (f"{STATUS} --dump | head -c 5000 #", "no coppice-status of this version")):
            with self.subTest(answer=answer):
                done = self.cluster("exec", "0", STATUS, "--reach", answer, "--everywhere", "--json")
                self.assertEqual(done.returncode, 3, done.stderr)
                problems = json.loads(done.stdout)["problems"]
                self.assertEqual(sorted(one["host"] for one in problems), ["n1", "n2"])
                for problem in problems:
                    self.assertIn(message, problem["message"])
        bad = self.status(0, "--on", "n1;reboot")
        self.assertEqual(bad.returncode, 2)
        self.assertIn("is no name of a host", bad.stderr)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    elif sys.argv[1] == "reach":
        reach(sys.argv[2], sys.argv[3:])
    elif os.geteuid() != 0:
        print("SKIP: making hosts needs the rights of root")
        sys.exit(77)
    else:
        CLUSTER, STATUS, HANGING = (os.path.abspath(path) for path in sys.argv[1:4])
        unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
