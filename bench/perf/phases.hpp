// Operations without a root, whose time is from the last rank's call until the last survivor has returned: a result line for all
// of one phase.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "perf/session.hpp"

namespace perf {

// Prints the line of the measured operations `which`, by all survivors' stamps, and returns its figures; nothing and null
// when there are none. `operations` names their number in the figures. For the lowest survivor only.
nlohmann::json show_phase(Session& session, const std::string& phase, const char* operations, std::uint64_t bytes,
                          std::span<const std::uint64_t> which);

}  // namespace perf
