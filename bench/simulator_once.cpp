// simulator_once RANKS RUNS [TREE CORRECTION]: that many fault-free broadcasts in one simulator. Prints messages and
// CPU time of each, and what the process had resident at most.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "simulation/broadcast_simulation.hpp"

namespace {

double cpu_ms() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto milliseconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
    };
    return milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
    using namespace coppice;
    if (argc != 3 && argc != 5) {
        std::fprintf(stderr, "usage: simulator_once RANKS RUNS [TREE CORRECTION]\n");
        return 2;
    }
    const auto ranks = static_cast<std::uint32_t>(std::strtoul(argv[1], nullptr, 10));
    const unsigned long runs = std::strtoul(argv[2], nullptr, 10);
    const auto tree = topology::parse_tree(argc == 5 ? argv[3] : "binomial");
    const auto correction = protocol::parse_correction(argc == 5 ? argv[4] : "checked:synchronized");
    if (!tree || !correction) {
        std::fprintf(stderr, "simulator_once: %s\n", (!tree ? tree.error() : correction.error()).c_str());
        return 2;
    }
    const auto simulator = simulation::make_simulator({.processes = ranks, .tree = *tree, .correction = *correction});
    if (!simulator) {
        std::fprintf(stderr, "simulator_once: %s\n", simulator.error().c_str());
        return 2;
    }
    for (unsigned long run = 0; run < runs; ++run) {
        const double before = cpu_ms();
        const auto outcome = (*simulator)->run({}, run + 1);
        if (!outcome) {
            std::fprintf(stderr, "simulator_once: %s\n", to_string(outcome.error()).c_str());
            return 1;
        }
        std::printf("%u ranks: %llu messages, %.1f ms of CPU\n", ranks,
                    static_cast<unsigned long long>(outcome->messages), cpu_ms() - before);
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("%.1f MiB resident at most\n", static_cast<double>(usage.ru_maxrss) / 1024);
    return 0;
}
