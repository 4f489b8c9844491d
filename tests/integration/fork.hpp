// Programs that start other processes (fork_test.cpp), over whatever connects their ranks in this place.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <tuple>

namespace coppice::testing {

struct Way {
    const char* name;
    int ranks;
    int hosts;  // network namespaces
    const char* environment;
};
inline void PrintTo(const Way& way, std::ostream* out) {
    *out << way.name;
}

// How the ranks are connected, and what fork_rank does.
class Fork : public ::testing::TestWithParam<std::tuple<Way, const char*>> {};

inline std::string name_of(const ::testing::TestParamInfo<std::tuple<Way, const char*>>& info) {
    std::string name = std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param);
    std::erase(name, '-');
    return name;
}

}  // namespace coppice::testing
