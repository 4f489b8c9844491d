#include "engine/algorithm.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "protocol/names.hpp"

namespace coppice::engine {
namespace {

// How long a member that has the payload waits for others to make themselves known before it sends to everybody. If all do, that
// is P² messages: about as long as those take, within bounds that people do not mind.
Nanoseconds failure_proof_timeout(std::uint64_t positions) {
    return Nanoseconds{std::clamp<std::uint64_t>(positions * positions * 10'000, 1'000'000, 1'000'000'000)};
}

// The equations are to choose the length of a gossip so that it reaches everybody but with this probability.
constexpr double kGossipDelta = 1e-9;

}  // namespace

tl::expected<AlgorithmSpec, std::string> parse_algorithm(std::string_view text) {
    AlgorithmSpec spec;
    if (text == "tree") return spec;
    if (const auto name = text.substr(0, text.find(':')); name == "bfb" || name == "big")
        return tl::unexpected(fmt::format("tree, or gossip; {} {}", name, protocol::kOnlyToCompare));
    spec.algorithm = Algorithm::gossip;
    const auto gossip = protocol::parse_gossip(text);
    if (!gossip) return tl::unexpected("tree, or gossip: " + gossip.error());
    spec.gossip = *gossip;
    // What can be said without knowing the group.
    if (const auto plan = plan_gossip(spec.gossip, 2); !plan) return tl::unexpected(plan.error());
    return spec;
}

std::string to_string(const AlgorithmSpec& spec) {
    switch (spec.algorithm) {
        case Algorithm::tree:
            return "tree";
        case Algorithm::gossip:
            return protocol::to_string(spec.gossip);
    }
    return "?";
}

tl::expected<protocol::BroadcastPlan, std::string> plan_gossip(const protocol::GossipSpec& spec,
                                                               std::uint32_t processes) {
    return protocol::make_gossip_broadcast_plan(spec, processes, protocol::kHopRounds, kGossipDelta);
}

Plan::Plan(Algorithm chosen, const protocol::BroadcastPlan& disseminated)
    : algorithm(chosen), broadcast(disseminated), is_timed(false), is_paced(false) {
    const protocol::CorrectionSpec& correction = broadcast.correction;
    const bool proof = correction.kind == protocol::CorrectionKind::failure_proof;
    if (proof) failure_proof = protocol::make_failure_proof_plan(broadcast, failure_proof_timeout(tree().processes()));
    is_timed = proof || correction.kind == protocol::CorrectionKind::delayed || correction.synchronized;
    is_paced = proof || correction.kind == protocol::CorrectionKind::checked;
}

Plan::Plan(topology::Placement placement, const protocol::CorrectionSpec& correction)
    : algorithm(Algorithm::tree),
      broadcast{*topology::Tree::make({topology::TreeShape::star}, placement.hosts()), correction},
      placed(protocol::make_placed_plan(std::move(placement), correction.distance)),
      is_timed(false),
      is_paced(false) {}

}  // namespace coppice::engine
