#include "joined.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace coppice::trace {
namespace {

// Processes of several hosts may have one number: the format knows a process by that alone.
constexpr std::uint64_t kNumbersOfHost = 10'000'000;

}  // namespace

std::string name_of(const Trace& trace) {
    const std::string where = fmt::format("{}, pid {}{}", trace.host, trace.pid, trace.ended ? "" : ", cut off");
    return trace.rank ? fmt::format("rank {} ({})", *trace.rank, where) : where;
}

void join(std::ostream& out, std::vector<Trace>& traces, const Order& order) {
    std::set<std::uint64_t> numbers;
    for (const Trace& trace : traces)
        numbers.insert(trace.pid);
    const bool unique = numbers.size() == traces.size();
    struct Place {
        std::int64_t ns;
        Record* record;
    };
    std::vector<Place> all;
    std::int64_t first_ns = INT64_MAX;
    out << "[";
    const char* between = "\n";
    for (std::size_t i = 0; i < traces.size(); ++i) {
        Trace& trace = traces[i];
        const std::uint64_t number = unique ? trace.pid : trace.pid + kNumbersOfHost * (i + 1);
        for (const auto& [name, key, value] :
             {std::tuple("process_name", "name", Record(name_of(trace))),
              std::tuple("process_sort_index", "sort_index", Record(trace.rank.value_or(UINT32_MAX)))}) {
            const Record facts = {{"ph", "M"}, {"name", name}, {"pid", number}, {"args", {{key, value}}}};
            out << between << facts.dump();
            between = ",\n";
        }
        for (Record& record : trace.records) {
            record["pid"] = number;
            const std::int64_t ns = time_ns(record) + order.clocks[order.clock_of[i]].offset_ns;
            first_ns = std::min(first_ns, ns);
            all.push_back({ns, &record});
        }
    }
    std::ranges::stable_sort(all, {}, &Place::ns);
    for (const Place& place : all) {
        set_time_ns(*place.record, place.ns - first_ns);
        out << between << place.record->dump();
        between = ",\n";
    }
    out << "\n]\n";
    out.flush();
}

}  // namespace coppice::trace
