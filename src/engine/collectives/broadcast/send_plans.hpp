// What this rank does in each broadcast from one root while nobody has failed: at which position it stands, which messages it
// sends, and over which links. Worked out once for a root and kept, as long as few roots take turns.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/collectives/broadcast/machine.hpp"
#include "engine/core/members.hpp"
#include "engine/router.hpp"
#include "engine/wire/wire.hpp"
#include "protocol/schedule.hpp"

namespace coppice::engine {

// Over what a message to that rank goes by this link.
inline Crossing crossing_by(const Link& link, Rank to, const Members& members) {
    return link.within_host() ? Crossing::host : members.crossing_to(to);
}

struct SendPlan {
    // A message of the schedule; `link` is empty where nothing leads there.
    struct Send {
        Link link;
        Tag tag;
        bool is_write = false;
        Crossing crossing = Crossing::host;
    };

    Rank root;
    bool is_made = false;
    protocol::Schedule schedule;
    std::vector<Send> sends;  // by their numbers in the schedule
    Machine machine;          // as it stands when a broadcast begins: at the root with the payload
    // The message that a broadcast from this root began with here last, and the machine as it stood behind it.
    Rank first_from;  // a rank that there is not: none is known
    Tag first_tag;
    Machine begun;
};

class SendPlans {
  public:
    SendPlans(const Plan& plan, const Members& members, const Router& router);

    // Whether there are any.
    bool exist() const { return !places_.empty(); }
    // The one of that root, if it is there and still holds.
    const SendPlan* find(Rank root) const {
        if (places_.empty() || !members_.failed_ranks().empty()) [[unlikely]]
            return nullptr;
        const SendPlan& place = places_[root.value & (kPlaces - 1)];
        return place.is_made && place.root == root ? &place : nullptr;
    }
    // The same when a broadcast begins: from the second one in a row on it is there, if there can be one.
    const SendPlan* of(Rank root) {
        if (const SendPlan* const found = find(root)) [[likely]]
            return found;
        return !places_.empty() && members_.failed_ranks().empty() ? make(root) : nullptr;
    }

    // The one of that root, where a broadcast began here last with just such a message, as this one does.
    const SendPlan* begun_by(Rank from, const WireHeader& message) const {
        const SendPlan* const plan = find(Rank(message.root));
        const bool is_alike =
            plan != nullptr && plan->first_from == from && plan->first_tag == message.tag && message.detail == 0;
        return is_alike ? plan : nullptr;
    }
    // A broadcast of that root has begun here, without a payload, with this message: where its machine stands behind it.
    void note_first(Rank from, const WireHeader& message, const Machine& machine);

  private:
    static constexpr std::uint32_t kPlaces = 16;  // a power of two

    const SendPlan* make(Rank root);

    const Plan& plan_;
    const Members& members_;
    const Router& router_;
    std::vector<SendPlan> places_;  // a root's is at its number modulo kPlaces
    Rank missed_;                   // the root that was asked for in vain last
};

}  // namespace coppice::engine
