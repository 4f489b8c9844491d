// The RDMA devices of the guest, each of which stands for a host.
#pragma once

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "support/processes.hpp"

namespace coppice::testing {

// rxe-guest names them in COPPICE_RUN_DEVICES.
inline std::vector<std::string> devices() {
    const char* names = std::getenv("COPPICE_RUN_DEVICES");
    std::istringstream list(names == nullptr ? "" : names);
    std::vector<std::string> found;
    for (std::string name; std::getline(list, name, ',');)
        found.push_back(name);
    if (found.empty()) throw CheckFailed("this test runs in a guest: tools/rxe-guest COMMAND");
    return found;
}

}  // namespace coppice::testing
