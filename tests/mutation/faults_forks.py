"""Faults in what forked children keep."""

from catchers import gtest, linked

PROCESS = "src/base/process.cpp"
UNIT = gtest("tests/base/process_test", "*")
UCX = gtest("tests/transport/transport_ucx_tests", "UcxDescriptors*")


def fork(names):
    return linked("tests/integration/integration_fork", f"Ends/*/{names}")


FAULTS = [
    ("a child of a forked child loses files of its own", PROCESS, "    sets.clear();\n    descriptors.clear();\n", "", UNIT),
    ("a child keeps what another thread opens just then", "src/base/process.hpp",
     "    const std::scoped_lock lock(detail::no_fork);\n    const int descriptor = open();", "    const int descriptor = open();", UNIT),
    ("a child keeps what another thread closes just then", PROCESS,
     "    const std::scoped_lock lock(detail::no_fork);\n    forget_descriptor(descriptor);", "    forget_descriptor(descriptor);", UNIT),
    ("a forked child closes its copy twice", PROCESS, "descriptor < 0 || in_forked_child()", "descriptor < 0", UNIT),
    ("a child keeps what the progress thread is woken by", "src/engine/progress/progress_thread.cpp",
     "process::open_own([] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); })", "eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)", fork("one_host__exit")),
    ("a child keeps the payload reserve", "src/transport/shm/segment.cpp",
     "process::open_own([this] { return fcntl(fd_.number, F_DUPFD_CLOEXEC, 0); })", "fcntl(fd_.number, F_DUPFD_CLOEXEC, 0)", fork("one_host__exit")),
    ("a child keeps its parent's bell", "src/transport/shm/bell.cpp",
     "process::open_own([] { return socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); })",
     "socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)", fork("one_host__exit")),
    ("a child keeps what several transports sleep on", "src/engine/transport_set.cpp",
     "process::open_own([] { return epoll_create1(EPOLL_CLOEXEC); })", "epoll_create1(EPOLL_CLOEXEC)", fork("two_hosts__exit")),
    ("a child keeps the door", "src/bootstrap/door/door.cpp",
     "process::open_own([] { return ::epoll_create1(EPOLL_CLOEXEC); })", "::epoll_create1(EPOLL_CLOEXEC)", fork("open_hosts__exit")),
    ("a child keeps what UCX shares among contexts", "src/transport/ucx/worker.cpp", "    descriptors_.keep_shared();\n", "",
     fork("ucx_hosts__exit")),
    ("a number that was open before is nobody else's afterwards", "src/transport/ucx/descriptors.cpp",
     "    std::ranges::set_difference(open(), before, std::back_inserter(made));\n",
     "    std::ranges::set_difference(open(), before, std::back_inserter(made), {}, &Named::number, &Named::number);\n", UCX),
    ("files of other threads are taken for UCX's", "src/transport/ucx/descriptors.cpp", " || !may_be_of_ucx(one.name)", "", UCX),
    ("the library's own are taken for UCX's", "src/transport/ucx/descriptors.cpp", "return is_own(one.number) || ", "return ", UCX),
    ("another file with the name of what UCX's workers share is taken for it", "src/transport/ucx/descriptors.cpp",
     " && (!is_marked || take_mark_from(one.number));", ";", UCX),
    ("the library's own is taken for what UCX's workers share", "src/transport/ucx/descriptors.cpp", " || process::is_own(one.number)) continue;", ") continue;", UCX),
    ("the library's own with a number that UCX had is forgotten", "src/transport/ucx/descriptors.cpp",
     "!process::disown(one.number) || ", "(process::forget_descriptor(one.number), false) || ", UCX),
    ("the library's own with a number that UCX had is taken for UCX's", PROCESS,
     "    adopted.erase(descriptor);\n    descriptors.insert(descriptor);", "    descriptors.insert(descriptor);", UCX),
    ("the program's file with a number that UCX had is never the program's", "src/transport/ucx/descriptors.cpp",
     "!process::disown(one.number) || name_of(one.number) != one.name) continue;",
     "name_of(one.number) != one.name || !process::disown(one.number)) continue;", UCX),
    ("another worker's with a number that UCX had is forgotten", "src/transport/ucx/descriptors.cpp", " || taken->second != worker) continue;", ") continue;", UCX),
    ("a number that UCX had for another worker is nobody's", "src/transport/ucx/descriptors.cpp", " && !process::is_adopted(descriptor);", ";", UCX),
    ("what outlives a worker is nobody's where another begins while the last one ends", "src/transport/ucx/descriptors.cpp",
     "    if (--others.workers == 0) forget_all(others.all, Outliving::kNoWorker);\n", "    --others.workers;\n", UCX),
]
