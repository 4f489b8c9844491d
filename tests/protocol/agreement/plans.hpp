// Plans for tests.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>

#include "protocol/agreement/agreement.hpp"

namespace coppice::protocol::testing {

inline AgreementPlan plan_of(const std::string& tree, std::uint32_t ranks, std::uint32_t window = 1) {
    AgreementPlan plan{*AgreementTree::make(*parse_agreement_tree(tree), ranks, nullptr, {})};
    plan.window = window;
    plan.max_value = 16;
    return plan;
}

inline FailedSet set_of(std::initializer_list<std::uint32_t> ranks) {
    FailedSet set;
    for (const std::uint32_t rank : ranks)
        set.insert(rank);
    return set;
}

inline std::uint32_t below(std::mt19937& random, std::uint32_t bound) {
    return static_cast<std::uint32_t>(random() % bound);
}

}  // namespace coppice::protocol::testing
