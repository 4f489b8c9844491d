// What the tests that walk every order of events of one machine share.
#ifndef COPPICE_TESTS_PROTOCOL_EVERY_ORDER_HPP
#define COPPICE_TESTS_PROTOCOL_EVERY_ORDER_HPP

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "simulation/explore/walk.hpp"

namespace coppice::simulation {

template <class Scenario>
struct OrdersOf {
    const char* name;
    Scenario scenario;
};

// A walk in which rules of the machine are taken away.
template <class Scenario, class Rules>
struct OrdersWithout {
    const char* name;
    Rules rules;
    Scenario scenario;
};

inline constexpr auto name_of_case = [](const auto& one) { return std::string(one.param.name); };

// Walks to the end; no promise may break. Prints how many states there were.
template <class Scenario>
void expect_kept(const OrdersOf<Scenario>& one) {
    const WalkResult result = explore(one.scenario);
    EXPECT_EQ(text_of(result), "");
    EXPECT_TRUE(result.complete);
    EXPECT_GT(result.ends, 0U);
    std::printf("%s: %llu states, %llu of them ends\n", one.name, static_cast<unsigned long long>(result.states),
                static_cast<unsigned long long>(result.ends));
}

// Walks until a promise breaks, as one must, and prints the shortest way there.
template <class Scenario, class Rules>
void expect_broken(const OrdersWithout<Scenario, Rules>& one) {
    Scenario scenario = one.scenario;
    scenario.faults = one.rules;
    const WalkResult result = explore(scenario);
    EXPECT_NE(result.violation, "");
    std::printf("%s\n", text_of(result).c_str());
}

}  // namespace coppice::simulation

#endif  // COPPICE_TESTS_PROTOCOL_EVERY_ORDER_HPP
