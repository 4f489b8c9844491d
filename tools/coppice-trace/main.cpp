// coppice-trace: joins what the processes of a job have traced (COPPICE_TRACE) to one file for Perfetto, with the clocks of all hosts
// in order.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "clocks.hpp"
#include "joined.hpp"
#include "records.hpp"

namespace {

using coppice::trace::Clock;
using coppice::trace::kUnbounded;
using coppice::trace::Order;
using coppice::trace::Trace;

// Exit codes, as in coppice-trace(1).
constexpr int kJoined = 0, kUsage = 2, kUnreadable = 3;

std::string within(const Clock& clock) {
    if (clock.most_ns == kUnbounded && clock.least_ns == -kUnbounded) return "by the hosts' clocks of the world alone";
    if (clock.most_ns == kUnbounded || clock.least_ns == -kUnbounded)
        return "by the hosts' clocks of the world, with payloads here after they were given";
    return fmt::format("±{:.3f} us", static_cast<double>(clock.most_ns - clock.least_ns) / 2000);
}

void tell(const std::vector<Trace>& traces, const Order& order) {
    for (const Trace& trace : traces) {
        fmt::print(stderr, "{}: {}, {} records{}{}\n", trace.path, name_of(trace), trace.records.size(),
                   trace.ended ? "" : "; it ends where its process was killed, or still goes on",
                   trace.left_out == 0 ? "" : fmt::format("; {} lines left out", trace.left_out));
    }
    for (std::size_t i = 1; i < order.clocks.size(); ++i) {
        const Clock& clock = order.clocks[i];
        fmt::print(stderr, "clock of {}: {:+.3f} us from that of {}, {}\n", clock.host,
                   static_cast<double>(clock.offset_ns) / 1000, order.clocks[0].host, within(clock));
    }
    if (!order.consistent)
        fmt::print(stderr,
                   "coppice-trace: clocks have run at different speeds: some effects come before their causes\n");
}

int run(const std::vector<std::string>& paths, const std::string& output) {
    std::vector<Trace> traces;
    for (const std::string& path : paths)
        traces.push_back(coppice::trace::read_trace(path));
    std::ranges::sort(traces, {}, [](const Trace& trace) {
        return std::tuple(trace.rank.value_or(UINT32_MAX), trace.host, trace.pid, trace.path);
    });
    const Order order = coppice::trace::put_in_order(traces);
    tell(traces, order);
    if (output == "-") {
        join(std::cout, traces, order);
        if (!std::cout) throw std::runtime_error("standard output can't be written");
        return kJoined;
    }
    std::ofstream file(output);
    join(file, traces, order);
    if (!file) throw std::runtime_error(fmt::format("{}: it can't be written", output));
    return kJoined;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{
        "Joins what the processes of a job have traced (COPPICE_TRACE=FILE: FILE.HOST.PID each) to one trace that "
        "Perfetto "
        "opens, with the clocks of the hosts in order. What it found goes to standard error."};
    std::vector<std::string> paths;
    std::string output = "-";
    app.add_option("file", paths, "what a process has traced, also one that was killed")
        ->option_text("FILE...")
        ->required();
    app.add_option("-o,--output", output, "where the joined trace goes (standard output)");
    app.set_version_flag("--version", std::string(COPPICE_VERSION));
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : kUsage;
    }
    try {
        return run(paths, output);
    } catch (const std::exception& error) {
        std::cerr << "coppice-trace: " << error.what() << '\n';
        return kUnreadable;
    }
}
