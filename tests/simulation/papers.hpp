// The numbers that the simulator of the papers' authors printed, and the same broadcasts in ours.
#pragma once

#include <string>
#include <vector>

#include "protocol/broadcast.hpp"
#include "simulation/model.hpp"

namespace coppice::simulation::testing {

struct PapersRow {
    std::string text;
    LogP model;
    std::uint32_t processes = 0;
    topology::TreeSpec tree;
    protocol::CorrectionSpec correction;
    bool line = false;  // the ring cut open
    Faults faults;
    std::uint64_t messages = 0;
    Step coloring = 0;
    Step total = 0;
    std::uint32_t reached = 0;
};

std::vector<PapersRow> read_papers(const std::string& file);

// The row's broadcast with our machines, checked; `correction` instead of the row's own if it differs.
Outcome simulate(const PapersRow& row, const protocol::CorrectionSpec& correction, bool line);

}  // namespace coppice::simulation::testing
