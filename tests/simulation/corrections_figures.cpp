// Prints the message counts of docs/corrections.md: P = 1024, L = 2, o = 1, fault-free and with seeded dead members.
#include <cstdio>
#include <random>
#include <set>

#include "protocol/baselines/names.hpp"
#include "simulation/broadcast_simulation.hpp"

namespace {

using namespace coppice;
using namespace coppice::simulation;

std::vector<std::uint32_t> choose_dead(std::uint32_t processes, std::uint32_t count, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::set<std::uint32_t> dead;
    while (dead.size() < count)
        dead.insert(1 + static_cast<std::uint32_t>(random() % (processes - 1)));
    return {dead.begin(), dead.end()};
}

struct Sum {
    double messages = 0;
    double coloring = 0;
    double total = 0;
    std::uint32_t incomplete = 0;
};

Sum measure(const char* tree, std::uint32_t processes, const char* correction, std::uint32_t dead, std::uint32_t runs) {
    BroadcastSetup setup;
    setup.processes = processes;
    setup.tree = *topology::parse_tree(tree);
    setup.correction = *protocol::baselines::parse_correction(correction);
    const auto simulator = make_simulator(setup).value();
    Sum sum;
    for (std::uint32_t seed = 1; seed <= runs; ++seed) {
        Faults faults;
        for (const std::uint32_t position : choose_dead(processes, dead, seed))
            faults.dead.push_back(Position{position});
        const auto outcome = simulator->run(faults, seed).value();
        sum.messages += static_cast<double>(outcome.messages) / processes / runs;
        sum.coloring += static_cast<double>(outcome.coloring_latency) / runs;
        sum.total += static_cast<double>(outcome.quiescence_latency) / runs;
        sum.incomplete += outcome.unreached.empty() ? 0 : 1;
    }
    return sum;
}

}  // namespace

int main() {
    constexpr std::uint32_t kProcesses = 1024;
    std::printf("%-12s %5s %-24s %12s %9s %9s %11s\n", "tree", "dead", "correction", "messages/P", "coloring", "total",
                "incomplete");
    for (const char* shape : {"binomial", "kary:4", "lame:2"}) {
        for (const std::uint32_t dead : {0U, 10U, 41U}) {
            const std::uint32_t runs = dead == 0 ? 1 : 200;
            for (const char* name : {"none",
                                     "ack",
                                     "checked",
                                     "opportunistic-paper:1",
                                     "opportunistic:1",
                                     "optimized-paper:1",
                                     "optimized:1",
                                     "opportunistic-paper:2",
                                     "opportunistic:2",
                                     "optimized-paper:2",
                                     "optimized:2",
                                     "opportunistic-paper:4",
                                     "opportunistic:4",
                                     "optimized-paper:4",
                                     "optimized:4",
                                     "opportunistic-paper:8",
                                     "opportunistic:8",
                                     "optimized-paper:8",
                                     "optimized:8",
                                     "opportunistic:2:one-directional",
                                     "optimized:2:one-directional",
                                     "opportunistic:8:one-directional",
                                     "optimized:8:one-directional"}) {
                const Sum sum = measure(shape, kProcesses, name, dead, runs);
                std::printf("%-12s %5u %-32s %7.3f %9.2f %9.2f %6u/%u\n", shape, dead, name, sum.messages, sum.coloring,
                            sum.total, sum.incomplete, runs);
            }
        }
    }
    return 0;
}
