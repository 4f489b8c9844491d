// Pages of other hosts: this tool there, started by a command such as ssh, writes what it has gathered, and is read here.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "status/gather.hpp"

namespace coppice::show {

struct Elsewhere {
    std::string reach;                 // a command; the host, and then the command to run there, are put behind it
    std::vector<std::string> hosts{};  // to begin with
    std::chrono::milliseconds patience{10'000};
};

// Adds the pages of those hosts, and of all that the pages name, to these and what they name in turn. A host that does not answer, or not in
// time, is a problem.
void add_others(const Elsewhere& elsewhere, Everything& all);

}  // namespace coppice::show
