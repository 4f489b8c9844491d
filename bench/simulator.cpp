// How fast the simulator is: broadcasts of 64K and 1M ranks, how the time grows with the messages, and what a second
// thread brings. Look at the CPU column; "bytes" is what the process had resident at most, so run the sizes one by one
// with --benchmark_filter to see theirs.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <memory>

#include "simulation/broadcast_simulation.hpp"
#include "simulation/faults.hpp"

namespace {

using namespace coppice;
using namespace coppice::simulation;

std::unique_ptr<Simulator> make(const char* tree, const char* correction, std::uint32_t processes) {
    return make_simulator({.processes = processes,
                           .tree = topology::parse_tree(tree).value(),
                           .correction = protocol::parse_correction(correction).value()})
        .value();
}

void broadcast(benchmark::State& state, const char* tree, const char* correction, double dead_rate) {
    const auto processes = static_cast<std::uint32_t>(state.range(0));
    const auto simulator = make(tree, correction, processes);
    const FaultPlan plan{.dead_rate = dead_rate};
    std::uint64_t seed = static_cast<std::uint64_t>(state.thread_index()) << 32;
    std::uint64_t messages = 0;
    simulator->run({}, 1).value();  // memory is touched for the first time
    for (auto _ : state) {
        ++seed;
        messages += simulator->run(plan.draw(processes, seed), seed).value().messages;
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    state.counters["messages"] = benchmark::Counter(static_cast<double>(messages), benchmark::Counter::kAvgIterations);
    state.counters["MiB"] = static_cast<double>(usage.ru_maxrss) / 1024;
    state.SetItemsProcessed(state.iterations());
}

BENCHMARK_CAPTURE(broadcast, checked_synchronized, "binomial", "checked:synchronized", 0.0)
    ->Unit(benchmark::kMillisecond)
    ->Arg(1 << 10)
    ->Arg(1 << 13)
    ->Arg(1 << 16)
    ->Arg(1 << 20);
BENCHMARK_CAPTURE(broadcast, checked_synchronized_1_percent_dead, "binomial", "checked:synchronized", 0.01)
    ->Unit(benchmark::kMillisecond)
    ->Arg(1 << 16);
BENCHMARK_CAPTURE(broadcast, checked_overlapped, "binomial", "checked", 0.0)
    ->Unit(benchmark::kMillisecond)
    ->Arg(1 << 16);
BENCHMARK_CAPTURE(broadcast, optimized_overlapped, "lame:2", "optimized:4", 0.0)
    ->Unit(benchmark::kMillisecond)
    ->Arg(1 << 16);
// Broadcasts per second of one thread and of two: compare items_per_second.
BENCHMARK_CAPTURE(broadcast, by_threads, "binomial", "checked:synchronized", 0.0)
    ->Unit(benchmark::kMillisecond)
    ->Arg(1 << 16)
    ->Threads(1)
    ->Threads(2)
    ->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
