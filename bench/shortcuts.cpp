// How much cheaper shortcuts are than machines: the broadcasts of PPoPP'19, Figure 8, and of IPDPS'17, Figures 3, 5 and 9, each seed both
// ways, in turns. CPU time of a broadcast with drawing its dead, medians, and the median of the seeds' ratios.
//
//   shortcuts [SEEDS [trees | gossip]]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "simulation/broadcast_simulation.hpp"
#include "simulation/faults.hpp"
#include "simulation/gossip_simulation.hpp"

namespace {

using namespace coppice;
using namespace coppice::simulation;

constexpr std::uint32_t kProcesses = 65536;
constexpr std::uint32_t kFewProcesses = 1024;
constexpr std::array kDead{6U, 65U, 655U, 1310U, 2621U};

double cpu_ms() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

using Pair = std::array<std::unique_ptr<Simulator>, 2>;  // machines, shortcut

std::unique_ptr<Simulator> make(const char* tree, const char* correction, bool shortcuts) {
    return make_simulator({.processes = kProcesses,
                           .tree = topology::parse_tree(tree).value(),
                           .correction = protocol::parse_correction(correction).value(),
                           .shortcuts = shortcuts})
        .value();
}

std::unique_ptr<Simulator> make(const char* gossip, std::uint32_t processes, Step latency, bool shortcuts) {
    return make_simulator(GossipSetup{.processes = processes,
                                      .spec = protocol::parse_gossip(gossip).value(),
                                      .model = {.latency = latency, .overhead = 1},
                                      .options = {},
                                      .shortcuts = shortcuts})
        .value();
}

double run(Simulator& simulator, std::uint32_t dead, std::uint64_t seed, Outcome& outcome) {
    const double before = cpu_ms();
    outcome = simulator.run(FaultPlan{.dead_count = dead}.draw(simulator.processes(), seed), seed).value();
    return cpu_ms() - before;
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

bool compare(const std::string& name, const Pair& simulators, std::uint32_t dead, std::uint64_t seeds) {
    std::vector<double> slow;
    std::vector<double> fast;
    std::vector<double> ratios;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        Outcome by_machines;
        Outcome by_shortcut;
        slow.push_back(run(*simulators[0], dead, seed, by_machines));
        fast.push_back(run(*simulators[1], dead, seed, by_shortcut));
        ratios.push_back(slow.back() / fast.back());
        if (by_machines != by_shortcut) {
            fmt::print(stderr, "shortcuts: {}, {} dead: not what the machines do\n", name, dead);
            return false;
        }
    }
    fmt::print("{:<34} {:>5} dead  {:8.3f} ms {:8.3f} ms {:7.1f} times\n", name, dead, median(slow), median(fast),
               median(ratios));
    return true;
}

bool compare_trees(std::uint64_t seeds) {
    for (const char* correction : {"checked:synchronized", "optimized:4"}) {
        for (const char* tree : {"binomial", "kary:4", "lame:2", "optimal:1,2"}) {
            const Pair simulators{make(tree, correction, false), make(tree, correction, true)};
            for (const std::uint32_t dead : kDead) {
                if (!compare(fmt::format("{:<12} {}", tree, correction), simulators, dead, seeds)) return false;
            }
        }
    }
    return true;
}

// Figure 8 with each number of dead; the others are without. A small broadcast is over so soon that it takes many to time one.
bool compare_gossip(std::uint64_t seeds) {
    const char* const checked = "ccg:38";
    const Pair large{make(checked, kProcesses, 2, false), make(checked, kProcesses, 2, true)};
    for (const std::uint32_t dead : kDead) {
        if (!compare(fmt::format("{}, {} ranks", checked, kProcesses), large, dead, seeds)) return false;
    }
    for (const char* gossip :
         {"ocg:18:26", "ocg:24:11", "ocg:32:9", "ccg:18", "ccg:26", "ccg:34", "fcg:1:20", "fcg:1:28", "fcg:1:36"}) {
        const Pair small{make(gossip, kFewProcesses, 1, false), make(gossip, kFewProcesses, 1, true)};
        if (!compare(fmt::format("{}, {} ranks", gossip, kFewProcesses), small, 0, 32 * seeds)) return false;
    }
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    const std::uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 31;
    const char* const part = argc > 2 ? argv[2] : "";
    if (std::strcmp(part, "gossip") != 0 && !compare_trees(seeds)) return 1;
    return std::strcmp(part, "trees") == 0 || compare_gossip(seeds) ? 0 : 1;
}
