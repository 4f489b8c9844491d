"""The keeper of a box: hosts, the bridges that join them, and what is done to them. When it ends, everything of it does."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

import host
import kernel
import slurm

MTU = 9000
CONTROL = "ctl"  # the host of launchers and daemons; it has no number
RANK_VARIABLES = (b"PMIX_RANK=", b"PMI_RANK=", b"OMPI_COMM_WORLD_RANK=", b"COPPICE_RANK=")


def address_of(name):
    """Abstract, so that it ends with the keeper."""
    return f"\0coppice-cluster-{os.getuid()}-{name}"


def listen(address):
    """A socket there, or None when somebody has it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(address)
    except OSError:
        listener.close()
        return None
    listener.listen(64)
    return listener


class Host:
    def __init__(self, number, leaf):
        self.number, self.leaf = number, leaf  # number None: CONTROL
        self.name = CONTROL if number is None else f"n{number}"
        self.port = "pctl" if number is None else f"p{number}"
        self.address = "10.99.255.254" if number is None else f"10.99.0.{number + 1}"
        self.state = "up"
        self.pid = self.channel = self.namespace = None


class Box:
    def __init__(self, options, listener):
        self.options = options
        self.hosts = [Host(n, n * options.leaves // options.hosts) for n in range(options.hosts)]
        self.control = Host(None, None)
        self.listeners = [listener]
        self.clients = []

    def all(self):
        return [self.control, *self.hosts]

    # ------------------------------------------------------------------------------------------------------- making it ---

    def make(self):
        kernel.unshare(kernel.NEWNET | kernel.NEWNS)
        kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        kept = [(folder, os.open(folder, os.O_PATH)) for folder in self.options.share]
        kernel.mount("tmpfs", "/tmp", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=1777")
        for folder, descriptor in kept:
            if folder.startswith("/tmp/"):
                os.makedirs(folder, exist_ok=True)
                kernel.mount(f"/proc/self/fd/{descriptor}", folder, None, kernel.MS_BIND | kernel.MS_REC)
            os.close(descriptor)
        os.mkdir(host.SHARED)
        os.mkdir(f"{host.SHARED}/ranks")
        self._write_hosts_file()
        here = listen(f"{host.SHARED}/control")
        self.listeners.append(here)
        self._make_bridges()
        for one in self.all():
            self._start(one)
        self._plug()
        for one in self.all():
            said = kernel.receive(one.channel)[0]
            if said != b"ready":
                raise OSError(f"host {one.name} does not come up: {said.decode()}")
            one.namespace = self._namespace(one)
        if self.options.slurm:
            slurm.start(self)

    def _write_hosts_file(self):
        with open(f"{host.SHARED}/hosts", "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"{one.address} {one.name}\n" for one in self.all()))
        kernel.mount(f"{host.SHARED}/hosts", "/etc/hosts", None, kernel.MS_BIND)
        with open(f"{host.SHARED}/hostfile", "w", encoding="utf-8") as file:
            file.write("".join(f"{one.name} slots={self.options.slots}\n" for one in self.hosts))
        with open(f"{host.SHARED}/machinefile", "w", encoding="utf-8") as file:  # mpiexec.hydra's kind; it goes around these
            file.write("".join(f"{one.name}\n" for one in self.hosts))

    def _make_bridges(self):
        """A bridge for each leaf, and one that joins them and has the control host."""
        commands = ["link set lo up"]
        names = ["spine", *(f"leaf{leaf}" for leaf in range(self.options.leaves))]
        for name in names:
            commands += [f"link add {name} type bridge forward_delay 0", f"link set {name} up mtu {MTU}"]
        for name in names[1:]:
            commands += [f"link add up-{name} mtu {MTU} type veth peer name down-{name} mtu {MTU}",
                         f"link set up-{name} master {name} up", f"link set down-{name} master spine up"]
        kernel.ip(commands)

    def _start(self, one):
        one.channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.pid = host.start(one.name, other, {"address": f"{one.address}/16", "shared": [*self.options.share, host.SHARED]})
        other.close()

    def _plug(self):
        commands = []
        for one in self.all():
            own = os.readlink("/proc/self/ns/net")
            while os.readlink(f"/proc/{one.pid}/ns/net") == own:  # until it has its own
                time.sleep(0.0005)
            bridge = "spine" if one.leaf is None else f"leaf{one.leaf}"
            commands += [f"link add {one.port} mtu {MTU} type veth peer name eth0 mtu {MTU} netns {one.pid}",
                         f"link set {one.port} master {bridge} up"]
        kernel.ip(commands)

    @staticmethod
    def _namespace(one):
        return os.readlink(f"/proc/{one.pid}/ns/pid_for_children")

    # ---------------------------------------------------------------------------------------------------------- serving ---

    def serve(self):
        """Until it is told to end."""
        while True:
            ready, _, _ = select.select([*self.listeners, *self.clients], [], [], 1)
            self._notice_ends()
            for one in ready:
                if one in self.listeners:
                    self.clients.append(one.accept()[0])
                    continue
                try:
                    message, descriptors = kernel.receive(one)
                except OSError:
                    message, descriptors = b"", []
                if message and not self._answer(one, message, descriptors):
                    return
                self.clients.remove(one)
                one.close()
                for descriptor in descriptors:
                    os.close(descriptor)

    def _answer(self, connection, message, descriptors):
        request = json.loads(message)
        try:
            name = request["request"]
            if name == "down":
                return False
            if name == "exec":
                self.execute(self.find(request["host"]), request, [connection.fileno(), *descriptors])
                return True
            answer = {"power-off": self.power_off, "cut": self.cut, "mend": self.mend, "status": self.status}[name](request)
        except (OSError, ValueError) as error:
            answer = {"error": str(error)}
        try:
            kernel.send(connection, json.dumps(answer).encode())
        except OSError:
            pass
        return True

    def find(self, name):
        for one in self.all():
            if name == one.name or (one.number is not None and name == str(one.number)):
                if one.state == "off":
                    raise ValueError(f"host {name} is off")
                return one
        raise ValueError(f"there is no host {name}: they are 0 to {len(self.hosts) - 1}, and {CONTROL}")

    def execute(self, one, request, descriptors):
        """`descriptors` are its standard three; before them, to `tell` how it ends, a connection."""
        environment = {**request["environment"], "COPPICE_CLUSTER": f"{host.SHARED}/control", **self.extra_environment()}
        kernel.send(one.channel, json.dumps({"tell": len(descriptors) > 3, "command": request["command"], "directory": request["directory"],
                                             "environment": environment}).encode(), descriptors)

    def extra_environment(self):
        return {"SLURM_CONF": slurm.CONFIGURATION} if self.options.slurm else {}

    # ----------------------------------------------------------------------------------------------------------- faults ---

    def power_off(self, request):
        one = self.find(request["host"])
        os.kill(one.pid, signal.SIGKILL)
        os.waitpid(one.pid, 0)
        one.state = "off"
        one.channel.close()
        return {}

    def cut(self, request):
        return self._set_port(self.find(request["host"]), "down", "cut")

    def mend(self, request):
        return self._set_port(self.find(request["host"]), "up", "up")

    @staticmethod
    def _set_port(one, way, state):
        # To be asked for makes the kernel look at the carrier at once; by itself, where many interfaces come and go, it takes seconds.
        kernel.ip([f"link set {one.port} {way}", f"link show dev {one.port}"])
        subprocess.run(["nsenter", f"--net=/proc/{one.pid}/ns/net", "ip", "link", "show", "dev", "eth0"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
        one.state = state
        return {}

    def _notice_ends(self):
        for one in self.all():
            if one.state != "off" and os.waitpid(one.pid, os.WNOHANG)[0]:
                one.state = "off"
                one.channel.close()

    def status(self, _request):
        """Each host's state, how many ranks of a parallel program it has, and what became of those that cluster.d/rank has started."""
        ranks = {one.namespace: 0 for one in self.all()}
        numbers = {one.namespace: set() for one in self.all()}  # of processes, as the host has them
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                namespace = os.readlink(f"/proc/{pid}/ns/pid")
                if namespace in ranks:
                    numbers[namespace].add(self._own_number(pid))
                    with open(f"/proc/{pid}/environ", "rb") as file:
                        words = file.read().split(b"\0")
                    ranks[namespace] += any(word.startswith(RANK_VARIABLES) for word in words)
            except OSError:
                continue  # it has ended
        return {"started": self._started({one.name: numbers[one.namespace] for one in self.all()}),
                "hosts": [{"host": one.name, "number": one.number, "address": one.address, "state": one.state, "leaf": one.leaf,
                           "ranks": ranks[one.namespace] if one.state != "off" else 0} for one in self.all()]}

    @staticmethod
    def _own_number(pid):
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return next(int(line.split()[-1]) for line in file if line.startswith("NSpid:"))

    @staticmethod
    def _started(numbers):
        """The ranks that cluster.d/rank has started: their host, what they exited with if they have said so, and whether the process of their
        launcher that has started them still runs."""
        ranks = []
        for name in os.listdir(f"{host.SHARED}/ranks"):
            with open(f"{host.SHARED}/ranks/{name}", encoding="utf-8") as file:
                words = [int(word) for word in file.read().split()]
            on = name.split(".")[0]
            if words:
                ranks.append({"host": on, "code": words[1] if len(words) > 1 else None, "launcher_lives": words[0] in numbers[on]})
        return ranks


def keep(options, listener, ready, parent=None):
    """The keeper's life. It writes to `ready` what went wrong, or that it is there."""
    try:
        if parent is not None:
            kernel.die_with_parent(parent)
        box = Box(options, listener)
        box.make()
        os.write(ready, b"ready")
        os.close(ready)
        box.serve()
    except BaseException as error:
        try:
            os.write(ready, str(error).encode() or b"interrupted")
        except OSError:
            print(f"cluster: {error}", file=sys.stderr)
    os._exit(0)  # and the kernel ends the hosts
