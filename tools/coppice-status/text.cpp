// For people: a table of the ranks, what waits and why, and what programs have done to themselves.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "report.hpp"
#include "status/why.hpp"

namespace coppice::show {
namespace {

constexpr std::size_t kColumns = 9;
using Row = std::array<std::string, kColumns>;
constexpr std::array<const char*, kColumns> kTitles{"RANK",       "PID",    "STATE", "GROUP", "BROADCASTS",
                                                    "AGREEMENTS", "FAILED", "FOR",   "IN"};

std::string duration(std::uint64_t from_ns, std::uint64_t to_ns) {
    const double seconds = to_ns > from_ns ? static_cast<double>(to_ns - from_ns) / 1e9 : 0.0;
    if (seconds < 10) return fmt::format("{:.1f} s", seconds);
    if (seconds < 600) return fmt::format("{:.0f} s", seconds);
    return seconds < 36000 ? fmt::format("{:.0f} min", seconds / 60) : fmt::format("{:.1f} h", seconds / 3600);
}

std::string standing_of(const status::Group& group) {
    if (group.left != 0) return ", left";
    return group.standing == status::Standing::member ? "" : fmt::format(", {}", name_of(group.standing));
}

std::string failed_of(const status::Group& group) {
    if (group.failed == 0) return "-";
    std::vector<std::uint32_t> named(group.failed_ranks.begin(),
                                     group.failed_ranks.begin() + std::min(group.failed, status::kMostFailed));
    std::string text = ranks_text(named);
    text.erase(0, text.find(' ') + 1);
    if (group.failed > named.size()) text += fmt::format(" and {} more", group.failed - named.size());
    return text;
}

// What a rank is doing in one of its groups, or outside of any (kNoGroup): the operation that blocks it, else the oldest.
const status::Operation* main_operation(const status::Report& report, std::uint32_t group) {
    const status::Operation* best = nullptr;
    for (std::uint32_t i = 0; i < report.operations_count; ++i) {
        const status::Operation& one = report.operations[i];
        if (one.group != group) continue;
        const auto order = [](const status::Operation& of) { return std::pair(of.blocking == 0, of.since_ns); };
        if (best == nullptr || order(one) < order(*best)) best = &one;
    }
    return best;
}

void add_rows(std::vector<Row>& rows, const Seen& seen, std::uint64_t now_ns, bool of_several_hosts) {
    const status::Report& report = seen.page.report;
    const auto doing = [&](std::uint32_t group) -> std::pair<std::string, std::string> {
        const status::Operation* const one = main_operation(report, group);
        if (one == nullptr) return {"-", "-"};
        const char* const manner = one->begun == 0 && group != status::kNoGroup ? ", not begun: no room"
                                   : one->blocking == 0                         ? ", not blocking"
                                                                                : "";
        return {duration(one->since_ns, now_ns), name_of(*one) + manner};
    };
    const std::string pid =
        of_several_hosts ? fmt::format("{}:{}", seen.page.host, seen.pid) : fmt::format("{}", seen.pid);
    if (report.groups_count == 0 || main_operation(report, status::kNoGroup) != nullptr) {
        const auto [time, what] = doing(status::kNoGroup);
        rows.push_back({"-", pid, state_of(seen), "-", "-", "-", "-", time, what});
    }
    for (std::uint32_t i = 0; i < report.groups_count; ++i) {
        const status::Group& group = report.groups[i];
        const auto [time, what] = doing(i);
        const auto& entered = seen.page.entered[group.slot];
        rows.push_back({fmt::format("{}/{}", group.rank, group.size), pid, state_of(seen),
                        name_of(group) + standing_of(group), fmt::format("{}", entered.broadcasts),
                        fmt::format("{}", entered.agreements), failed_of(group), time, what});
    }
}

void add_table(std::string& text, const std::vector<Row>& rows) {
    std::array<std::size_t, kColumns> widths{};
    for (std::size_t column = 0; column < kColumns; ++column) {
        widths[column] = std::string_view(kTitles[column]).size();
        for (const Row& row : rows)
            widths[column] = std::max(widths[column], row[column].size());
    }
    const auto add_line = [&](const auto& cell) {
        std::string line;
        for (std::size_t column = 0; column < kColumns; ++column)
            line += fmt::format("  {:<{}}", cell(column), widths[column]);
        text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    };
    add_line([](std::size_t column) { return kTitles[column]; });
    for (const Row& row : rows)
        add_line([&](std::size_t column) { return row[column]; });
}

void add_reasons(std::string& text, const std::vector<const Seen*>& job, const Reasons& reasons, std::uint64_t now_ns) {
    struct Reason {
        std::uint64_t since_ns = UINT64_MAX;
        std::vector<std::uint32_t> ranks;
    };
    std::map<std::tuple<std::string, std::string, std::string>, Reason> alike;  // by group, operation and why
    for (const Seen* const seen : job) {
        const status::Report& report = seen->page.report;
        for (std::uint32_t i = 0; i < report.operations_count; ++i) {
            const status::Operation& one = report.operations[i];
            if (one.group == status::kNoGroup) continue;
            const status::Group& group = report.groups[one.group];
            const std::string why = reasons.chain(*seen, one);
            if (why.empty()) continue;
            Reason& reason = alike[{name_of(group), name_of(one), why}];
            reason.since_ns = std::min(reason.since_ns, one.since_ns);
            reason.ranks.push_back(group.rank);
        }
    }
    for (auto& [name, reason] : alike) {
        auto& [since_ns, ranks] = reason;
        std::ranges::sort(ranks);
        text += fmt::format("  {}, {} for {}: {}\n", ranks_text(ranks), std::get<1>(name), duration(since_ns, now_ns),
                            std::get<2>(name));
    }
}

void add_job(std::string& text, const std::vector<const Seen*>& job, const Reasons& reasons, std::uint64_t now_ns) {
    const status::Snapshot& first = job.front()->page;
    std::set<std::string> hosts;
    for (const Seen* const seen : job)
        hosts.insert(seen->page.host);
    std::string where;  // fmt::join of strings makes GCC 12 warn of an overflow that is none
    for (const std::string& host : hosts)
        where.append(where.empty() ? "" : ", ").append(host);
    text += fmt::format("job {}: {} process{} of {} on {}\n", first.job, job.size(), job.size() == 1 ? "" : "es",
                        first.program, where);
    std::vector<Row> rows;
    for (const Seen* const seen : job)
        add_rows(rows, *seen, now_ns, hosts.size() > 1);
    add_table(text, rows);
    add_reasons(text, job, reasons, now_ns);
}

}  // namespace

std::string as_text(const Everything& all) {
    const Reasons reasons(all.pages);
    std::string text;
    for (auto at = all.pages.begin(); at != all.pages.end();) {
        std::vector<const Seen*> job;
        for (const std::string& name = at->page.job; at != all.pages.end() && at->page.job == name; ++at)
            job.push_back(&*at);
        if (!text.empty()) text += '\n';
        add_job(text, job, reasons, all.now_ns);
    }
    const auto findings = reasons.findings();
    if (!findings.empty()) text += "\nfound:\n";
    for (const std::string& finding : findings)
        text += fmt::format("  {}\n", finding);
    for (const Problem& problem : all.problems) {
        if (problem.pid == 0) {
            text += fmt::format("host {}: {}\n", problem.host, problem.error.message);
            continue;
        }
        text += fmt::format("process {}{}: its page can't be shown: {}\n", problem.pid,
                            problem.host.empty() ? "" : " on " + problem.host, problem.error.message);
    }
    return text;
}

}  // namespace coppice::show
