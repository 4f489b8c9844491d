// The text exposition format of Prometheus: the samples of a metric together, behind its HELP and TYPE.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "report.hpp"
#include "status/why.hpp"

namespace coppice::show {
namespace {

std::string escaped(std::string_view text) {
    std::string safe;
    for (const char one : text) {
        if (one == '\\' || one == '"') safe += '\\';
        safe += one == '\n' ? ' ' : one;
    }
    return safe;
}

std::string labels_of(const Seen& seen) {
    return fmt::format("job_id=\"{}\",host=\"{}\",pid=\"{}\"", escaped(seen.page.job), escaped(seen.page.host),
                       seen.pid);
}
std::string labels_of(const Seen& seen, const status::Group& group) {
    return fmt::format("{},group=\"{}\",rank=\"{}\"", labels_of(seen), name_of(group), group.rank);
}

using GroupValue = std::uint64_t (*)(const status::Group&, const status::EnteredCounts&);
struct GroupMetric {
    const char* name;
    const char* type;
    const char* help;
    GroupValue value;
};
using status::EnteredCounts;
using status::Group;
constexpr GroupMetric kGroupMetrics[] = {
    {"coppice_group_size", "gauge", "Ranks that the group was made of.",
     [](const Group& group, const EnteredCounts&) { return std::uint64_t{group.size}; }},
    {"coppice_group_failed", "gauge", "Ranks that this one knows to have failed.",
     [](const Group& group, const EnteredCounts&) { return std::uint64_t{group.failed}; }},
    {"coppice_group_epoch", "gauge", "Number of the membership, counted from the first group.",
     [](const Group& group, const EnteredCounts&) { return std::uint64_t{group.epoch}; }},
    {"coppice_group_member", "gauge", "1 while the rank takes part in the group; 0: revoked, fenced or left.",
     [](const Group& group, const EnteredCounts&) {
         return std::uint64_t{group.standing == status::Standing::member && group.left == 0};
     }},
    {"coppice_broadcasts_entered_total", "counter", "Broadcasts that the rank has begun.",
     [](const Group&, const EnteredCounts& entered) { return entered.broadcasts; }},
    {"coppice_broadcasts_consumed_total", "counter", "Broadcasts that the rank's caller has had.",
     [](const Group& group, const EnteredCounts&) { return group.consumed; }},
    {"coppice_broadcasts_stable_total", "counter", "Broadcasts that all live ranks have had, as this one knows.",
     [](const Group& group, const EnteredCounts&) { return group.stable; }},
    {"coppice_agreements_entered_total", "counter", "Agreements and barriers that the rank has begun.",
     [](const Group&, const EnteredCounts& entered) { return entered.agreements; }},
    {"coppice_messages_sent_total", "counter", "Messages that transports have taken.",
     [](const Group& group, const EnteredCounts&) { return group.counters.sends; }},
    {"coppice_messages_written_total", "counter", "One-sided writes that transports have taken.",
     [](const Group& group, const EnteredCounts&) { return group.counters.writes; }},
    {"coppice_messages_received_total", "counter", "Messages that have arrived.",
     [](const Group& group, const EnteredCounts&) { return group.counters.received; }},
    {"coppice_messages_garbage_total", "counter", "What arrived and was dropped because it was ill-formed.",
     [](const Group& group, const EnteredCounts&) { return group.counters.garbage; }},
    {"coppice_messages_refused_total", "counter", "Messages of failed ranks, which were dropped.",
     [](const Group& group, const EnteredCounts&) { return group.counters.refused; }},
    {"coppice_connections_total", "counter", "Connections that the rank has opened.",
     [](const Group& group, const EnteredCounts&) { return group.counters.connections; }},
    {"coppice_chunks_total", "counter", "Chunks of large payloads that the rank has taken.",
     [](const Group& group, const EnteredCounts&) { return group.counters.chunks; }},
    {"coppice_chunks_damaged_total", "counter", "Chunks whose check failed, and which were fetched again.",
     [](const Group& group, const EnteredCounts&) { return group.counters.chunks_damaged; }},
    {"coppice_payloads_unregistered_total", "counter",
     "Large payloads that went in messages, as their memory could not be registered.",
     [](const Group& group, const EnteredCounts&) { return group.counters.unregistered; }},
};

void begin(std::string& text, const char* name, const char* type, const char* help) {
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void add_processes(std::string& text, const Everything& all, const char* name, const char* help,
                   const std::function<double(const Seen&)>& value) {
    begin(text, name, "gauge", help);
    for (const Seen& seen : all.pages)
        text += fmt::format("{}{{{}}} {}\n", name, labels_of(seen), value(seen));
}

// The longest wait of each rank, by kind: numbers of operations would make a series each.
void add_waits(std::string& text, const Everything& all) {
    constexpr const char* kName = "coppice_operation_wait_seconds";
    begin(text, kName, "gauge", "For how long the longest operation under way of its kind has waited.");
    for (const Seen& seen : all.pages) {
        const status::Report& report = seen.page.report;
        for (std::uint32_t group = 0; group < report.groups_count; ++group) {
            for (std::uint32_t kind = 1; kind < status::kKinds; ++kind) {
                std::uint64_t since = UINT64_MAX;
                for (std::uint32_t i = 0; i < report.operations_count; ++i) {
                    const status::Operation& one = report.operations[i];
                    if (one.group == group && static_cast<std::uint32_t>(one.kind) == kind)
                        since = std::min(since, one.since_ns);
                }
                if (since == UINT64_MAX) continue;
                const double waited = all.now_ns > since ? static_cast<double>(all.now_ns - since) / 1e9 : 0.0;
                text += fmt::format("{}{{{},operation=\"{}\"}} {:.6f}\n", kName, labels_of(seen, report.groups[group]),
                                    name_of(static_cast<status::Kind>(kind)), waited);
            }
        }
    }
}

}  // namespace

std::string as_metrics(const Everything& all) {
    std::string text;
    add_processes(text, all, "coppice_process_up", "1: the process lives; 0: another one keeps the page of it.",
                  [](const Seen& seen) { return seen.ended ? 0.0 : 1.0; });
    add_processes(text, all, "coppice_process_stopped", "1: by a signal or a debugger.",
                  [](const Seen& seen) { return is_held(seen) ? 1.0 : 0.0; });
    for (const GroupMetric& metric : kGroupMetrics) {
        begin(text, metric.name, metric.type, metric.help);
        for (const Seen& seen : all.pages) {
            const status::Report& report = seen.page.report;
            for (std::uint32_t i = 0; i < report.groups_count; ++i) {
                const Group& group = report.groups[i];
                text += fmt::format("{}{{{}}} {}\n", metric.name, labels_of(seen, group),
                                    metric.value(group, seen.page.entered[group.slot]));
            }
        }
    }
    add_waits(text, all);
    begin(text, "coppice_findings", "gauge", "Hangs that programs have caused themselves, as far as their pages show.");
    text += fmt::format("coppice_findings {}\n", Reasons(all.pages).findings().size());
    begin(text, "coppice_unreadable_pages", "gauge", "Pages that are damaged, or of another version of the library.");
    text += fmt::format("coppice_unreadable_pages {}\n", all.problems.size());
    return text;
}

}  // namespace coppice::show
