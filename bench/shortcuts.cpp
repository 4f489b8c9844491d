// How much cheaper shortcuts are than machines: the broadcasts of PPoPP'19, Figure 8, each seed both ways, in turns. CPU time of a
// broadcast with drawing its dead, medians, and the median of the seeds' ratios.
//
//   shortcuts [SEEDS]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

#include "simulation/broadcast_simulation.hpp"
#include "simulation/faults.hpp"

namespace {

using namespace coppice;
using namespace coppice::simulation;

constexpr std::uint32_t kProcesses = 65536;

double cpu_ms() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

std::unique_ptr<Simulator> make(const char* tree, const char* correction, bool shortcuts) {
    return make_simulator({.processes = kProcesses,
                           .tree = topology::parse_tree(tree).value(),
                           .correction = protocol::parse_correction(correction).value(),
                           .shortcuts = shortcuts})
        .value();
}

double run(Simulator& simulator, std::uint32_t dead, std::uint64_t seed, Outcome& outcome) {
    const double before = cpu_ms();
    outcome = simulator.run(FaultPlan{.dead_count = dead}.draw(kProcesses, seed), seed).value();
    return cpu_ms() - before;
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

bool compare(const char* tree, const char* correction, std::uint32_t dead, std::uint64_t seeds) {
    const auto machines = make(tree, correction, false);
    const auto shortcut = make(tree, correction, true);
    std::vector<double> slow;
    std::vector<double> fast;
    std::vector<double> ratios;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        Outcome by_machines;
        Outcome by_shortcut;
        slow.push_back(run(*machines, dead, seed, by_machines));
        fast.push_back(run(*shortcut, dead, seed, by_shortcut));
        ratios.push_back(slow.back() / fast.back());
        if (by_machines != by_shortcut) return false;
    }
    fmt::print("{:<12} {:<21} {:>5} dead  {:8.3f} ms {:8.3f} ms {:7.1f} times\n", tree, correction, dead, median(slow),
               median(fast), median(ratios));
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    const std::uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 31;
    for (const char* correction : {"checked:synchronized", "optimized:4"}) {
        for (const char* tree : {"binomial", "kary:4", "lame:2", "optimal:1,2"}) {
            for (const std::uint32_t dead : {6U, 65U, 655U, 1310U, 2621U}) {
                if (compare(tree, correction, dead, seeds)) continue;
                fmt::print(stderr, "shortcuts: {} {}, {} dead: not what the machines do\n", tree, correction, dead);
                return 1;
            }
        }
    }
    return 0;
}
