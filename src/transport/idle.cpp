#include "transport/idle.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.hpp"

namespace coppice::transport {

CoreSharing& ThisThread::sharing() {
    thread_local constinit CoreSharing sharing;
    return sharing;
}

std::uint64_t ThisThread::now_ns() {
    return coppice::now_ns();
}

std::uint64_t ThisThread::switches() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return static_cast<std::uint64_t>(usage.ru_nivcsw);
}

void ThisThread::yield() {
    sched_yield();
}

void ThisThread::sleep(int descriptor, std::uint64_t at_most_ns) {
    const timespec nap{0, static_cast<long>(at_most_ns)};
    if (descriptor < 0) {
        nanosleep(&nap, nullptr);
        return;
    }
    pollfd readable{.fd = descriptor, .events = POLLIN, .revents = 0};
    ppoll(&readable, 1, &nap, nullptr);
}

}  // namespace coppice::transport
