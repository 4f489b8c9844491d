"""What Python tests of jobs share: which processes there are, and what those do that do not end."""

import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

# Of Coppice and of launchers: what is tested is not what the caller of the tests has.
SETTINGS = ("COPPICE_", "OMPI_", "PMIX_", "PMI_", "SLURM_")
numbers = itertools.count()
# Before a command: it has a /dev/shm of its own, on which not a byte is free. What else is in that at the end is told.
FULL_DEV_SHM = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=4k full /dev/shm && ! head -c 5000 /dev/zero 2>&- >/dev/shm/full || exit 77; '
                '"$@"; code=$?; echo "there is: $(ls -A /dev/shm)"; exit $code', "sh")


# docs/launchers.md: mpiexec.hydra may lose what one of its proxies has to say of its ranks' ends, once in some fifteen jobs. So often it is asked again.
HYDRAS_TRIES = 6


def hydra_has_lost_a_proxy(code, said):
    return code == 1 and "EXIT STRING: Hangup (signal 1)" in said


def can_fill_dev_shm():
    return subprocess.run([*FULL_DEV_SHM, "true"], capture_output=True, check=False).returncode == 0


def state_of(pid):
    """As the kernel writes it: R, S, T, Z …; X when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def alive(pid):
    """False when the process is gone or a zombie."""
    return state_of(pid) not in "ZX"


def descends(pid, ancestor):
    while pid > 0 and pid != ancestor:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                pid = int(stat.read().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            return False
    return pid == ancestor


def processes_with(setting):
    """Living processes that have this "NAME=VALUE" in their environment: what was started from here, wherever it went."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and alive(entry):
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if setting.encode() in file.read().split(b"\0"):
                        found.append(int(entry))
            except OSError:
                pass
    return found


def read(path):
    """Of a process, which may be gone by now."""
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}\n"


def connections_of(pid):
    """What the sockets of that process's host have under way, and how its host's network stands."""
    return "".join(output_of("nsenter", "-t", str(pid), "-n", *command)
                   for command in (["ss", "-tinpo"], ["ip", "-s", "link"], ["ip", "neighbour"], ["nstat", "-az"]))


def look_at(pids):
    """The connections of their hosts, what their threads wait for, and backtraces where there is gdb."""
    debugger = shutil.which("gdb")
    text = ""
    hosts = set()
    for pid in pids:  # first: a debugger takes its time
        try:
            host = os.readlink(f"/proc/{pid}/ns/net")
        except OSError:
            continue
        if host not in hosts:
            hosts.add(host)
            text += f"---- host {host}\n{connections_of(pid)}"
    for pid in pids:
        process = pathlib.Path(f"/proc/{pid}")
        rank = next((v for v in read(process / "environ").split("\0") if v.startswith("COPPICE_RANK=")), "")
        text += f"---- process {pid} ({read(process / 'comm').strip()}), {rank}\n"
        # Before the debugger stops them. A thread may wait for something of the kernel's, which no backtrace shows.
        for task in sorted((process / "task").glob("*")):
            state = read(task / "stat").rpartition(")")[2].split()[:1]
            times = [int(word) / 1e9 for word in read(task / "schedstat").split()[:2]]
            text += f"LWP {task.name}: {' '.join(state)} {read(task / 'wchan')}"
            text += f", ran {times[0]:.2f} s, waited for a core for {times[1]:.2f} s\n" if len(times) == 2 else "\n"
            text += read(task / "stack")
        if debugger:
            text += output_of(debugger, "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all bt 30")
    return text


def ends(process, deadline, is_over=lambda: False):
    """Whether it does within so many seconds, of those in which this process gets its turn: when the whole machine stands still for
    minutes, nobody has hung. One that is over before it ends is ended."""
    step = 0.25
    ended = False
    for _ in range(int(deadline / step)):
        if not ended and is_over():
            process.terminate()
            ended = True
        try:
            process.wait(step)
            return True
        except subprocess.TimeoutExpired:
            pass
    return False


def run(command, deadline, environment=None, directory=None, is_over=lambda printed: False):
    """Like subprocess.run() with captured text, in an environment with these settings and none of SETTINGS else. When it does not end
    within `deadline` seconds, the test fails with what it has printed and what its processes do; they are ended then. It is
    ended at once, by SIGTERM, when what it has printed says that it is over: what is returned has `was_ended` then."""
    setting = f"TEST_JOB={os.getpid()}-{next(numbers)}"
    settings = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
    settings |= {"TEST_JOB": setting.partition("=")[2], **(environment or {})}
    # Files and no pipes: what a process that stays behind holds open keeps nobody waiting.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=settings, cwd=directory)
        hangs = None
        was_ended = False

        def ask():
            nonlocal was_ended
            was_ended = is_over(os.pread(out.fileno(), 1 << 20, 0).decode(errors="replace"))
            return was_ended
        if not ends(process, deadline, ask):
            hangs = look_at(processes_with(setting))
            for pid in [process.pid, *processes_with(setting)]:
                os.kill(pid, signal.SIGKILL)
            process.wait()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read())
        if hangs is not None:
            raise AssertionError(f"{' '.join(command)} did not end within {deadline} s\n{''.join(texts)}\n{hangs}")
        done = subprocess.CompletedProcess(command, process.returncode, *texts)
        done.was_ended = was_ended
        return done
