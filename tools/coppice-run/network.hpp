// What joins the simulated hosts, as the process has it that may change it (cables.cpp): which cables are out, whether the trunk between
// two sides is, and, where hosts are parted in several ways, which bridge each one leads to.
#pragma once

#include <cstdint>
#include <vector>

#include "cables.hpp"

namespace coppice::run {

class Network {
  public:
    explicit Network(const Hosts& hosts);

    // 0 or an errno.
    int carry_out(const Cables::Request& request);
    // Repairs what has lasted until its time; returns when the next one's comes.
    std::uint64_t repair_due();

  private:
    int rearrange();
    int set_trunk(bool up);
    int plug(std::uint32_t host, bool in);

    const Hosts& hosts_;
    std::vector<int> sockets_;  // one in each host's network; −1: none could be had
    std::vector<std::uint64_t> out_until_ns_;
    std::vector<Cables::Parting> partings_;
    std::vector<std::uint32_t> bridge_of_;  // by host
    std::uint32_t bridges_ = 1;
};

}  // namespace coppice::run
