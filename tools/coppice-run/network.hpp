// What joins the simulated hosts, as the process has it that may change it (cables.cpp): which cables are out, and which bridge
// each one leads to.
#pragma once

#include <cstdint>
#include <vector>

#include "cables.hpp"

namespace coppice::run {

class Network {
  public:
    explicit Network(std::uint32_t hosts) : out_until_ns_(hosts, Cables::kPlugged), bridge_of_(hosts, 0) {}

    // 0 or an errno.
    int carry_out(const Cables::Request& request);
    // Repairs what has lasted until its time; returns when the next one's comes.
    std::uint64_t repair_due();

  private:
    int rearrange();

    std::vector<std::uint64_t> out_until_ns_;
    std::vector<Cables::Parting> partings_;
    std::vector<std::uint32_t> bridge_of_;  // by host
    std::uint32_t bridges_ = 1;
};

}  // namespace coppice::run
