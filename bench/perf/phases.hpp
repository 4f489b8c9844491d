// Operations without a root, whose time is from the last rank's call until the last survivor has returned: a result
// line for all of one phase.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "perf/session.hpp"

namespace perf {

// Prints the line of the measured operations `which`, by all survivors' stamps, and returns its figures; nothing and
// null when there are none. `operations` names their number in the figures. For the lowest survivor only.
nlohmann::json show_phase(Session& session, const std::string& phase, const char* operations, std::uint64_t bytes,
                          std::span<const std::uint64_t> which);

// A rank's part in a measurement of such operations: all `count` of them, one after the other, of which those from
// `warmup` on are stamped. Then, when everybody is there and `has_ended` holds for the ranks that are not known to be
// dead (a report is of survivors: the reporter must know which ranks are none), the lowest survivor calls `report`, and
// writes its figures to `file` unless that is empty.
struct Rounds {
    std::uint64_t warmup = 0;
    std::uint64_t count = 0;
    double for_s = 0;                         // or as many of them as fit into this time
    std::function<void(std::uint64_t)> done;  // is told how many there were, before the report
    std::function<std::optional<Failure>(std::uint64_t number, measure_stamp_t& stamp)> once;
    std::function<bool(std::uint32_t rank)> has_ended;
    std::function<nlohmann::json()> report;
    std::string file;
};
std::optional<Failure> measure_rounds(Session& session, const Rounds& rounds);

// For --out_json.
std::optional<Failure> write_json(const std::string& file, const nlohmann::json& figures);

}  // namespace perf
