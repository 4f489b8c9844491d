"""Slurm in the box: munged and slurmctld on the control host, a slurmd on each other one."""

import os
import shutil
import time

import host

FOLDER = f"{host.SHARED}/slurm"
CONFIGURATION = f"{FOLDER}/slurm.conf"
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
PATIENCE_S = 150


def missing():
    return [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None]


def _range(numbers):
    return f"n[{numbers[0]}-{numbers[-1]}]" if len(numbers) > 1 else f"n{numbers[0]}"


def _configuration(box):
    hosts = len(box.hosts)
    return f"""ClusterName=coppice
SlurmctldHost={box.control.name}({box.control.address})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={FOLDER}/munge.sock
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SchedulerType=sched/builtin
TopologyPlugin=topology/tree
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
SlurmdTimeout={box.options.node_timeout}
SlurmctldTimeout=10
SlurmctldPidFile={FOLDER}/slurmctld.pid
SlurmdPidFile=/tmp/slurmd.pid
SlurmctldLogFile={FOLDER}/slurmctld.log
SlurmdLogFile={FOLDER}/slurmd-%n.log
StateSaveLocation={FOLDER}/state
SlurmdSpoolDir={FOLDER}/spool/%n
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName={_range(range(hosts))} NodeAddr=10.99.0.{'[1-%d]' % hosts if hosts > 1 else 1} CPUs={box.options.slots} State=UNKNOWN
PartitionName=all Nodes={_range(range(hosts))} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE
"""


def _topology(box):
    lines = []
    for leaf in range(box.options.leaves):
        lines.append(f"SwitchName=leaf{leaf} Nodes={_range([one.number for one in box.hosts if one.leaf == leaf])}")
    lines.append(f"SwitchName=spine Switches=leaf{'[0-%d]' % (box.options.leaves - 1) if box.options.leaves > 1 else 0}")
    return "\n".join(lines) + "\n"


def _daemon(box, one, command):
    nothing = os.open("/dev/null", os.O_RDWR)
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    box.execute(one, {"command": command, "directory": "/", "environment": environment}, [nothing] * 3)
    os.close(nothing)


def start(box):
    for folder in ("", "state", "spool", *(f"spool/{one.name}" for one in box.hosts)):
        os.mkdir(f"{FOLDER}/{folder}", 0o755)
    for name, text in (("slurm.conf", _configuration(box)), ("topology.conf", _topology(box))):
        with open(f"{FOLDER}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    with open(os.open(f"{FOLDER}/munge.key", os.O_WRONLY | os.O_CREAT, 0o400), "wb") as file:
        file.write(os.urandom(128))
    _daemon(box, box.control, ["munged", "--foreground", "--force", f"--socket={FOLDER}/munge.sock", f"--key-file={FOLDER}/munge.key",
                               f"--pid-file={FOLDER}/munge.pid", f"--log-file={FOLDER}/munge.log", f"--seed-file={FOLDER}/munge.seed"])
    _wait(lambda: os.path.exists(f"{FOLDER}/munge.sock"), "munged")
    _daemon(box, box.control, ["slurmctld", "-D", "-f", CONFIGURATION])
    for one in box.hosts:
        _daemon(box, one, ["slurmd", "-D", "-N", one.name, "-f", CONFIGURATION])


def wait_until_ready(run):
    """`run` runs a command on the control host and returns its output."""
    _wait(lambda: set(run(["sinfo", "-h", "-o", "%T"]).split()) == {"idle"}, "Slurm", lambda: _trouble(run), 0.05)


def _trouble(run):
    """What the controller says of the hosts, and the last words of its daemons."""
    words = [run(["sinfo", "-N", "-h", "-o", "%N %T %E"]).strip()]
    for name in ("slurmctld", "slurmd-*"):
        words.append(run(["sh", "-c", f"tail -n 4 {FOLDER}/{name}.log"]).strip())
    return "\n".join(words)


def _wait(condition, what, trouble=lambda: "", step_s=0.01):
    """Of a long step one second counts: then the whole machine was held up, and the daemons with it."""
    waited_s, last = 0.0, time.monotonic()
    while not condition():
        now = time.monotonic()
        waited_s, last = waited_s + min(now - last, 1.0), now
        if waited_s > PATIENCE_S:
            raise OSError(f"{what} does not come up within {PATIENCE_S} s\n{trouble()}".strip())
        time.sleep(step_s)
