// Trees for the tests of this room.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topology/tree.hpp"

namespace coppice::topology {

inline Tree tree(const TreeSpec& spec, std::uint32_t processes) {
    auto made = Tree::make(spec, processes);
    if (!made) ADD_FAILURE() << to_string(spec) << " over " << processes << ": " << made.error();
    return std::move(made).value();
}

inline Tree tree(std::string_view name, std::uint32_t processes) {
    const auto spec = parse_tree(name);
    if (!spec) ADD_FAILURE() << spec.error();
    return tree(spec.value(), processes);
}

// Those that Definition 1 holds for.
inline const std::vector<std::string>& interleaved_trees() {
    static const std::vector<std::string> kNames = {
        "kary:2",      "kary:3",      "kary:4",      "binomial",    "lame:2",      "lame:3", "lame:5", "optimal:1,0",
        "optimal:1,1", "optimal:1,2", "optimal:2,4", "optimal:3,3", "optimal:1,5", "chain",  "star"};
    return kNames;
}

inline const std::vector<std::string>& in_order_trees() {
    static const std::vector<std::string> kNames = {"kary:2:inorder",   "kary:3:inorder",     "kary:4:inorder",
                                                    "binomial:inorder", "lame:2:inorder",     "lame:3:inorder",
                                                    "lame:5:inorder",   "optimal:1,2:inorder"};
    return kNames;
}

// Optimal where o does not divide L.
inline const std::vector<std::string>& log_p_trees() {
    static const std::vector<std::string> kNames = {"optimal:2,3", "optimal:2,1", "optimal:3,4",
                                                    "optimal:4,6", "optimal:5,7", "optimal:5,1"};
    return kNames;
}

inline std::vector<std::string> all_trees() {
    std::vector<std::string> names = interleaved_trees();
    for (const auto* more : {&in_order_trees(), &log_p_trees()})
        names.insert(names.end(), more->begin(), more->end());
    for (const char* odd : {"kary:1", "kary:7", "kary:300", "kary:1:inorder", "kary:1:heap", "kary:2:heap",
                            "kary:3:heap", "kary:300:heap", "lame:1", "lame:1:inorder", "lame:40", "lame:1000"}) {
        names.emplace_back(odd);
    }
    return names;
}

inline std::vector<std::uint32_t> children(const Tree& of, std::uint32_t position) {
    std::vector<std::uint32_t> result;
    for (std::uint32_t i = 0; i < of.child_count(Position{position}); ++i) {
        result.push_back(of.child(Position{position}, i).value);
    }
    return result;
}

}  // namespace coppice::topology
