#!/usr/bin/env python3
"""What coppice-info reads from the real ibnetdiscover: ibsim simulates a fabric that tools/fat-tree wrote, opensm brings it up.

fabric_test.py SOURCE_ROOT COPPICE_INFO             the test; exit code 77 where these tools are not installed
fabric_test.py SOURCE_ROOT COPPICE_INFO --keep DIR  writes what ibnetdiscover prints, as tests/data has it
"""
import contextlib
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOOLS = ("ibsim", "opensm", "ibnetdiscover")
PATIENCE_S = 240 * int(os.environ.get("COPPICE_TEST_PATIENCE", "1"))

# Name, arguments of fat-tree, hosts, leaves, pods.
FABRICS = [("fattree-k4-2-levels", ["4", "2"], 8, 4, 1),
           ("fattree-k4", ["4", "3"], 16, 8, 4),
           ("fattree-k8-2-levels", ["8", "2"], 32, 8, 1),
           ("fattree-k8", ["8", "3"], 128, 32, 8),
           ("fattree-k8-leaf-missing", ["8", "3", "--without", "leaf2-1"], 124, 31, 8),
           ("fattree-k8-unbalanced", ["8", "3", "--without", "leaf0-0", "leaf0-1", "node17", "node18", "agg3-0", "core5"], 118, 30, 8),
           ("fattree-k16", ["16", "3"], 1024, 128, 16)]
KEPT = ("fattree-k8-2-levels", "fattree-k8", "fattree-k8-leaf-missing")


def tool(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def shim():
    found = glob.glob("/usr/lib/*/umad2sim/libumad2sim.so") + glob.glob("/usr/lib/umad2sim/libumad2sim.so")
    return found[0] if found else None


@contextlib.contextmanager
def running(command, log, **more):
    with open(log, "w") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, **more)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(what, condition, process, log):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"{what}: {pathlib.Path(log).read_text()[-2000:]}")
        time.sleep(0.05)


def discover(netlist):
    """What ibnetdiscover prints of this fabric."""
    with tempfile.TemporaryDirectory(prefix="coppice-fabric-") as scratch:
        folder = pathlib.Path(scratch)
        (folder / "net").write_text(netlist)
        (folder / "sm.conf").write_text("force_log_flush TRUE\nrouting_engine ftree\n")
        first = netlist[netlist.index("Hca"):].split('"')[1]
        environment = {**os.environ, "IBSIM_SOCKNAME": folder.name, "SIM_HOST": first, "OSM_TMP_DIR": scratch, "OSM_CACHE_DIR": scratch}
        simulator = [tool("ibsim"), "-s", "-n", "-N", "4096", "-S", "1024", "-P", "40000", "net"]
        with running(simulator, folder / "ibsim.log", cwd=scratch, env=environment) as ibsim:
            log = folder / "ibsim.log"
            wait_for("ibsim", lambda: "Network simulator ready" in log.read_text(errors="replace") or has_socket(folder.name), ibsim, log)
            client = {**environment, "LD_PRELOAD": shim()}
            manager = [tool("opensm"), "-F", "sm.conf", "-f", str(folder / "osm.log"), "-e"]
            with running(manager, folder / "opensm.out", cwd=scratch, env=client) as opensm:
                osm_log = folder / "osm.log"
                wait_for("opensm", lambda: osm_log.exists() and "SUBNET UP" in osm_log.read_text(errors="replace"), opensm,
                         folder / "opensm.out")
                done = subprocess.run([tool("ibnetdiscover")], env=client, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True,
                                      text=True, timeout=PATIENCE_S, check=True)
                return done.stdout


def has_socket(name):
    return name in pathlib.Path("/proc/net/unix").read_text()


def netlist(arguments):
    return subprocess.run([ROOT / "tools" / "fat-tree", *arguments], capture_output=True, text=True, check=True).stdout


class Fabric(unittest.TestCase):
    def test_what_ibnetdiscover_prints_is_read(self):
        for name, arguments, hosts, leaves, pods in FABRICS:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                wires = netlist(arguments)
                for kind, text in (("netlist", wires), ("discovered", discover(wires))):
                    path = pathlib.Path(folder) / kind
                    path.write_text(text)
                    done = subprocess.run([INFO, "--topology", path, "--json"], capture_output=True, text=True, timeout=60)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    topology = json.loads(done.stdout)["topology"]
                    self.assertEqual((topology["hosts"], len(topology["leaves"]), topology["pods"]), (hosts, leaves, pods), kind)
                    for leaf in topology["leaves"]:
                        # node I of a leaf of K/2 hosts is where fat-tree has put it.
                        half = int(arguments[0]) // 2
                        self.assertEqual(len({int(host[4:]) // half for host in leaf["hosts"]}), 1, leaf)


def keep(folder):
    for name, arguments, *_ in FABRICS:
        if name in KEPT:
            # When it was generated says nothing, and differs each time.
            lines = [line for line in discover(netlist(arguments)).splitlines() if "generated on" not in line]
            (pathlib.Path(folder) / f"{name}.ibnet").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv.pop(1))
    INFO = sys.argv.pop(1)
    missing = [name for name in TOOLS if tool(name) is None] + ([] if shim() else ["umad2sim"])
    if missing:
        print("not installed:", ", ".join(missing))
        sys.exit(77)
    if "--keep" in sys.argv:
        keep(sys.argv[sys.argv.index("--keep") + 1])
    else:
        unittest.main()
