#!/usr/bin/env python3
"""A cluster in a box, with real namespaces. Usage: cluster_test.py CLUSTER"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

CLUSTER = os.path.abspath(sys.argv[1])
THROUGH_THE_BOX = os.path.join(os.path.dirname(CLUSTER), "cluster.d", "rank")
DEADLINE = 240 * int(os.environ.get("COPPICE_TEST_PATIENCE", "1"))
NAME = f"test-{os.getpid()}"
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 7), timeout=float(sys.argv[2])).close()"
LISTEN = "import socket; s = socket.create_server(('', 7), backlog=9)\nprint('ready', flush=True)\nwhile True: s.accept()"
PYTHON = "/usr/bin/python3"


def cluster(*words, **more):
    return subprocess.run([CLUSTER, *words], **{"capture_output": True, "text": True, "check": False, "timeout": DEADLINE,
                                                "stdin": subprocess.DEVNULL, **more})


def wait_for(condition, what):
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def alive(mark):
    """Processes that were started with this argument, zombies not."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if mark.encode() in file.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            continue
    return found


def keepers(name):
    """All processes of the tool for a box of that name."""
    return alive(name)


def keeper(name):
    """The one that has made the others: they are of its session."""
    (pid,) = (pid for pid in keepers(name) if os.getsid(pid) == pid)
    return pid


def namespace(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def daemons_of_slurm(namespaces):
    """Of hosts whose processes have these namespaces."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if (os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith(("munged", "slurmctld", "slurmd")) and namespace(pid) in namespaces):
                found.add(int(pid))
        except OSError:
            continue
    return found


def links():
    return subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout.count("\n")


def mounts():
    with open("/proc/self/mounts", encoding="utf-8") as file:
        return sorted(file)


class InBox(unittest.TestCase):
    """Tests that share a box of four hosts on two leaves."""

    @classmethod
    def setUpClass(cls):
        done = cluster("--name", NAME, "up", "--hosts", "4", "--leaves", "2")
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cluster("--name", NAME, "down")

    def on(self, host, *command, **more):
        return cluster("--name", NAME, "exec", str(host), *command, **more)

    def test_each_host_has_what_a_machine_has_of_its_own(self):
        seen = []
        for host in (0, 3, "ctl"):
            done = self.on(host, "sh", "-c", "hostname; for n in net pid uts ipc mnt; do readlink /proc/self/ns/$n; done; "
                           "echo x >/dev/shm/mine; echo x >/tmp/mine; ls /dev/shm; ls -A /sys/class/net; ps -o pid= -p 1")
            self.assertEqual(done.returncode, 0, done.stderr)
            seen.append(done.stdout.split())
        self.assertEqual([words[0] for words in seen], ["n0", "n3", "ctl"])
        for kind in range(1, 6):
            self.assertEqual(len({words[kind] for words in seen}), 3, seen)
        for words in seen:
            self.assertEqual(words[6:], ["mine", "eth0", "lo", "1"])
        self.assertFalse(os.path.exists("/dev/shm/mine") or os.path.exists("/tmp/mine"))

    def test_hosts_reach_each_other_across_leaves_unless_a_cable_is_out(self):
        server = subprocess.Popen([CLUSTER, "--name", NAME, "exec", "3", PYTHON, "-c", LISTEN], stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(server.stdout.readline(), "ready\n")
            for host in (0, 2, "ctl"):
                self.assertEqual(self.on(host, PYTHON, "-c", CONNECT, "n3", "60").returncode, 0)
            self.assertEqual(cluster("--name", NAME, "cut", "3").returncode, 0)
            self.assertNotEqual(self.on(0, PYTHON, "-c", CONNECT, "n3", "0.3").returncode, 0)
            self.assertEqual(self.on(3, PYTHON, "-c", CONNECT, "localhost", "60").returncode, 0, "within the host")
            self.assertEqual(cluster("--name", NAME, "mend", "3").returncode, 0)
            self.assertEqual(self.on(0, PYTHON, "-c", CONNECT, "n3", "60").returncode, 0)
        finally:
            server.terminate()
            server.communicate()

    def test_a_command_has_its_directory_its_streams_and_its_exit_code(self):
        with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
            done = self.on(1, "sh", "-c", "pwd; cat; echo $COLOUR >&2; exit 7", stdin=None, input="word\n", cwd=folder,
                           env={**os.environ, "COLOUR": "green"})
            self.assertEqual(done.stdout.splitlines()[1:], ["word"])
            self.assertEqual((done.stderr, done.returncode), ("green\n", 7))
        self.assertEqual(self.on(1, "/no/such/program").returncode, 127)
        self.assertEqual(self.on(1, "sh", "-c", "kill -9 $$").returncode, 137)

    def test_signals_reach_the_command_and_its_end_with_the_tool(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            mark = f"cluster-mark-{os.getpid()}-{number}"
            # With a standard input that is closed, as some start their programs.
            tool = subprocess.Popen(["sh", "-c", 'exec "$@" <&-', "sh", CLUSTER, "--name", NAME, "exec", "0", "sh", "-c", "sleep 600; true", mark])
            wait_for(lambda: len(alive(mark)) >= 2, "the command")  # pylint: disable=cell-var-from-loop
            tool.send_signal(number)
            self.assertIn(tool.wait(DEADLINE), (128 + number, -number))
            wait_for(lambda: not alive(mark), "the end of the command")  # pylint: disable=cell-var-from-loop

    def test_what_is_wrong_is_said(self):
        for words, said in (((("exec", "9", "true")), "there is no host 9: they are 0 to 3"), (("cut", "x"), "no host x"),
                            (("exec", "None", "true"), "no host None"),
                            (("up", "--hosts", "0"), "1 to 250 hosts"), (("up",), "already"),
                            (("exec", "0"), "which command"), (("run", "--cut", "4@1s", "--", "true"), "there is no host 4"),
                            (("run", "--cut", "4", "--", "true"), "HOST@TIME"), (("run", "--cut", "1@5", "--", "true"), "a time with a unit")):
            with self.subTest(words=words):
                done = cluster("--name", NAME, *words)
                self.assertEqual(done.returncode, 2)
                self.assertIn(said, done.stderr)
        self.assertIn("no such box", cluster("--name", f"{NAME}-not", "exec", "0", "true").stderr)


class Answers(unittest.TestCase):
    def test_what_a_host_says_is_heard_though_it_ended_before_it_read_all(self):
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(CLUSTER)), "cluster.d"))
        import kernel  # pylint: disable=import-outside-toplevel,import-error
        for answers in ([b"its exit code"], []):
            here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            for answer in answers:
                kernel.send(there, answer)
            kernel.send(here, b"a signal that came too late")
            there.close()
            with here:
                for answer in [*answers, b""]:
                    self.assertEqual(kernel.receive(here)[0], answer)


class Lost(unittest.TestCase):
    """What is left when something is killed: nothing."""

    def setUp(self):
        self.links, self.mounts = links(), mounts()
        self.name = f"{NAME}-{self._testMethodName}"
        self.mark = f"cluster-mark-{self.name}"

    def tearDown(self):
        wait_for(lambda: not alive(self.mark), "the end of what ran on hosts")
        wait_for(lambda: not keepers(self.name), "the end of the keeper")
        wait_for(lambda: links() == self.links, "the end of the network")
        self.assertEqual(mounts(), self.mounts)

    def first_process_of(self, host):
        """Which this machine sees by another number than 1."""
        done = cluster("--name", self.name, "exec", str(host), "readlink", "/proc/self/ns/pid")
        self.assertEqual(done.returncode, 0, done.stderr)
        inside = [pid for pid in keepers(self.name) if namespace(pid) == done.stdout.strip()]
        def number(pid):
            with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                return int(re.search(r"^NSpid:.*\s(\d+)$", file.read(), re.MULTILINE)[1])
        (first,) = (pid for pid in inside if number(pid) == 1)
        return first

    def up(self, *words):
        done = cluster("--name", self.name, "up", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        # In a session of its own on the host, with a child that ignores what can be ignored.
        on_host = "setsid sh -c 'trap \"\" TERM HUP INT; sleep 600' " + self.mark + " & sleep 600"
        tool = subprocess.Popen([CLUSTER, "--name", self.name, "exec", "1", "sh", "-c", on_host, self.mark],
                                stderr=subprocess.DEVNULL,
                                stdin=subprocess.DEVNULL)
        self.addCleanup(tool.wait)
        self.addCleanup(cluster, "--name", self.name, "down")  # where a test has failed
        wait_for(lambda: len(alive(self.mark)) >= 3, "the commands")

    def test_down(self):
        self.up("--hosts", "2")
        self.assertEqual(cluster("--name", self.name, "down").returncode, 0)

    def test_the_keeper_is_killed(self):
        self.up("--hosts", "2")
        os.kill(keeper(self.name), signal.SIGKILL)

    def test_a_host_loses_power(self):
        self.up("--hosts", "2")
        self.assertEqual(cluster("--name", self.name, "power-off", "1").returncode, 0)
        wait_for(lambda: not alive(self.mark), "the end of what ran on the host")
        self.assertIn("host 1 is off", cluster("--name", self.name, "exec", "1", "true").stderr)
        self.assertEqual(cluster("--name", self.name, "exec", "0", "true").returncode, 0)
        self.assertRegex(cluster("--name", self.name, "status").stdout, r"n0 .* up [^\n]*\nn1 .* off ")
        cluster("--name", self.name, "down")

    def expect_host_1_off(self):
        wait_for(lambda: not alive(self.mark), "the end of what ran on the host")
        wait_for(lambda: re.search(r"n0 .* up [^\n]*\nn1 .* off ", cluster("--name", self.name, "status").stdout), "that it is told")
        self.assertIn("host 1 is off", cluster("--name", self.name, "exec", "1", "true").stderr)
        self.assertEqual(cluster("--name", self.name, "exec", "0", "true").returncode, 0)

    def test_a_hosts_first_process_is_killed_by_hand(self):
        """As power-off does it: the kernel ends all others of the host, and the box goes on."""
        self.up("--hosts", "2")
        os.kill(self.first_process_of(1), signal.SIGKILL)
        self.expect_host_1_off()
        self.assertEqual(cluster("--name", self.name, "down").returncode, 0)

    def test_a_box_with_slurm(self):
        """Its daemons go with it, however it ends."""
        def lose_a_host():
            os.kill(self.first_process_of(1), signal.SIGKILL)
            self.expect_host_1_off()
            cluster("--name", self.name, "down")
        for end in (lambda: cluster("--name", self.name, "down"), lambda: os.kill(keeper(self.name), signal.SIGKILL), lose_a_host):
            self.up("--hosts", "2", "--slurm")
            # While they have processes: the kernel may give a namespace's number to another box later.
            hosts = {namespace(pid) for pid in keepers(self.name)} - {namespace("self"), None}
            daemons = daemons_of_slurm(hosts)
            self.assertGreaterEqual(len(daemons), 4)
            end()
            wait_for(lambda: not daemons & daemons_of_slurm(hosts), "the end of Slurm's daemons")  # pylint: disable=cell-var-from-loop
            self.tearDown()

    def test_run_is_killed(self):
        tool = subprocess.Popen([CLUSTER, "--name", self.name, "run", "--hosts", "2", "--", CLUSTER, "exec", "1", "sh", "-c",
                                 "sleep 600; true", self.mark], stderr=subprocess.DEVNULL)
        wait_for(lambda: len(alive(self.mark)) >= 4, "the command")
        tool.kill()
        tool.wait()

    def test_run_is_killed_while_the_box_is_made(self):
        """At once with the keeper, and with one more host each time, which may not have asked yet to die with the keeper."""
        for processes in [2, 3, 4, 5] * 3:
            tool = subprocess.Popen([CLUSTER, "--name", self.name, "run", "--hosts", "2", "--", "sleep", "600"], stderr=subprocess.DEVNULL)
            wait_for(lambda: len(keepers(self.name)) >= processes, "the hosts")  # pylint: disable=cell-var-from-loop
            tool.kill()
            tool.wait()
            wait_for(lambda: not keepers(self.name), "the end of the hosts")


class Run(unittest.TestCase):
    def test_the_commands_exit_code_is_the_verdict(self):
        done = cluster("run", "--hosts", "2", "--", "sh", "-c", "hostname; exit 5")
        self.assertEqual((done.stdout, done.returncode), ("ctl\n", 5), done.stderr)

    def test_hosts_are_lost_at_their_times(self):
        wait = f"until {CLUSTER} status | grep -q 'n1 .* off'; do sleep 0.05; done; {CLUSTER} status | grep -q 'n0 .* cut'"
        done = cluster("run", "--hosts", "2", "--cut", "0@start+1ms", "--power-off", "1@start+100ms", "--", "sh", "-c", wait)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(re.findall(r"cluster: (\S+) of host (\d)", done.stderr), [("cut", "0"), ("power-off", "1")])

    def test_a_cable_is_plugged_in_again_after_its_time(self):
        """Which counts from when there are ranks on all hosts; how often the link went down is what tells, however late anybody looks."""
        script = (f'on_host() {{ {CLUSTER} exec 0 cat /sys/class/net/eth0/$1; }}; before=$(on_host carrier_down_count); '
                  f'for host in 0 1; do PMIX_RANK=$host {CLUSTER} exec $host sleep 600 & done; '
                  'until [ $(on_host carrier_down_count) -gt $before ]; do sleep 0.05; done; echo cut; '
                  f'until [ $(on_host carrier) = 1 ] && {CLUSTER} status | grep -q "n0 .* up "; do sleep 0.05; done; echo mended')
        done = cluster("run", "--hosts", "2", "--cut", "0@100ms+200ms", "--", "sh", "-c", script)
        self.assertEqual((done.stdout, done.returncode), ("cut\nmended\n", 0), done.stderr)
        self.assertEqual(re.findall(r"cluster: (\S+) of host (\d)", done.stderr), [("cut", "0"), ("mend", "0")])

    # A launcher on host 0 whose rank ends like that, and which goes on.
    WAITS = CLUSTER + """ exec 0 sh -c 'PMI_RANK=0 "$1" sh -c "$2"; sleep 600; true' sh """ + THROUGH_THE_BOX

    def test_a_launcher_that_waits_for_a_dead_rank_is_ended(self):
        for end, code in (("exit 4", 4), ("kill -9 $$", 0), ("kill -9 $PPID", 1)):
            with self.subTest(end=end):
                done = cluster("run", "--hosts", "2", "--", "sh", "-c", f"{self.WAITS} '{end}'")
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn("the surviving ranks are done; ending their launcher", done.stderr)

    def test_a_launcher_that_waits_for_a_host_that_its_own_command_has_lost_is_ended(self):
        done = cluster("run", "--hosts", "2", "--", "sh", "-c", f"{CLUSTER} power-off 1; {self.WAITS} 'exit 4'")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("the surviving ranks are done; ending their launcher", done.stderr)

    def test_what_a_command_does_after_its_ranks_is_its_own_affair(self):
        """Also when one of them ended badly: their launcher has ended."""
        done = cluster("run", "--hosts", "2", "--", "sh", "-c", self.WAITS.replace("sleep 600; true", "true") + " 'exit 4'; sleep 8; echo on; exit 5")
        self.assertEqual((done.stdout, done.returncode), ("on\n", 5), done.stderr)

    def test_slurm_starts_tasks_on_all_hosts_and_tells_their_leaves(self):
        done = cluster("run", "--hosts", "4", "--leaves", "2", "--slurm", "--", "srun", "-N4", "-n8", "sh", "-c",
                       "echo $(hostname) $SLURM_TOPOLOGY_ADDR")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), sorted([f"n{n} spine.leaf{n // 2}.n{n}" for n in range(4)] * 2))


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("SKIP: making hosts needs the rights of root")
        sys.exit(77)
    if shutil.which("slurmctld", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        print("Slurm is missing (tools/setup.sh --test installs it)")
        sys.exit(1)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
