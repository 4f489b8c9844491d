"""Faults in how the hosts are found that TCP connections have lost: by tcp's looks, and by those at UCX's sockets."""

from catchers import gtest

SILENCE = "src/transport/silence.cpp"
SOCKETS = "src/transport/ucx/silent_hosts.cpp"
UCX = "src/transport/ucx/ucx_connect.cpp"
RULE = gtest("tests/transport/transport_silence_tests", "*")
LOOKS = gtest("tests/transport/transport_ucx_tests", "UcxSilentHost*")
SAID = gtest("tests/transport/transport_ucx_tests", "UcxSaidOf.*")
ERRORS = gtest("tests/transport/transport_tcp_tests", "TcpErrors.*")


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
     "    if (!worker_.over_rdma()) silent_hosts_.wake_at(looks_.next_ns());\n", "", hosts("*WithoutTheKernel")),
    ("an idle peer of UCX's that leaves a question open is sent nothing", UCX, "if (found.leaves_us_open && ", "if (false && ", hosts("*WithoutTheKernel")),
    ("a rank over UCX that may have dropped what came is lost", "src/transport/ucx/silent_hosts.hpp",
     "Silence silence{Silence::Load::any};", "Silence silence;", hosts("*Drops*")),
    ("nobody asks on connections that UCX has taken", SOCKETS, "    ask_often_enough(socket);\n", "", hosts("*Drops*")),
    ("the kernel asks as seldom as UCX's user likes", SILENCE, " > kMostBetweenQuestionsS)", " < 0)", RULE),
    ("a kernel that does not ask is not made to", SILENCE, "    if (get(socket, SOL_SOCKET, SO_KEEPALIVE) == 0) return ask_when_idle(socket);\n", "", RULE),
    ("a connection is known by its descriptor's number alone", "src/transport/ucx/silent_hosts.cpp", " && known->cookie == cookie", "",
     LOOKS),
    # --- when they are looked at
    ("talk does not hasten the next look", "src/transport/silence.hpp", "        hasten(now_ns + Silence::kLookNs);\n", "", RULE),
    ("what is to be acknowledged does not hasten the next look", "src/transport/silence.hpp", "(is_busy ? ", "(false ? ", RULE),
    ("connections are looked at that are not there", "src/transport/silence.hpp", "        if (is_connected) hasten(", "        hasten(", RULE),
    # --- what is lacking
    ("where UCX's sets cannot be read nobody looks at what is known", SOCKETS, "    if (found.is_blind) look_at_known(now_ns, found);\n", "", LOOKS),
    ("where UCX's sets cannot be read a number is taken for its earlier connection", SOCKETS, " && cookie_of(one.socket) == one.cookie", "", LOOKS),
    ("sets that could not be read count as empty", SOCKETS, "found.is_blind = !look_at_all(now_ns, found);", "look_at_all(now_ns, found);", LOOKS),
    ("a rank that no timer wakes sleeps for long", UCX, "        capabilities_.arm_is_complete = false;\n", "", LOOKS),
    ("a timer that is in no set is taken for one that wakes", SOCKETS, "    wake_error_ = errno;\n", "", LOOKS),
    # --- whose loss it was
    ("an error tells of another rank's host", SOCKETS, "        if (listens_at(worker_address, host)) {", "        if (true) {", SAID),
    ("an error does not tell of its own host", SOCKETS, """            text += "; " + what;\n""", "", SAID),
    ("what UCX says of another lost host is said in this one's error", SOCKETS, "    return is_of_another ? text : text + said;", "    return text + said;", SAID),
    ("what UCX says of another lost host is said nowhere", SOCKETS, "            what += said;\n", "", SAID),
    ("what UCX says of another lost host is said once for each connection to it", SOCKETS, "!is_of_another && names(", "names(", SAID),
    ("a host's address is taken for another that begins as it does", SOCKETS, " || !continues(text[end]))) return true;", " || true)) return true;", SAID),
    ("a host's address is taken for another that ends as it does", SOCKETS, "        if (begins && (end", "        if ((end", SAID),
    ("what a rank does without is not said in its other errors", UCX, """    if (!lacks_.empty()) last_error_ += "; " + lacks_;\n""", "", LOOKS),
    # --- what tcp says
    ("a connection that is reset at once has no address", "src/transport/tcp/tcp_transport.cpp", "    return book_.has(peer.rank) ? ", "    return false ? ", ERRORS),
    ("an address that is refused makes a host be waited for that cannot be reached at its others", "src/transport/tcp/attempt.cpp",
     "    else if (how != Miss::refused)\n", "    else\n", ERRORS),
    ("of a host's addresses an error names one", "src/transport/tcp/attempt.cpp", """                       to_string(endpoints_), reason);""",
     """                       to_string(endpoint()), reason);""", ERRORS),
]
