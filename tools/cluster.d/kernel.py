"""The kernel's interfaces that Python 3.11 does not have, and what becomes of a process whose parent dies."""

import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
import time

NEWNS, NEWUTS, NEWIPC, NEWPID, NEWNET = 0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
_PR_SET_PDEATHSIG = 1
_SIOCGIFFLAGS, _IFF_RUNNING = 0x8913, 0x40

# What a user sends to a command, and no keeper or host dies of.
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags):
    _check(_libc.unshare(flags), "unshare")


def mount(source, target, kind=None, flags=0, options=None):
    words = [word and os.fsencode(word) for word in (source, target, kind)]
    _check(_libc.mount(*words, ctypes.c_ulong(flags), options and os.fsencode(options)), f"mount {target}")


def die_with_parent(parent=None):
    """The kernel kills this process when the thread that has forked it ends; `parent` is who that was."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def ip(commands):
    """Feeds lines to `ip -batch` in this process's network."""
    done = subprocess.run(["ip", "-batch", "-"], input="\n".join(commands) + "\n", text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise OSError(f"`ip` could not set up the network: {(done.stderr or done.stdout).strip()}")


def wait_for_carrier(interface, patience_s=60):
    """The kernel says that a link is up before it says that it runs."""
    request = struct.pack("16sh14x", interface.encode(), 0)
    end = time.monotonic() + patience_s
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        while not struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1] & _IFF_RUNNING:
            if time.monotonic() > end:
                raise OSError(f"the link of {interface} does not come up")
            time.sleep(0.001)


def close_all_but(keep):
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                pass  # the one that listed


def send(connection, message, descriptors=()):
    """One message, and descriptors, over a socket of packets (SOCK_SEQPACKET)."""
    socket.send_fds(connection, [message], list(descriptors))


def receive(connection, most=1 << 20):
    """The next message and its descriptors; (b"", []) at the end."""
    try:
        message, descriptors, _, _ = socket.recv_fds(connection, most, 8)
    except ConnectionResetError:  # told first where the other end has closed before it read all; what it has said is there
        message, descriptors, _, _ = socket.recv_fds(connection, most, 8)
    return message, descriptors
