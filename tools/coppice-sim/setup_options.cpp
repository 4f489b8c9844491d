#include "setup_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "joined.hpp"
#include "protocol/baselines/names.hpp"
#include "protocol/gossip_broadcast.hpp"
#include "simulation/broadcast_simulation.hpp"
#include "simulation/buntinas_simulation.hpp"
#include "simulation/gossip_simulation.hpp"
#include "simulation/placed_simulation.hpp"
#include "topology/number.hpp"
#include "topology/switch_path.hpp"

namespace coppice::sim {
namespace {

constexpr const char* kBothWays = "big:both";

// "auto" is what groups take among so many; "optimal" without numbers is optimal for the model at hand.
tl::expected<topology::TreeSpec, std::string> tree_named(const std::string& tree, std::uint32_t positions,
                                                         const simulation::LogP& model) {
    if (tree == "auto") return topology::automatic_tree(positions);
    if (tree != "optimal" && tree != "optimal:inorder") return topology::parse_tree(tree);
    return topology::parse_tree(fmt::format("optimal:{},{}{}", model.overhead, model.latency, tree.substr(7)));
}

}  // namespace

void SetupOptions::add_to(CLI::App& app) {
    app_ = &app;
    app.add_option("--ranks,-P", ranks_, "how many ranks")->capture_default_str()->check(CLI::Range(1U, kMaxProcesses));
    app.add_option("--algorithm", algorithm_,
                   fmt::format("tree, with --tree and --correction; big, the binomial graph (big:both: both ways); "
                               "bfb, Buntinas' broadcast, "
                               "which needs --notice-after; or gossip: {}",
                               joined(protocol::baselines::known_gossips(), ", ")))
        ->capture_default_str();
    app.add_option(
           "--tree", tree_,
           fmt::format("auto, what groups take: a star up to 16 ranks, beyond that binomial; or {}; with :inorder "
                       "for in-order numbering, kary also with :heap",
                       joined(topology::known_trees(), ", ")))
        ->capture_default_str();
    app.add_option("--correction", correction_,
                   fmt::format("{}; those of papers to compare with. If none is given, what groups take",
                               joined(protocol::baselines::known_corrections(), ", ")))
        ->capture_default_str();
    app.add_option("--gossip-time", gossip_time_,
                   "T: steps (or rounds) that gossip lasts, if not given with --algorithm");
    app.add_option("--reliability", reliability_,
                   "what of gossip is not given is chosen so that, with this probability, all goes as foreseen")
        ->capture_default_str();
    app.add_option("--hop", hop_, "gossip by rounds: how many rounds a hop costs")->capture_default_str();
    app.add_flag(
        "--as-engine", as_engine_,
        "gossip by rounds as groups of processes run it: as a broadcast's dissemination, with its corrections");
    app.add_option("--latency,-L", latency_, "L: steps on the wire")->capture_default_str();
    app.add_option("--overhead,-o", overhead_, "o: steps that a send takes its sender, and its receiver")
        ->capture_default_str();
    app.add_option("--gap,-g", gap_, "g: steps between two sends of a rank, if more than o");
    app.add_flag("--one-port", one_port_, "a rank sends or receives, not both at once");
    app.add_flag("--one-sided", one_sided_, "ring messages cost their receivers nothing, as RDMA writes do");
    app.add_option(
        "--correction-start", correction_start_,
        "when synchronized correction starts, if not when the dissemination would have ended without faults");
    app.add_flag("--no-check", no_check_, "do not check what the protocol promises");
}

void SetupOptions::add_faults_to(CLI::App& app) {
    app.add_option("--failed", failed_, "these ranks are dead from the start: 3,17,20")->delimiter(',');
    app.add_option("--failed-count", failed_count_, "so many others, drawn by the seed, are dead from the start");
    app.add_option("--faults", rate_, "this share of the ranks but the root is dead from the start: 1%");
    app.add_option("--dying", dying_, "these ranks die at that step: 3@12,17@40")->delimiter(',');
    app.add_option("--dying-count", dying_count_, "so many others die at steps drawn by the seed");
    app.add_option("--dying-until", dying_until_, "the last of those steps")->capture_default_str();
    app.add_option("--notice-after", notice_after_,
                   "every live rank is told of a death so many steps later (default: nobody is told)");
}

tl::expected<simulation::FaultPlan, std::string> SetupOptions::faults() const {
    simulation::FaultPlan plan;
    if (placed_) plan.dead = placed_->dead;
    for (const std::uint32_t rank : failed_)
        plan.dead.push_back(position_of(rank));
    plan.dead_count = failed_count_;
    if (!rate_.empty()) {
        const auto rate = simulation::parse_rate(rate_);
        if (!rate) return tl::unexpected("--faults " + rate.error());
        plan.dead_rate = *rate;
    }
    for (const std::string& death : dying_) {
        const std::size_t at = death.find('@');
        const auto rank = topology::parse_number(std::string_view(death).substr(0, at));
        const auto step =
            at == std::string::npos ? std::nullopt : topology::parse_number(std::string_view(death).substr(at + 1));
        if (!rank || !step) return tl::unexpected("--dying " + death + ": expected RANK@STEP, as in 3@12");
        plan.dying.push_back({position_of(*rank), *step});
    }
    plan.dying_count = dying_count_;
    plan.dying_until = dying_until_;
    if (!notice_after_.empty()) {
        plan.notice_after = topology::parse_number(notice_after_);
        if (!plan.notice_after)
            return tl::unexpected("--notice-after " + notice_after_ + ": expected a number of steps");
    }
    if (auto reason = plan.reason_against(ranks_)) return tl::unexpected(*reason);
    return plan;
}

simulation::LogP SetupOptions::model() const {
    return {
        .latency = latency_, .overhead = overhead_, .gap = gap_, .overlap = !one_port_, .one_sided_ring = one_sided_};
}

std::string SetupOptions::given_besides(std::span<const std::string_view> known) const {
    for (const CLI::Option* option : app_->get_options()) {
        if (option->count() > 0 && std::ranges::find(known, option->get_name()) == known.end())
            return option->get_name();
    }
    return {};
}

// Ranks that are not there keep their number, and are refused by it.
Position SetupOptions::position_of(std::uint32_t rank) const {
    return placed_ && rank < placed_->position_of.size() ? placed_->position_of[rank] : Position{rank};
}

tl::expected<Experiment, std::string> SetupOptions::experiment() {
    const simulation::LogP clock = model();
    if (const auto reason = reason_against(clock)) return tl::unexpected(*reason);
    if (network_.given()) {
        if (algorithm_ != "tree") return tl::unexpected(std::string("--network is for --algorithm tree"));
        if (app_->count("--latency") > 0)
            return tl::unexpected(std::string("with --network, --latencies says what --latency does without"));
        auto placed = network_.place(app_->count("--ranks") > 0 ? std::optional(ranks_) : std::nullopt);
        if (!placed) return tl::unexpected(placed.error());
        placed_ = std::move(*placed);
        ranks_ = static_cast<std::uint32_t>(placed_->sites.size());
    } else if (auto reason = network_.reason_against_none()) {
        return tl::unexpected(*reason);
    }
    const auto plan = faults();
    if (!plan) return tl::unexpected(plan.error());
    const bool is_tree = algorithm_ == "tree";
    for (const char* option : {"--tree", "--correction", "--correction-start"}) {
        if (!is_tree && app_->count(option) > 0)
            return tl::unexpected(fmt::format("{} is for --algorithm tree", option));
    }
    const bool is_gossip = !is_tree && algorithm_ != "big" && algorithm_ != kBothWays && algorithm_ != "bfb";
    for (const char* option : {"--gossip-time", "--reliability", "--hop", "--as-engine"}) {
        if (!is_gossip && app_->count(option) > 0) return tl::unexpected(fmt::format("{} is for gossip", option));
    }

    const std::uint32_t active = ranks_ - std::min(plan->dead_of(ranks_), ranks_ - 1);
    auto experiment = is_tree               ? tree_experiment()
                      : is_gossip           ? gossip_experiment(active)
                      : algorithm_ == "bfb" ? buntinas_experiment()
                                            : binomial_graph_experiment();
    if (!experiment) return experiment;
    experiment->ranks = ranks_;
    experiment->model = clock;
    experiment->faults = *plan;
    return experiment;
}

tl::expected<Experiment, std::string> SetupOptions::tree_experiment() const {
    simulation::BroadcastSetup setup;
    setup.processes = ranks_;
    setup.model = model();
    setup.options.check = !no_check_;
    simulation::LogP farthest = setup.model;
    if (placed_) farthest.latency = placed_->network->times().latency.back();
    const auto tree = tree_named(tree_, ranks_, farthest);
    if (!tree) return tl::unexpected(tree.error());
    setup.tree = placed_ ? tree_for(placed_->kind, *tree) : *tree;
    const auto correction = protocol::baselines::parse_correction(correction_);
    if (!correction) return tl::unexpected(correction.error());
    setup.correction = *correction;
    if (app_->count("--correction-start") > 0) {
        if (!correction->synchronized) {
            return tl::unexpected(std::string("--correction-start is for synchronized corrections"));
        }
        setup.correction_start = correction_start_;
    }
    if (placed_ && placed_->kind == PlacementKind::ours) return placed_experiment(*correction);
    if (placed_) {
        setup.network = placed_->network;
        if (const auto reason = reason_against(setup.tree)) return tl::unexpected(*reason);
    }
    Experiment experiment;
    experiment.title = to_string(setup.tree) + " " + to_string(*correction);
    experiment.bytes = bytes_needed(setup);
    experiment.network = setup.network;
    if (placed_) experiment.title += ", " + placed_->title;
    experiment.make = [setup] { return make_simulator(setup).value(); };
    return experiment;
}

// The tree of trees, and the ring of leaves. "optimal" is optimal for the latency of each level.
tl::expected<Experiment, std::string> SetupOptions::placed_experiment(
    const protocol::CorrectionSpec& correction) const {
    const bool is_none = correction.kind == protocol::CorrectionKind::none;
    // As in a group: by the distance, whichever of the two was named.
    const bool is_known = (correction.kind == protocol::CorrectionKind::opportunistic ||
                           correction.kind == protocol::CorrectionKind::optimized_opportunistic) &&
                          !correction.one_directional && !correction.synchronized;
    if (!is_none && !is_known)
        return tl::unexpected("--placement ours corrects by opportunistic:D or optimized:D, or not at all (none); " +
                              to_string(correction) + " is for the other placements");
    if (one_sided_) return tl::unexpected(std::string("--one-sided is for the other placements than ours"));
    const topology::LevelSizes sizes = topology::level_sizes(placed_->sites);
    const std::array<std::uint32_t, simulation::kNetworkLevels> positions{sizes.hosts, sizes.leaves, sizes.pods};
    std::array<topology::TreeSpec, simulation::kNetworkLevels> trees;
    for (std::size_t level = 0; level < trees.size(); ++level) {
        simulation::LogP clock = model();
        clock.latency = placed_->network->times().latency[level];
        const auto tree = tree_named(tree_, positions[level], clock);
        if (!tree) return tl::unexpected(tree.error());
        trees[level] = *tree;
    }
    std::vector<topology::Site> from_root = placed_->sites;
    std::ranges::rotate(from_root, from_root.begin() + placed_->root);
    auto placement = topology::Placement::make(from_root, {.pods = trees[2], .leaves = trees[1], .hosts = trees[0]});
    if (!placement) return tl::unexpected(placement.error());
    simulation::PlacedSetup setup;
    setup.plan = std::make_shared<protocol::PlacedPlan>(
        protocol::make_placed_plan(std::move(*placement), is_none ? 0 : correction.distance));
    setup.network = placed_->network;
    setup.model = model();
    setup.options.check = !no_check_;
    Experiment experiment;
    experiment.title = tree_ + " " + to_string(correction) + ", " + placed_->title;
    experiment.bytes = bytes_needed(setup);
    experiment.network = setup.network;
    experiment.make = [setup] { return make_simulator(setup).value(); };
    return experiment;
}

tl::expected<Experiment, std::string> SetupOptions::gossip_experiment(std::uint32_t active) const {
    const auto spec = protocol::baselines::parse_gossip(algorithm_);
    if (!spec) return tl::unexpected("--algorithm is tree, big, big:both, bfb, or gossip: " + spec.error());
    simulation::GossipSetup setup;
    setup.processes = ranks_;
    setup.spec = *spec;
    if (app_->count("--gossip-time") > 0) {
        if (spec->limit != 0) return tl::unexpected(algorithm_ + " says already how long to gossip");
        if (gossip_time_ == 0 || gossip_time_ > protocol::kMaxGossipLimit) {
            return tl::unexpected(fmt::format("--gossip-time is 1 to {}", protocol::kMaxGossipLimit));
        }
        setup.spec.limit = gossip_time_;
    }
    if (!(reliability_ > 0 && reliability_ < 1))
        return tl::unexpected(std::string("--reliability lies between 0 and 1"));
    if (as_engine_) return engine_gossip_experiment(setup.spec);
    setup.delta = protocol::delta_for(reliability_, 1);
    setup.active = active;
    if (hop_ != 0 && !spec->by_rounds) return tl::unexpected(std::string("--hop is for gossip by rounds"));
    setup.hop = hop_;
    setup.model = model();
    setup.options.check = !no_check_;
    const auto plan = gossip_plan(setup);
    if (!plan) return tl::unexpected(plan.error());
    Experiment experiment;
    experiment.title = to_string(plan->spec);
    experiment.bytes = bytes_needed(setup);
    experiment.make = [setup] { return make_simulator(setup).value(); };
    return experiment;
}

tl::expected<Experiment, std::string> SetupOptions::engine_gossip_experiment(const protocol::GossipSpec& spec) const {
    const auto plan = protocol::make_gossip_broadcast_plan(spec, ranks_, hop_, protocol::delta_for(reliability_, 1));
    if (!plan) return tl::unexpected(plan.error());
    simulation::BroadcastSetup setup;
    setup.processes = ranks_;
    setup.tree = plan->tree.spec();
    setup.correction = plan->correction;
    setup.gossip = plan->gossip;
    setup.model = model();
    setup.options.check = !no_check_;
    Experiment experiment;
    experiment.title = fmt::format("gossip over {} rounds, {}", plan->gossip.rounds, to_string(plan->correction));
    experiment.bytes = bytes_needed(setup);
    experiment.make = [setup] { return make_simulator(setup).value(); };
    return experiment;
}

tl::expected<Experiment, std::string> SetupOptions::binomial_graph_experiment() const {
    simulation::BinomialGraphSetup setup{ranks_, model(), {}};
    setup.options.check = !no_check_;
    Experiment experiment;
    if (algorithm_ == kBothWays) setup.directions = protocol::BinomialGraph::Directions::both;
    experiment.title = algorithm_;
    experiment.bytes = bytes_needed(setup);
    experiment.make = [setup] { return make_simulator(setup).value(); };
    return experiment;
}

tl::expected<Experiment, std::string> SetupOptions::buntinas_experiment() const {
    simulation::BuntinasSetup setup{ranks_, model(), {}};
    setup.options.check = !no_check_;
    Experiment experiment;
    experiment.title = "bfb";
    experiment.bytes = bytes_needed(setup);
    experiment.make = [setup] { return make_simulator(setup).value(); };
    return experiment;
}

std::string SetupOptions::command_line() const {
    std::string line = fmt::format("--ranks {} --overhead {}", ranks_, overhead_);
    line += network_.given() ? network_.command_line() : fmt::format(" --latency {}", latency_);
    if (algorithm_ == "tree") {
        line += fmt::format(" --tree {} --correction {}", tree_, correction_);
    } else {
        line += fmt::format(" --algorithm {}", algorithm_);
        if (gossip_time_ != 0) line += fmt::format(" --gossip-time {}", gossip_time_);
        if (app_->count("--reliability") > 0) line += fmt::format(" --reliability {}", reliability_);
        if (hop_ != 0) line += fmt::format(" --hop {}", hop_);
        if (as_engine_) line += " --as-engine";
    }
    if (gap_ != 0) line += fmt::format(" --gap {}", gap_);
    if (one_port_) line += " --one-port";
    if (one_sided_) line += " --one-sided";
    if (app_->count("--correction-start") > 0) line += fmt::format(" --correction-start {}", correction_start_);
    if (!failed_.empty()) line += fmt::format(" --failed {}", joined(failed_, ","));
    if (failed_count_ != 0) line += fmt::format(" --failed-count {}", failed_count_);
    if (!rate_.empty()) line += fmt::format(" --faults {}", rate_);
    if (!dying_.empty()) line += fmt::format(" --dying {}", joined(dying_, ","));
    if (dying_count_ != 0) line += fmt::format(" --dying-count {} --dying-until {}", dying_count_, dying_until_);
    if (!notice_after_.empty()) line += fmt::format(" --notice-after {}", notice_after_);
    return line;
}

}  // namespace coppice::sim
