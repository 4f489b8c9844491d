// What the figures of PPoPP'19 have in common: L = 2, o = 1, Lamé's k = 2, up to 64K processes, opportunistic
// correction with up to 4 messages in each direction (§4).
#pragma once

#include <array>
#include <string>

#include "reproduce/catalogue.hpp"

namespace coppice::sim {

inline constexpr simulation::LogP kModel{.latency = 2, .overhead = 1};
inline constexpr std::uint32_t kRanks = 65536;

struct TreeName {
    const char* name;
    const char* tree;
};
inline constexpr std::array<TreeName, 4> kTrees{
    {{"binomial", "binomial"}, {"4-ary", "kary:4"}, {"Lamé 2", "lame:2"}, {"optimal", "optimal:1,2"}}};

// Correction as of Figures 1b, 6, 7 and 14.
inline constexpr const char* kChecked = "checked:synchronized";

// Names of series.
inline std::string gaps_of(const std::string& tree) {
    return tree + ", gaps";
}
inline std::string checked(const std::string& tree) {
    return tree + ", checked";
}
inline std::string optimized(const std::string& tree) {
    return tree + ", optimized";
}
inline std::string acknowledged(const std::string& tree) {
    return tree + ", acknowledged";
}

}  // namespace coppice::sim
