// From what a user says to what machines need.
#include <algorithm>

#include "protocol/gossip.hpp"
#include "protocol/gossip_broadcast.hpp"

namespace coppice::protocol {
namespace {

tl::expected<GossipTime, std::string> choose(const GossipSpec& spec, const GossipModel& model, double delta,
                                             std::uint32_t hop) {
    if (!spec.by_rounds) return choose_gossip_time(spec.kind, model, delta, spec.failures);
    return choose_gossip_rounds(spec.kind, model.processes, model.active, hop, delta, spec.failures);
}

// Behind a gossip of a given length: as many corrections as the longest gap asks for.
std::uint32_t corrections_behind(const GossipPlan& plan, const GossipModel& model, double delta) {
    const double reached =
        plan.spec.by_rounds
            ? expected_reached_by_rounds(model.processes, model.active, plan.hop, plan.spec.limit + plan.hop).back()
            : expected_reached(model, static_cast<std::uint32_t>(plan.correction_start())).back();
    return longest_gap(model.processes, reached, delta);
}

}  // namespace

tl::expected<GossipPlan, std::string> make_gossip_plan(const GossipSpec& spec, const GossipModel& model, double delta,
                                                       std::uint32_t hop) {
    if (spec.kind == GossipKind::failure_proof && spec.failures > kMaxGossipFailures) {
        return tl::unexpected("failure-proof gossip withstands up to " + std::to_string(kMaxGossipFailures) +
                              " deaths");
    }
    if (hop > kMaxGossipLimit) return tl::unexpected<std::string>("a hop costs up to a million rounds");
    GossipPlan plan;
    plan.processes = model.processes;
    plan.spec = spec;
    plan.latency = model.latency;
    plan.overhead = model.overhead;
    plan.hop = hop;
    if (model.processes == 1) return plan;
    const bool wants_corrections = spec.kind == GossipKind::opportunistic && spec.corrections == 0;
    if (spec.limit != 0 && !wants_corrections) return plan;
    const auto chosen = choose(spec, model, delta, hop);
    if (!chosen) return tl::unexpected(chosen.error());
    if (spec.limit == 0) plan.spec.limit = chosen->time;
    if (wants_corrections) plan.spec.corrections = corrections_behind(plan, model, delta);
    return plan;
}

tl::expected<BroadcastPlan, std::string> make_gossip_broadcast_plan(const GossipSpec& spec, std::uint32_t processes,
                                                                    std::uint32_t hop, double delta) {
    if (spec.kind == GossipKind::gossip)
        return tl::unexpected<std::string>("gos has no correction, and a broadcast of a group's needs one");
    if (spec.limit != 0 && !spec.by_rounds) {
        return tl::unexpected(to_string(spec) +
                              " is a time on a clock that processes do not share: give rounds, as in \"" +
                              to_string(GossipSpec{spec.kind, spec.failures, true, spec.limit, 0}) + "\"");
    }
    auto tree = topology::Tree::make({.shape = topology::TreeShape::star}, processes);
    if (!tree) return tl::unexpected(tree.error());
    GossipSpec rounds = spec;
    rounds.by_rounds = true;
    const auto gossip = make_gossip_plan(rounds, {processes, processes, 1, 1}, delta, hop);
    if (!gossip) return tl::unexpected(gossip.error());

    CorrectionSpec correction;
    if (spec.kind == GossipKind::opportunistic) {
        correction.kind = CorrectionKind::opportunistic;
        correction.distance = std::max(1U, gossip->spec.corrections - gossip->spec.corrections / 2);
    } else if (spec.kind == GossipKind::checked) {
        correction.kind = CorrectionKind::checked;
    } else {
        correction.kind = CorrectionKind::failure_proof;
        correction.failures = spec.failures;
    }
    return BroadcastPlan{std::move(*tree), correction, Nanoseconds{0}, {std::max(1U, gossip->spec.limit), hop}};
}

}  // namespace coppice::protocol
