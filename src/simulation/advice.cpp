#include "simulation/advice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "protocol/baselines/binomial_graph.hpp"
#include "protocol/gossip_broadcast.hpp"
#include "simulation/broadcast_simulation.hpp"
#include "simulation/gossip_simulation.hpp"
#include "simulation/mortality.hpp"

namespace coppice::simulation {
namespace {

using protocol::CorrectionKind;
using protocol::CorrectionSpec;
using protocol::GossipKind;
using protocol::GossipSpec;

// Beyond this a star takes longer than any tree.
constexpr std::uint32_t kStarUpTo = 64;
// Quiet within this of the fastest is as good as the fastest, and messages decide.
constexpr double kAsFast = 1.05;
constexpr double kHardlyEver = 1e-4;

struct Trial {
    Candidate candidate;
    std::function<tl::expected<std::unique_ptr<Simulator>, std::string>()> make;
    std::uint32_t tolerated_deaths = 0;  // on the way
};

std::vector<topology::TreeSpec> trees_for(const Wishes& wishes) {
    using topology::TreeShape;
    std::vector<topology::TreeSpec> trees{
        {.shape = TreeShape::binomial},
        {.shape = TreeShape::lame, .order = 2},
        {.shape = TreeShape::kary, .order = 4},
        {.shape = TreeShape::optimal, .latency = wishes.model.latency, .overhead = wishes.model.overhead}};
    if (reason_against(trees.back())) trees.pop_back();  // L far larger than o: no table of that size is made
    if (wishes.ranks <= kStarUpTo) trees.push_back({.shape = TreeShape::star});
    return trees;
}

class Adviser {
  public:
    explicit Adviser(const Wishes& wishes) : wishes_(wishes) {
        advice_.dead_share = probability_of_death(wishes.mtbf_hours, wishes.job_hours);
        advice_.expected_dead = advice_.dead_share * wishes.ranks;
        advice_.dead_999 = dead_at_most(wishes.ranks, advice_.dead_share, 0.001);
        advice_.tolerated = protocol::delta_for(wishes.reliability, wishes.broadcasts);
        advice_.binomial_graph_until = ranks_with_log2_failures(wishes.mtbf_hours, wishes.job_hours);
        advice_.first_seed = wishes.first_seed;
        constexpr std::uint64_t kRanksInAll = 1U << 18;
        advice_.runs = wishes.runs != 0 ? wishes.runs : std::clamp<std::uint64_t>(kRanksInAll / wishes.ranks, 1, 200);
    }

    tl::expected<Advice, std::string> advise(const std::function<void(std::size_t, std::size_t)>& progress);

  private:
    void add_trees();
    void add_tree(const topology::Tree& tree, const CorrectionSpec& correction, double unreached_dead);
    tl::expected<void, std::string> add_gossips();
    void add_binomial_graph();
    std::optional<std::string> measure(Trial& trial) const;
    void judge(Trial& trial) const;
    std::uint32_t failures_to_withstand() const;
    std::size_t choose(const std::function<bool(const Candidate&)>& is_meant) const;

    const Wishes& wishes_;
    Advice advice_;
    std::vector<Trial> trials_;
};

// For failure-proof corrections, while a broadcast takes a few times as long as a tree.
std::uint32_t Adviser::failures_to_withstand() const {
    const double hops = 4 * std::log2(static_cast<double>(wishes_.ranks));
    const double seconds = hops * (2.0 * wishes_.model.overhead + wishes_.model.latency) * wishes_.step_seconds;
    std::uint32_t failures = 1;
    while (failures < protocol::kMaxGossipFailures &&
           probability_of_more_deaths(wishes_.ranks, wishes_.mtbf_hours, seconds, failures) > advice_.tolerated)
        ++failures;
    return failures;
}

void Adviser::add_trees() {
    const std::uint32_t failures = failures_to_withstand();
    for (const topology::TreeSpec& spec : trees_for(wishes_)) {
        const topology::Tree tree = topology::Tree::make(spec, wishes_.ranks).value();
        const std::uint32_t distance = distance_for(tree, advice_.dead_share, advice_.tolerated);
        const double unreached = probability_of_unreached(tree, distance, advice_.dead_share);
        add_tree(tree, {.kind = CorrectionKind::opportunistic, .distance = distance}, unreached);
        add_tree(tree, {.kind = CorrectionKind::optimized_opportunistic, .distance = distance}, unreached);
        add_tree(tree, {.kind = CorrectionKind::checked}, 0);
        add_tree(tree, {.kind = CorrectionKind::failure_proof, .failures = failures}, 0);
        add_tree(tree, {.kind = CorrectionKind::none}, probability_of_unreached_by_tree(tree, advice_.dead_share));
    }
}

void Adviser::add_tree(const topology::Tree& tree, const CorrectionSpec& correction, double unreached_dead) {
    Trial trial;
    Candidate& candidate = trial.candidate;
    candidate.tree = to_string(tree.spec());
    candidate.correction = to_string(correction);
    candidate.settings = "COPPICE_TREE=" + candidate.tree + " COPPICE_CORRECTION=" + candidate.correction;
    candidate.unreached_dead = unreached_dead;
    candidate.is_eligible = correction.kind != CorrectionKind::none;
    const bool has_distance =
        correction.kind == CorrectionKind::opportunistic || correction.kind == CorrectionKind::optimized_opportunistic;
    if (has_distance) candidate.distance = correction.distance;
    if (correction.kind == CorrectionKind::failure_proof) trial.tolerated_deaths = correction.failures;
    trial.make = [setup = BroadcastSetup{.processes = wishes_.ranks,
                                         .tree = tree.spec(),
                                         .correction = correction,
                                         .model = wishes_.model}] { return make_simulator(setup); };
    trials_.push_back(std::move(trial));
}

// By time, as the paper has it; processes gossip by rounds, and so the setting says how many.
tl::expected<void, std::string> Adviser::add_gossips() {
    const auto dead = static_cast<std::uint32_t>(std::ceil(advice_.expected_dead));
    const std::uint32_t active = wishes_.ranks - std::min(dead, wishes_.ranks - 1);
    const std::uint32_t failures = failures_to_withstand();
    for (const GossipKind kind :
         {GossipKind::gossip, GossipKind::opportunistic, GossipKind::checked, GossipKind::failure_proof}) {
        GossipSetup setup{.processes = wishes_.ranks,
                          .spec = {.kind = kind, .failures = failures},
                          .delta = advice_.tolerated,
                          .active = active,
                          .model = wishes_.model,
                          .options = {}};
        const auto plan = gossip_plan(setup);
        if (!plan) return tl::unexpected(plan.error());
        setup.spec = plan->spec;
        Trial trial;
        Candidate& candidate = trial.candidate;
        candidate.family = Family::gossip;
        candidate.correction = to_string(plan->spec);
        candidate.gossip_time = plan->spec.limit;
        candidate.is_eligible = kind != GossipKind::gossip;
        if (kind == GossipKind::gossip || kind == GossipKind::opportunistic) {
            const protocol::GossipModel model{wishes_.ranks, active, wishes_.model.latency, wishes_.model.overhead};
            const double reached =
                protocol::expected_reached(model, static_cast<std::uint32_t>(plan->correction_start())).back();
            candidate.distance = plan->spec.corrections;
            candidate.unreached_dead = kind == GossipKind::gossip ? std::max(0.0, active - reached)
                                                                  : protocol::probability_of_longer_gap(
                                                                        wishes_.ranks, reached, plan->spec.corrections);
        }
        if (kind == GossipKind::failure_proof) trial.tolerated_deaths = failures;
        if (candidate.is_eligible) {
            const auto rounds = protocol::make_gossip_broadcast_plan(
                {.kind = kind, .failures = failures}, wishes_.ranks, protocol::kHopRounds, advice_.tolerated);
            if (!rounds) return tl::unexpected(rounds.error());
            const GossipSpec named{
                .kind = kind, .failures = failures, .by_rounds = true, .limit = rounds->gossip.rounds};
            candidate.settings = "COPPICE_ALGORITHM=" + to_string(named);
        }
        trial.make = [setup] { return make_simulator(setup); };
        trials_.push_back(std::move(trial));
    }
    return {};
}

void Adviser::add_binomial_graph() {
    Trial trial;
    Candidate& candidate = trial.candidate;
    candidate.family = Family::binomial_graph;
    candidate.correction = "big";
    const std::uint32_t degree = protocol::BinomialGraph::degree(wishes_.ranks);
    candidate.unreached_dead = probability_of_more_dead(wishes_.ranks, advice_.dead_share, degree - 1);
    candidate.is_eligible = false;
    trial.tolerated_deaths = degree - 1;
    trial.make = [setup = BinomialGraphSetup{wishes_.ranks, wishes_.model, {}}] { return make_simulator(setup); };
    trials_.push_back(std::move(trial));
}

// Runs it with as many dead as there may be at the end of the job, each rank dead or not by itself.
std::optional<std::string> Adviser::measure(Trial& trial) const {
    const auto simulator = trial.make();
    if (!simulator) return simulator.error();
    Candidate& candidate = trial.candidate;
    for (std::uint64_t seed = advice_.first_seed; seed < advice_.first_seed + advice_.runs; ++seed) {
        Random random(seed);
        const Faults faults{.dead = draw_dead(wishes_.ranks, advice_.dead_share, random)};
        const auto outcome = (*simulator)->run(faults, seed);
        if (!outcome) return candidate.name() + ": " + to_string(outcome.error(), 20);
        candidate.coloring += outcome->coloring_latency;
        candidate.quiescence += outcome->quiescence_latency;
        candidate.messages += static_cast<double>(outcome->messages) / wishes_.ranks;
        if (!outcome->unreached.empty()) ++candidate.incomplete;
    }
    const auto runs = static_cast<double>(advice_.runs);
    candidate.coloring /= runs;
    candidate.quiescence /= runs;
    candidate.messages /= runs;
    return std::nullopt;
}

void Adviser::judge(Trial& trial) const {
    Candidate& candidate = trial.candidate;
    const double seconds = candidate.quiescence * wishes_.step_seconds;
    candidate.unreached_dying =
        probability_of_more_deaths(wishes_.ranks, wishes_.mtbf_hours, seconds, trial.tolerated_deaths);
    candidate.is_refuted =
        candidate.incomplete > 0 &&
        probability_of_more_dead(static_cast<std::uint32_t>(advice_.runs), std::min(candidate.unreached(), 1.0),
                                 static_cast<std::uint32_t>(candidate.incomplete - 1)) < kHardlyEver;
    candidate.is_reliable = !candidate.is_refuted && candidate.unreached() <= advice_.tolerated;
}

std::size_t Adviser::choose(const std::function<bool(const Candidate&)>& is_meant) const {
    // Those that are not refuted, if there are any; of them the reliable ones; without any, those that come nearest.
    const bool all_refuted = std::ranges::all_of(advice_.candidates, [&](const Candidate& candidate) {
        return candidate.is_refuted || !candidate.is_eligible || !is_meant(candidate);
    });
    const auto may_be_chosen = [&](const Candidate& candidate) {
        return candidate.is_eligible && is_meant(candidate) && (all_refuted || !candidate.is_refuted);
    };
    double allowed = std::numeric_limits<double>::max();
    for (const Candidate& candidate : advice_.candidates) {
        if (may_be_chosen(candidate)) allowed = std::min(allowed, candidate.unreached());
    }
    allowed = std::max(allowed * kAsFast, advice_.tolerated);
    double fastest = std::numeric_limits<double>::max();
    const auto is_allowed = [&](const Candidate& candidate) {
        return may_be_chosen(candidate) && candidate.unreached() <= allowed;
    };
    for (const Candidate& candidate : advice_.candidates) {
        if (is_allowed(candidate)) fastest = std::min(fastest, candidate.quiescence);
    }
    std::size_t best = advice_.candidates.size();
    for (std::size_t i = 0; i < advice_.candidates.size(); ++i) {
        const Candidate& candidate = advice_.candidates[i];
        if (!is_allowed(candidate) || candidate.quiescence > fastest * kAsFast) continue;
        if (best == advice_.candidates.size() || candidate.messages < advice_.candidates[best].messages) best = i;
    }
    return best;
}

tl::expected<Advice, std::string> Adviser::advise(const std::function<void(std::size_t, std::size_t)>& progress) {
    add_trees();
    if (auto added = add_gossips(); !added) return tl::unexpected(added.error());
    add_binomial_graph();
    for (std::size_t i = 0; i < trials_.size(); ++i) {
        if (auto reason = measure(trials_[i])) return tl::unexpected(*reason);
        judge(trials_[i]);
        advice_.candidates.push_back(trials_[i].candidate);
        progress(i + 1, trials_.size());
    }
    advice_.best = choose([](const Candidate& /*candidate*/) { return true; });
    advice_.best_gossip = choose([](const Candidate& candidate) { return candidate.family == Family::gossip; });
    const double seconds = advice_.recommended().quiescence * wishes_.step_seconds;
    advice_.death_during = probability_of_more_deaths(wishes_.ranks, wishes_.mtbf_hours, seconds, 0);
    advice_.two_deaths_during = probability_of_more_deaths(wishes_.ranks, wishes_.mtbf_hours, seconds, 1);
    if (advice_.recommended().family == Family::tree && advice_.recommended().distance > 1) {
        const auto spec = topology::parse_tree(advice_.recommended().tree).value();
        advice_.shorter_distance = probability_of_unreached(topology::Tree::make(spec, wishes_.ranks).value(),
                                                            advice_.recommended().distance - 1, advice_.dead_share);
    }
    return std::move(advice_);
}

bool is_positive(double value) {
    return std::isfinite(value) && value > 0;
}

}  // namespace

std::optional<std::string> reason_against(const Wishes& wishes) {
    if (wishes.ranks < 2) return "a broadcast takes two ranks at least";
    if (auto reason = reason_against(wishes.model)) return reason;
    if (!is_positive(wishes.step_seconds)) return "a step must last longer than nothing";
    if (!is_positive(wishes.mtbf_hours)) return "the mean time between failures of a rank must be above 0 hours";
    if (!is_positive(wishes.job_hours)) return "the job must last longer than 0 hours";
    if (!(wishes.reliability > 0 && wishes.reliability < 1)) return "the reliability lies between 0 and 1";
    if (!(std::isfinite(wishes.broadcasts) && wishes.broadcasts >= 1)) return "a job has one broadcast at least";
    if (!(protocol::delta_for(wishes.reliability, wishes.broadcasts) > 0)) {
        return "so many broadcasts cannot be that reliable: what each may fail with is too small to be told from 0";
    }
    const double dead = probability_of_death(wishes.mtbf_hours, wishes.job_hours);
    if (dead >= 0.5) {
        return "half of the ranks would be dead at the end of the job: no broadcast is made for that";
    }
    return std::nullopt;
}

std::uint64_t bytes_needed(const Wishes& wishes) {
    const BroadcastSetup tree{
        .processes = wishes.ranks, .correction = {.kind = CorrectionKind::failure_proof}, .model = wishes.model};
    const GossipSetup gossip{
        .processes = wishes.ranks, .spec = {.kind = GossipKind::failure_proof}, .model = wishes.model, .options = {}};
    return std::max(bytes_needed(tree), bytes_needed(gossip));
}

tl::expected<Advice, std::string> advise(const Wishes& wishes,
                                         const std::function<void(std::size_t, std::size_t)>& progress) {
    if (auto reason = reason_against(wishes)) return tl::unexpected(*reason);
    return Adviser(wishes).advise(progress);
}

}  // namespace coppice::simulation
