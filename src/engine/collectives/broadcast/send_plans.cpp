#include "engine/collectives/broadcast/send_plans.hpp"

namespace coppice::engine {

SendPlans::SendPlans(const Plan& plan, const Members& members, const Router& router)
    : plan_(plan), members_(members), router_(router), missed_(members.ranks()) {
    if (!plan.is_tree() || members.nodes() == 1 || !protocol::Schedule::exists_for(plan.broadcast)) return;
    places_.resize(kPlaces);
    for (SendPlan& place : places_)
        place.sends.reserve(protocol::Schedule::kMost);
}

// To work one out takes about as long as a broadcast does. It is done for a root that is asked for twice in a row, so that it
// pays even where more roots take turns than there are places.
const SendPlan* SendPlans::make(Rank root) {
    if (missed_ != root) {
        missed_ = root;
        return nullptr;
    }
    SendPlan& made = places_[root.value & (kPlaces - 1)];
    const Position self = members_.position_of(members_.own_node(), root);
    made.is_made = false;
    if (!made.schedule.make(plan_.broadcast, self)) return nullptr;
    made.root = root;
    made.sends.clear();
    for (std::uint32_t number = 0; made.schedule.has(number); ++number) {
        const protocol::MessageKind kind = made.schedule.kind(number);
        const auto to = members_.leader_for(members_.node_at(made.schedule.to(number), root), root);
        const Link link = to ? router_.to(*to) : Link();
        made.sends.push_back({.link = link,
                              .tag = {Channel::broadcast, kind},
                              .is_write = protocol::is_correction(kind),
                              .crossing = link ? crossing_by(link, *to, members_) : Crossing::host});
    }
    made.machine.emplace(plan_, self, members_.node_of(root).value, members_.failed_nodes(), root == members_.self(),
                         0);
    made.first_from = Rank(members_.ranks());
    made.is_made = true;
    return &made;
}

void SendPlans::note_first(Rank from, const WireHeader& message, const Machine& machine) {
    if (message.detail != 0 || find(Rank(message.root)) == nullptr) return;
    SendPlan& plan = places_[message.root & (kPlaces - 1)];
    plan.first_from = from;
    plan.first_tag = message.tag;
    plan.begun = machine;
}

}  // namespace coppice::engine
