#include <fmt/format.h>

#include <algorithm>

#include "report.hpp"
#include "status/why.hpp"

namespace coppice::show {
namespace {

using nlohmann::ordered_json;

double seconds(std::uint64_t from_ns, std::uint64_t to_ns) {
    return to_ns > from_ns ? static_cast<double>(to_ns - from_ns) / 1e9 : 0.0;
}

ordered_json describe(const status::Group& group, const status::Snapshot& page) {
    ordered_json failed = ordered_json::array();
    const std::uint32_t named = std::min(group.failed, status::kMostFailed);
    for (std::uint32_t i = 0; i < named; ++i)
        failed.push_back(group.failed_ranks[i]);
    const auto& entered = page.entered[group.slot];
    return {{"group", name_of(group)},
            {"epoch", group.epoch},
            {"rank", group.rank},
            {"size", group.size},
            {"hosts", group.hosts},
            {"host", group.host},
            {"leader", group.leader},
            {"standing", name_of(group.standing)},
            {"left", group.left != 0},
            {"failed", group.failed},
            {"failed_ranks", failed},
            {"window", group.window},
            {"leaves", group.leaves},
            {"transports", group.transports.data()},
            {"broadcasts", {{"entered", entered.broadcasts}, {"consumed", group.consumed}, {"stable", group.stable}}},
            {"agreements", {{"entered", entered.agreements}}},
            {"counters",
             {{"sends", group.counters.sends},
              {"writes", group.counters.writes},
              {"received", group.counters.received},
              {"garbage", group.counters.garbage},
              {"refused", group.counters.refused},
              {"connections", group.counters.connections},
              {"chunks", group.counters.chunks},
              {"chunks_damaged", group.counters.chunks_damaged},
              {"unregistered", group.counters.unregistered}}}};
}

ordered_json describe(const Seen& seen, const status::Operation& operation, const Reasons& reasons,
                      std::uint64_t now_ns) {
    ordered_json waits = ordered_json::array();
    for (std::uint32_t i = 0; i < operation.waits.count; ++i) {
        const status::Wait& wait = operation.waits.ranks[i];
        if (wait.why == status::Why::members) continue;
        waits.push_back({{"rank", wait.rank}, {"why", name_of(wait.why)}, {"number", wait.number}});
    }
    const bool in_group = operation.group != status::kNoGroup;
    ordered_json line{{"operation", name_of(operation.kind)}, {"number", operation.number}};
    line["root"] = operation.kind == status::Kind::broadcast ? ordered_json(operation.root) : ordered_json();
    line["group"] = in_group ? ordered_json(name_of(seen.page.report.groups[operation.group])) : ordered_json();
    line["begun"] = operation.begun != 0;
    line["blocking"] = operation.blocking != 0;
    line["since_s"] = seconds(operation.since_ns, now_ns);
    line["waits_for"] = waits;
    line["waits_for_more"] = operation.waits.omitted;
    line["why"] = reasons.chain(seen, operation);
    return line;
}

ordered_json describe(const Seen& seen, const Reasons& reasons, std::uint64_t now_ns) {
    const status::Report& report = seen.page.report;
    ordered_json groups = ordered_json::array(), operations = ordered_json::array();
    for (std::uint32_t i = 0; i < report.groups_count; ++i)
        groups.push_back(describe(report.groups[i], seen.page));
    for (std::uint32_t i = 0; i < report.operations_count; ++i)
        operations.push_back(describe(seen, report.operations[i], reasons, now_ns));
    ordered_json line{{"pid", seen.pid},         {"program", seen.page.program},
                      {"host", seen.page.host},  {"library", seen.page.library},
                      {"state", state_of(seen)}, {"ended", seen.ended},
                      {"stopped", is_held(seen)}};
    line["debugger"] = seen.process.tracer != 0 ? ordered_json(seen.process.tracer) : ordered_json();
    line["reported_s_ago"] = seconds(report.written_ns, now_ns);
    line["age_s"] = seconds(seen.page.made_ns, now_ns);
    line["groups"] = groups;
    line["groups_left_out"] = report.groups_omitted;
    line["operations"] = operations;
    line["operations_left_out"] = report.operations_omitted;
    return line;
}

const char* name_of_trouble(status::Trouble trouble) {
    switch (trouble) {
        case status::Trouble::gone:
            return "gone";
        case status::Trouble::forbidden:
            return "forbidden";
        case status::Trouble::garbage:
            return "garbage";
        case status::Trouble::newer:
            return "newer";
        case status::Trouble::older:
            return "older";
        case status::Trouble::restless:
            return "restless";
        case status::Trouble::unreached:
            return "unreached";
    }
    return "";
}

}  // namespace

ordered_json as_json(const Everything& all) {
    const Reasons reasons(all.pages);
    ordered_json jobs = ordered_json::array();
    for (const Seen& seen : all.pages) {
        if (jobs.empty() || jobs.back()["job"] != seen.page.job)
            jobs.push_back({{"job", seen.page.job}, {"processes", ordered_json::array()}});
        jobs.back()["processes"].push_back(describe(seen, reasons, all.now_ns));
    }
    ordered_json problems = ordered_json::array();
    for (const Problem& problem : all.problems) {
        problems.push_back({{"pid", problem.pid != 0 ? ordered_json(problem.pid) : ordered_json()},
                            {"host", problem.host.empty() ? ordered_json() : ordered_json(problem.host)},
                            {"trouble", name_of_trouble(problem.error.trouble)},
                            {"message", problem.error.message}});
    }
    return {{"version", 1},
            {"jobs", jobs},
            {"findings", reasons.findings()},
            {"problems", problems},
            {"hidden_processes", all.hidden}};
}

}  // namespace coppice::show
