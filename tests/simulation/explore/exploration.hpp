// What tests of the explorer say about its results.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "simulation/explore/agreement_explorer.hpp"

namespace coppice::simulation {

inline std::string text_of(const AgreementExploration& exploration) {
    std::string text = exploration.violation;
    for (const std::string& step : exploration.way)
        text.append("\n  ").append(step);
    return text;
}

inline void expect_all_hold(const AgreementScenario& scenario, const std::string& what) {
    const AgreementExploration exploration = explore(scenario);
    EXPECT_EQ(text_of(exploration), "") << what;
    EXPECT_TRUE(exploration.complete);
    EXPECT_GT(exploration.final_states, 0U);
}

}  // namespace coppice::simulation
