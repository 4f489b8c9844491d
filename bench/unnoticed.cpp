// How long a rank waits that unnoticed deaths have cut off from a broadcast: from the death to the payload.
// A rank of bench/unnoticed.sh and of tests/integration/unnoticed_test.py. Usage: unnoticed VICTIM,VICTIM,… [OTHERS]
//
// Once all ranks are done with what came before, the root stops the victims, so that they are as silent as the dead. It
// broadcasts, lets every rank have it that can, waits until so many OTHERS have it (0 by default) and a tenth of a second
// more, and kills the victims. Every rank prints when it had the payload, in microseconds of one clock; the root when it
// killed.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

#include "coppice/coppice.hpp"

namespace {

double now_us() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

bool is_stopped(pid_t pid) {
    std::string line;
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), line);
    const std::size_t end = line.rfind(')');
    return end != std::string::npos && line.substr(end, 3) == ") T";
}

std::vector<std::uint32_t> parse(std::string text) {
    std::vector<std::uint32_t> victims;
    for (char* at = text.data(); *at != '\0';) {
        victims.push_back(static_cast<std::uint32_t>(std::strtoul(at, &at, 10)));
        if (*at == ',') ++at;
    }
    return victims;
}

// Waits for a millisecond, in no call of the library; true if another rank told meanwhile that it is done.
bool heard_from_another(const sigset_t& told) {
    const timespec millisecond{0, 1'000'000};
    return sigtimedwait(&told, nullptr, &millisecond) > 0;
}

}  // namespace

int main(int argc, char** argv) try {
    using namespace std::chrono_literals;
    // By which others tell the root that they are done: with the broadcasts before it, then that they have it.
    sigset_t told;
    sigemptyset(&told);
    sigaddset(&told, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &told, nullptr);
    unsigned long others = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 0;
    const std::vector<std::uint32_t> victims = parse(argc > 1 ? argv[1] : "");
    auto context = coppice::Context::create();
    auto group = coppice::Group::create(context);
    std::vector<pid_t> pids(group.size());
    pids[group.rank()] = getpid();
    // Often enough that all connections are there that broadcasts of rank 0 need.
    for (int round = 0; round < 20; ++round) {
        for (std::uint32_t root = 0; root < group.size(); ++root)
            group.broadcast(std::as_writable_bytes(std::span(&pids[root], 1)), root, 60s);
    }
    if (group.rank() != 0) {
        kill(pids[0], SIGRTMIN);
    } else {
        // A victim that is stopped before others are done may cut them off from an earlier broadcast, not from this one.
        for (std::uint32_t done = 1; done < group.size();)
            done += heard_from_another(told) ? 1 : 0;
        for (const std::uint32_t victim : victims)
            kill(pids.at(victim), SIGSTOP);
        for (const std::uint32_t victim : victims) {
            while (!is_stopped(pids.at(victim)))
                usleep(100);
        }
    }
    char payload = 1;
    group.broadcast(std::as_writable_bytes(std::span(&payload, 1)), 0, 60s);
    std::printf("rank %u %.0f\n", group.rank(), now_us());
    std::fflush(stdout);
    if (group.rank() != 0) {
        kill(pids[0], SIGRTMIN);
    } else {
        for (int turn = 0; turn < 100 || others > 0; ++turn) {
            if (heard_from_another(told) && others > 0) --others;
        }
        std::printf("killed - %.0f\n", now_us());
        std::fflush(stdout);
        for (const std::uint32_t victim : victims)
            kill(pids.at(victim), SIGKILL);
    }
    return 0;
} catch (const coppice::Error& error) {
    std::fprintf(stderr, "unnoticed: %s\n", error.what());
    return 1;
}
