"""A host: process 1 of its own namespaces, which executes what it is told to, and reaps what nobody else waits for."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

import kernel

SHARED = "/tmp/.coppice-cluster"  # the same folder on all hosts


def start(name, channel, prepare):
    """Forks a host and returns the process that stands for it: when that one ends, so does the host. `prepare` runs in the host
    before its first command. The host says so on `channel` when it is ready, and then takes connections from there."""
    keeper = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        kernel.die_with_parent(keeper)
        kernel.close_all_but({channel.fileno()})
        kernel.unshare(kernel.NEWNET | kernel.NEWUTS | kernel.NEWIPC | kernel.NEWNS | kernel.NEWPID)
        init = os.fork()
        if init == 0:
            kernel.die_with_parent()
            _run(name, channel, prepare)
        channel.close()
        os.waitpid(init, 0)
    except BaseException as error:  # noqa: the process must end here, and say why
        print(f"cluster: host {name}: {error}", file=sys.stderr, flush=True)
    os._exit(1)


def _own_mounts(shared):
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    # A /sys that shows this host's network, with the control groups that it would hide.
    groups = os.open("/sys/fs/cgroup", os.O_PATH) if os.path.isdir("/sys/fs/cgroup") else None
    try:
        kernel.mount("sysfs", "/sys", "sysfs", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
        if groups is not None:
            kernel.mount(f"/proc/self/fd/{groups}", "/sys/fs/cgroup", None, kernel.MS_BIND | kernel.MS_REC)
    except OSError:
        pass  # some containers forbid it; programs that use system calls to look at the network still work
    kernel.mount("tmpfs", "/dev/shm", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV)
    folders = [(folder, os.open(folder, os.O_PATH)) for folder in shared if os.path.isdir(folder)]
    kernel.mount("tmpfs", "/tmp", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=1777")
    for folder, descriptor in folders:
        if not folder.startswith("/tmp/"):
            continue
        os.makedirs(folder, exist_ok=True)
        kernel.mount(f"/proc/self/fd/{descriptor}", folder, None, kernel.MS_BIND | kernel.MS_REC)
        os.close(descriptor)


def _run(name, channel, prepare):
    try:
        socket.sethostname(name)
        _own_mounts(prepare["shared"])
        while "eth0" not in (interface for _, interface in socket.if_nameindex()):
            # Until the keeper has plugged it in. It says nothing on the channel before, unless it dies: perhaps before this process has asked
            # to die with its parent, and whether it came in time process 1 of a namespace can't see.
            if select.select([channel], [], [], 0.001)[0]:
                os._exit(0)
        kernel.ip(["link set lo up", f"addr add {prepare['address']} dev eth0", "link set eth0 up"])
        kernel.wait_for_carrier("eth0")
        kernel.send(channel, b"ready")
        Init(channel).serve()
    except BaseException as error:  # noqa: the process must end here, and say why
        kernel.send(channel, str(error).encode())
    os._exit(1)


class Init:
    def __init__(self, channel):
        self.channel = channel
        self.running = {}  # pid → the connection that wants to know how it ends; None: nobody
        self.woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def serve(self):
        while True:
            connections = [one for one in self.running.values() if one is not None]
            ready, _, _ = select.select([self.channel, self.woken, *connections], [], [])
            for one in ready:
                if one is self.channel:
                    self._take()
                elif one == self.woken:
                    os.read(self.woken, 4096)
                elif one in self.running.values():
                    self._hear(one)
            self._reap()

    def _take(self):
        """A connection whose first message is a command."""
        message, descriptors = kernel.receive(self.channel)
        if not message:
            os._exit(0)  # the keeper is gone
        request = json.loads(message)
        connection = socket.socket(fileno=descriptors.pop(0)) if request["tell"] else None
        try:
            pid = self._execute(request, descriptors)
        except OSError as error:
            if connection is not None:
                code = 127 if isinstance(error, FileNotFoundError) else 126
                kernel.send(connection, json.dumps({"code": code, "error": f"{request['command'][0]}: {error.strerror}"}).encode())
                connection.close()
        else:
            self.running[pid] = connection
        for descriptor in descriptors:
            os.close(descriptor)

    @staticmethod
    def _execute(request, descriptors):
        directory = request["directory"] if os.path.isdir(request["directory"]) else "/"

        def restore():
            for number in kernel.FORWARDED:
                signal.signal(number, signal.SIG_DFL)

        process = subprocess.Popen(request["command"], cwd=directory, env=request["environment"], stdin=descriptors[0],
                                   stdout=descriptors[1], stderr=descriptors[2], start_new_session=True, preexec_fn=restore)
        process.returncode = 0  # so that it is not reaped with this object, but below
        return process.pid

    def _hear(self, connection):
        """A signal for the command; or the end of the one that has asked for it, which ends it, too."""
        pid = next(pid for pid, one in self.running.items() if one is connection)
        try:
            message, _ = kernel.receive(connection)
        except OSError:
            message = b""
        number = int(message) if message else signal.SIGKILL
        if not message:
            connection.close()
            self.running[pid] = None
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            pass

    def _reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            connection = self.running.pop(pid, None)
            if connection is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            try:
                kernel.send(connection, json.dumps({"code": code if code >= 0 else 128 - code}).encode())
            except OSError:
                pass
            connection.close()
