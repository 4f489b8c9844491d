// The promises of coppice.h and README as predicates over what callers were told: docs/promises.md has each beside its
// words.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simulation/promises/history.hpp"

namespace coppice::promises {

struct Violation {
    std::string promise;  // its name
    std::string what;     // what was seen instead
};

struct Promise {
    std::string_view name;
    void (*check)(const History& history, const std::vector<Group>& groups, std::vector<Violation>& found);
};

std::span<const Promise> promises();

std::vector<Violation> check(const History& history, const std::vector<Group>& groups);

}  // namespace coppice::promises
