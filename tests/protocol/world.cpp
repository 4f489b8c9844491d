#include "world.hpp"

#include "topology/ring.hpp"

namespace coppice::protocol::testing {

template <class Machine, class Plan>
BasicWorld<Machine, Plan>::BasicWorld(const Plan& plan, std::uint32_t root_member, std::uint64_t seed)
    : plan_(plan), root_member_(root_member), seed_(seed), members_(processes()), dead_(processes(), false) {
    for (std::uint32_t position = 0; position < processes(); ++position) {
        Member& member = members_[position];
        member.machine.emplace(plan_, Position{position}, root_member_, member.failed, position == 0, seed_);
    }
}

template <class Machine, class Plan>
std::uint32_t BasicWorld<Machine, Plan>::member_of(std::uint32_t position) const {
    return topology::to_member(Position{position}, root_member_, processes());
}

template <class Machine, class Plan>
bool BasicWorld<Machine, Plan>::knows(std::uint32_t position, std::uint32_t dead) const {
    return members_[position].failed.contains(member_of(dead));
}

template <class Machine, class Plan>
void BasicWorld<Machine, Plan>::learn(std::uint32_t position, std::uint32_t dead) {
    Member& member = members_[position];
    if (!member.failed.insert(member_of(dead))) return;
    member.machine->peer_failed(Position{dead});
    check();
}

template <class Machine, class Plan>
void BasicWorld<Machine, Plan>::learn_all(std::uint32_t position) {
    for (std::uint32_t dead = 0; dead < processes(); ++dead) {
        if (dead_[dead]) learn(position, dead);
    }
}

template <class Machine, class Plan>
std::optional<typename Machine::Message> BasicWorld<Machine, Plan>::pull(std::uint32_t position) {
    if (dead_[position]) return std::nullopt;
    Member& member = members_[position];
    const std::optional<Message> message = member.machine->next_send(member.now);
    if (!message) return std::nullopt;
    ++sent_;
    if (message->from.value != position || message->to.value == position || message->to.value >= processes()) {
        violation_ = "a message from or to somebody it can't be";
    }
    if (carries_payload(message->kind) && !member.machine->colored()) violation_ = "sent what it has not";
    if (knows(position, message->to.value)) violation_ = "sent to a member known to have failed";
    const bool carries_set =
        message->kind == decltype(message->kind)::query || message->kind == decltype(message->kind)::denial;
    bag_.push_back({*message, carries_set ? member.failed : FailedSet{}});
    return message;
}

template <class Machine, class Plan>
std::optional<typename Machine::Message> BasicWorld<Machine, Plan>::deliver(std::size_t index) {
    const UnderWay arriving = std::move(bag_[index]);
    bag_.erase(bag_.begin() + static_cast<std::ptrdiff_t>(index));
    const std::uint32_t to = arriving.message.to.value;
    if (dead_[to] || knows(to, arriving.message.from.value)) return std::nullopt;
    for (std::uint32_t dead = 0; dead < processes(); ++dead) {
        if (arriving.failed.contains(member_of(dead))) learn(to, dead);
    }
    Machine& machine = *members_[to].machine;
    const bool was_colored = machine.colored();
    if (!machine.receive(arriving.message)) violation_ = "refused a message that can occur";
    if (was_colored && !machine.colored()) violation_ = "lost its color";
    if (!was_colored && machine.colored() && !carries_payload(arriving.message.kind)) {
        violation_ = "colored without a payload";
    }
    check();
    return arriving.message;
}

template <class Machine, class Plan>
bool BasicWorld<Machine, Plan>::pass_time(std::uint32_t position) {
    Member& member = members_[position];
    const Nanoseconds timer = member.machine->next_timer();
    if (dead_[position] || timer == kNever || timer <= member.now) return false;
    member.now = timer;
    return true;
}

template <class Machine, class Plan>
void BasicWorld<Machine, Plan>::set_time(std::uint64_t now) {
    for (Member& member : members_)
        member.now = Nanoseconds{now};
}

template <class Machine, class Plan>
Nanoseconds BasicWorld<Machine, Plan>::next_timer() const {
    Nanoseconds earliest = kNever;
    for (std::uint32_t position = 0; position < processes(); ++position) {
        if (!dead_[position]) earliest = std::min(earliest, machine(position).next_timer());
    }
    return earliest;
}

template <class Machine, class Plan>
void BasicWorld<Machine, Plan>::restart(std::uint32_t position) {
    std::erase_if(bag_, [position](const UnderWay& one) { return one.message.to.value == position; });
    Member& member = members_[position];
    const bool has_payload = member.machine->colored();
    member.machine.emplace(plan_, Position{position}, root_member_, member.failed, has_payload, seed_);
    for (std::uint32_t other = 0; other < processes(); ++other) {
        if (other != position && !dead_[other]) members_[other].machine->peer_restarted(Position{position});
    }
}

template <class Machine, class Plan>
bool BasicWorld<Machine, Plan>::step(std::mt19937& random, bool detect) {
    // A few tries at something random, then whatever there is.
    for (int tries = 0; tries < 8; ++tries) {
        const auto position = static_cast<std::uint32_t>(random() % processes());
        switch (random() % 5) {
            case 0:
            case 1:
                if (pull(position)) return true;
                break;
            case 2:
                if (!bag_.empty()) {
                    deliver(random() % bag_.size());
                    return true;
                }
                break;
            case 3:
                if (random() % 4 == 0 && pass_time(position)) return true;
                break;
            default:
                if (!detect || dead_[position]) break;
                const auto dead = static_cast<std::uint32_t>(random() % processes());
                if (!dead_[dead] || knows(position, dead)) break;
                learn(position, dead);
                return true;
        }
    }
    for (std::uint32_t position = 0; position < processes(); ++position) {
        if (pull(position)) return true;
    }
    if (!bag_.empty()) {
        deliver(random() % bag_.size());
        return true;
    }
    for (std::uint32_t position = 0; position < processes(); ++position) {
        if (pass_time(position)) return true;
    }
    for (std::uint32_t position = 0; detect && position < processes(); ++position) {
        for (std::uint32_t dead = 0; dead < processes(); ++dead) {
            if (dead_[position] || !dead_[dead] || knows(position, dead)) continue;
            learn(position, dead);
            return true;
        }
    }
    return false;
}

template <class Machine, class Plan>
void BasicWorld<Machine, Plan>::settle(std::mt19937& random, bool detect) {
    while (step(random, detect)) {
        if (sent_ > 1000000) {
            violation_ = "messages without end";
            return;
        }
    }
}

template <class Machine, class Plan>
void BasicWorld<Machine, Plan>::check() {
    const CorrectionKind kind = broadcast_plan(plan_).correction.kind;
    if (kind == CorrectionKind::none || kind == CorrectionKind::acknowledged) return;
    bool colored = false;
    bool told = false;
    for (std::uint32_t position = 0; position < processes(); ++position) {
        if (dead_[position]) continue;
        colored |= machine(position).colored();
        told |= machine(position).result() == BroadcastResult::root_failed;
    }
    if (colored && told) violation_ = "a verdict, and a live member with the payload";
}

template <class Machine, class Plan>
bool BasicWorld<Machine, Plan>::all_live_colored() const {
    for (std::uint32_t position = 0; position < processes(); ++position) {
        if (!dead_[position] && !machine(position).colored()) return false;
    }
    return true;
}

template <class Machine, class Plan>
bool BasicWorld<Machine, Plan>::all_live_ended() const {
    for (std::uint32_t position = 0; position < processes(); ++position) {
        if (dead_[position]) continue;
        if (machine(position).result() == BroadcastResult::pending || !machine(position).finished()) return false;
    }
    return true;
}

template class BasicWorld<Broadcast, BroadcastPlan>;
template class BasicWorld<FailureProofBroadcast, FailureProofPlan>;
template class BasicWorld<PlacedBroadcast, PlacedPlan>;

}  // namespace coppice::protocol::testing
