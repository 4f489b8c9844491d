// The options that say on which network a broadcast runs, where its hosts stand in tree and ring, and which switches are dead.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "base/words.hpp"
#include "placements.hpp"
#include "simulation/network.hpp"

namespace coppice::sim {

// What the options came to. A rank is a host here.
struct PlacedRanks {
    std::string title{};  // "fattree:64, ours"
    PlacementKind kind = PlacementKind::ranked;
    std::vector<topology::Site> sites{};   // by rank
    std::uint32_t root = 0;                // a rank
    std::vector<std::uint32_t> rank_at{};  // by position
    std::vector<Position> position_of{};   // by rank
    std::vector<Position> dead{};          // under the switches that are dead
    std::shared_ptr<const simulation::Network> network{};
};

class NetworkOptions {
  public:
    void add_to(CLI::App& app);

    bool given() const { return !network_.empty(); }
    // A sentence if they make no sense without a network.
    std::optional<std::string> reason_against_none() const;
    // As many ranks as the network has hosts where `ranks` is nothing.
    tl::expected<PlacedRanks, std::string> place(std::optional<std::uint32_t> ranks) const;
    std::string command_line() const;

  private:
    std::string network_;
    std::string placement_ = "ranked";
    std::string dead_leaf_;
    std::string dead_pod_;
    std::vector<std::uint32_t> latencies_{1, 2, 3};
    std::vector<std::uint32_t> link_gaps_{1, 1};
    std::uint64_t placement_seed_ = 1;
    const CLI::App* app_ = nullptr;
};

}  // namespace coppice::sim
