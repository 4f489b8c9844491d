"""What the tests of coppice-run share: a launcher with real processes under it. Arguments: the launcher, the rank to run."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
from jobs import alive, processes_with, state_of  # noqa: E402, F401

RUN, RANK = (os.path.abspath(path) for path in sys.argv[1:3])
DEADLINE = 60 * int(os.environ.get("COPPICE_TEST_PATIENCE", "1"))


def until_cut():
    """A shell's lines for rank 1, alone on host 1: they end when its cable was cut, also when it is mended by then.

    They leave plugged(), which looks whether there is something at the other end now."""
    made = run("-n", "2", "--hosts", "2", "sh", "-c",
               "[ $COPPICE_RANK = 0 ] || cat /sys/class/net/veth1/carrier_down_count")  # its making counts, too
    if "lets user" in made.stderr:
        raise unittest.SkipTest(made.stderr.strip())
    return ("[ $COPPICE_RANK = 1 ] || exit 0; plugged() { [ $(cat /sys/class/net/veth1/carrier) = 1 ]; }; "
            f"while [ $(cat /sys/class/net/veth1/carrier_down_count) -le {int(made.stdout)} ]; do sleep 0.01; done; ")


def wait_for(condition, what):
    until = time.monotonic() + DEADLINE
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > until:
            raise AssertionError(f"waited {DEADLINE} s in vain: {what}")
        time.sleep(0.005)


def environment():
    clean = {k: v for k, v in os.environ.items() if not k.startswith("COPPICE_")}
    return clean


def run(*arguments, stdin=subprocess.DEVNULL, clean=True, **options):
    """Runs coppice-run to its end; the result has returncode, stdout, stderr."""
    return subprocess.run([RUN, *arguments], stdin=stdin, capture_output=True, text=True, timeout=2 * DEADLINE,
                          env=environment() if clean else None, **options)


def has_pending(pid):
    """A signal waits for that process to go on."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return any(int(mask, 16) != 0 for mask in re.findall(r"^(?:Sig|Shd)Pnd:\s*(\w+)$", file.read(), re.M))


# The caller of the tests may ignore it (nohup does), and the launcher would rightly do so too.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Running:
    """coppice-run in the background, in a process group of its own, marked so that its processes can be found."""

    number = 0

    def __init__(self, *arguments):
        Running.number += 1
        self.mark = f"TEST_MARK=coppice-test-{os.getpid()}-{Running.number}"  # a setting of its processes
        # Written by the processes, at the end; read through an opening of its own, so that reading moves nothing for
        # them.
        self.out = tempfile.NamedTemporaryFile("a")
        self.err = tempfile.NamedTemporaryFile("a")
        self.process = subprocess.Popen([RUN, *arguments], stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err,
                                        env=environment() | dict([self.mark.split("=")]), process_group=0)

    @staticmethod
    def text(file):
        with open(file.name, encoding="utf-8") as reader:
            return reader.read()

    @property
    def stdout(self):
        return self.text(self.out)

    @property
    def stderr(self):
        return self.text(self.err)

    def wait_for_output(self, part, times=1):
        wait_for(lambda: self.stdout.count(part) >= times or self.process.poll() is not None, f"output '{part}'")
        assert self.stdout.count(part) >= times, (self.stdout, self.stderr)

    def wait(self):
        return self.process.wait(2 * DEADLINE)

    def worker(self):
        """The launcher's working process."""
        (pid,) = (pid for pid in processes_with(self.mark)
                  if os.path.realpath(f"/proc/{pid}/exe") == RUN and pid != self.process.pid)
        return pid

    def assert_nothing_left(self):
        wait_for(lambda: not processes_with(self.mark), f"end of all processes, left: {processes_with(self.mark)}")

    def close(self):
        self.process.poll()
        if self.process.returncode is None:
            self.process.kill()
            self.process.wait()
        for pid in processes_with(self.mark):
            os.kill(pid, signal.SIGKILL)
        self.out.close()
        self.err.close()


class LauncherTest(unittest.TestCase):
    def start(self, *arguments):
        running = Running(*arguments)
        self.addCleanup(running.close)
        return running


def main():
    # Orphans of launchers that are killed here shall come to this process, not stay unreaped with another.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
