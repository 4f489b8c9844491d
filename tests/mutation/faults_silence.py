"""Faults in how the hosts are found that TCP connections have lost: by tcp's looks, and by those at UCX's sockets."""

from catchers import gtest

SILENCE = "src/transport/silence.cpp"
SOCKETS = "src/transport/ucx/silent_hosts.cpp"
UCX = "src/transport/ucx/ucx_connect.cpp"
RULE = gtest("tests/transport/transport_silence_tests", "*")


def hosts(names):
    """On a network of their own: as root."""
    return gtest("tests/transport/transport_ucx_silence_tests", f"UcxSilence.{names}")


FAULTS = [
    ("time in which nobody looked is silence", SILENCE, "doubted_ns_ + std::min(passed, 2 * kLookNs)", "doubted_ns_ + passed", RULE),
    ("a host is lost before our kernel has repeated itself", SILENCE, " &&\n           health.repetitions >= kLeastRepetitions", "", RULE),
    ("an idle host is lost", SILENCE, "heard || !health.outstanding ? 0", "heard ? 0", RULE),
    ("a host is lost that was heard lately", SILENCE, "std::uint64_t{health.silence_ms} * 1'000'000 >= kMostNs && ", "", RULE),
    ("a receiver without room is lost though its kernel asks", SILENCE,
     "    if (load_ == Load::any && unheard_ns_ < kLeastUnheardNs) return false;\n", "", RULE),
    ("nobody ends UCX's connections to a lost host", SOCKETS, "    shutdown(socket, SHUT_RD);\n", "", hosts("*Busy*")),
    ("nobody looks at UCX's sockets while there is talk", UCX, "    ucx::SilentHosts::Found found = silent_hosts_.look(now);\n",
     "    ucx::SilentHosts::Found found;\n", hosts("*Busy*")),
    ("UCX's connections end without a reset", SOCKETS, "    reset_at_close(socket);\n", "", hosts("OneDirection*")),
    ("a rank that sleeps over UCX is not woken to look", "src/transport/ucx/ucx_transport.cpp",
     "    if (!worker_.over_rdma()) silent_hosts_.wake_at(next_look_ns_);\n", "", hosts("*WithoutTheKernel")),
    ("an idle peer of UCX's that leaves a question open is sent nothing", UCX, "if (found.leaves_us_open && ", "if (false && ", hosts("*WithoutTheKernel")),
    ("a rank over UCX that may have dropped what came is lost", "src/transport/ucx/silent_hosts.hpp",
     "Silence silence{Silence::Load::any};", "Silence silence;", hosts("*Drops*")),
    ("nobody asks on connections that UCX has taken", SOCKETS, "    if (!is_asked_when_idle(socket)) ask_when_idle(socket);\n", "    (void)is_asked_when_idle;\n",
     hosts("*Drops*")),
    ("a connection is known by its descriptor's number alone", "src/transport/ucx/silent_hosts.cpp", " && known->cookie == cookie", "",
     gtest("tests/transport/transport_ucx_tests", "UcxSilentHosts.*")),
]
