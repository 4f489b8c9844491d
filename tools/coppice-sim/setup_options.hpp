// The options that say what is broadcast how, and which ranks fail: shared by the subcommands that run broadcasts.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "network_options.hpp"
#include "protocol/broadcast.hpp"
#include "protocol/gossip.hpp"
#include "protocol/names.hpp"
#include "simulation/batch.hpp"
#include "simulation/faults.hpp"
#include "simulation/simulator.hpp"

namespace coppice::sim {

// What the options came to.
struct Experiment {
    std::string title;  // "lame:2 checked:synchronized"
    std::uint32_t ranks = 0;
    simulation::LogP model{};
    simulation::FaultPlan faults{};
    std::uint64_t bytes = 0;  // of one simulator
    simulation::MakeSimulator make{};
    std::shared_ptr<const simulation::Network> network{};  // or none

    // Where there is a network, positions are not ranks.
    std::uint32_t rank_at(Position position) const { return network ? network->host_at(position) : position.value; }
};

class SetupOptions {
  public:
    void add_to(CLI::App& app);
    void add_faults_to(CLI::App& app);
    void add_network_to(CLI::App& app) { network_.add_to(app); }

    // A sentence if they make no sense.
    tl::expected<Experiment, std::string> experiment();

    std::uint32_t ranks() const { return ranks_; }
    simulation::LogP model() const;
    // The first that was given and is not one of these, of all options of its command; empty: none was.
    std::string given_besides(std::span<const std::string_view> known) const;

    // The options that give the same faults and machines, without seed and number of runs.
    std::string command_line() const;

  private:
    tl::expected<simulation::FaultPlan, std::string> faults() const;
    Position position_of(std::uint32_t rank) const;
    tl::expected<Experiment, std::string> tree_experiment() const;
    tl::expected<Experiment, std::string> placed_experiment(const protocol::CorrectionSpec& correction) const;
    tl::expected<Experiment, std::string> gossip_experiment(std::uint32_t active) const;
    tl::expected<Experiment, std::string> engine_gossip_experiment(const protocol::GossipSpec& spec) const;
    tl::expected<Experiment, std::string> binomial_graph_experiment() const;
    tl::expected<Experiment, std::string> buntinas_experiment() const;

    std::uint32_t ranks_ = 64;
    std::string algorithm_ = "tree";
    std::uint32_t gossip_time_ = 0;
    std::uint32_t hop_ = 0;
    double reliability_ = 0.999999;
    bool as_engine_ = false;
    // What groups take where nobody chooses.
    std::string tree_ = "auto";
    std::string correction_{protocol::kDefaultCorrection};
    std::uint32_t latency_ = 2;
    std::uint32_t overhead_ = 1;
    std::uint32_t gap_ = 0;
    bool one_port_ = false;
    bool one_sided_ = false;
    bool no_check_ = false;
    std::uint32_t correction_start_ = 0;

    std::vector<std::uint32_t> failed_;
    std::uint32_t failed_count_ = 0;
    std::string rate_;
    std::vector<std::string> dying_;
    std::uint32_t dying_count_ = 0;
    std::uint32_t dying_until_ = 64;
    std::string notice_after_;
    NetworkOptions network_;
    std::optional<PlacedRanks> placed_;  // with a network
    const CLI::App* app_ = nullptr;
};

}  // namespace coppice::sim
