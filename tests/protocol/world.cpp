#include "world.hpp"

#include "topology/ring.hpp"

namespace coppice::protocol::testing {

World::World(const BroadcastPlan& plan, std::uint32_t root_member)
    : plan_(plan), root_member_(root_member), members_(plan.tree.processes()), dead_(plan.tree.processes(), false) {
    for (std::uint32_t position = 0; position < processes(); ++position) {
        Member& member = members_[position];
        member.machine.emplace(plan_, Position{position}, root_member_, member.failed, position == 0);
    }
}

std::uint32_t World::member_of(std::uint32_t position) const {
    return topology::to_member(Position{position}, root_member_, processes());
}

bool World::knows(std::uint32_t position, std::uint32_t dead) const {
    return members_[position].failed.contains(member_of(dead));
}

void World::learn(std::uint32_t position, std::uint32_t dead) {
    Member& member = members_[position];
    if (!member.failed.insert(member_of(dead))) return;
    member.machine->peer_failed(Position{dead});
    check();
}

void World::learn_all(std::uint32_t position) {
    for (std::uint32_t dead = 0; dead < processes(); ++dead) {
        if (dead_[dead]) learn(position, dead);
    }
}

std::optional<Message> World::pull(std::uint32_t position) {
    if (dead_[position]) return std::nullopt;
    Member& member = members_[position];
    const std::optional<Message> message = member.machine->next_send(Nanoseconds{0});
    if (!message) return std::nullopt;
    ++sent_;
    if (message->from.value != position || message->to.value == position || message->to.value >= processes()) {
        violation_ = "a message from or to somebody it can't be";
    }
    if (carries_payload(message->kind) && !member.machine->colored()) violation_ = "sent what it has not";
    if (knows(position, message->to.value)) violation_ = "sent to a member known to have failed";
    const bool carries_set = message->kind == MessageKind::query || message->kind == MessageKind::denial;
    bag_.push_back({*message, carries_set ? member.failed : FailedSet{}});
    return message;
}

std::optional<Message> World::deliver(std::size_t index) {
    const UnderWay arriving = std::move(bag_[index]);
    bag_.erase(bag_.begin() + static_cast<std::ptrdiff_t>(index));
    const std::uint32_t to = arriving.message.to.value;
    if (dead_[to] || knows(to, arriving.message.from.value)) return std::nullopt;
    for (std::uint32_t dead = 0; dead < processes(); ++dead) {
        if (arriving.failed.contains(member_of(dead))) learn(to, dead);
    }
    Broadcast& machine = *members_[to].machine;
    const bool was_colored = machine.colored();
    if (!machine.receive(arriving.message)) violation_ = "refused a message that can occur";
    if (was_colored && !machine.colored()) violation_ = "lost its color";
    if (!was_colored && machine.colored() && !carries_payload(arriving.message.kind)) {
        violation_ = "colored without a payload";
    }
    check();
    return arriving.message;
}

void World::restart(std::uint32_t position) {
    std::erase_if(bag_, [position](const UnderWay& one) { return one.message.to.value == position; });
    Member& member = members_[position];
    const bool has_payload = member.machine->colored();
    member.machine.emplace(plan_, Position{position}, root_member_, member.failed, has_payload);
    for (std::uint32_t other = 0; other < processes(); ++other) {
        if (other != position && !dead_[other]) members_[other].machine->peer_restarted(Position{position});
    }
}

bool World::step(std::mt19937& random, bool detect) {
    // A few tries at something random, then whatever there is.
    for (int tries = 0; tries < 8; ++tries) {
        const auto position = static_cast<std::uint32_t>(random() % processes());
        switch (random() % 4) {
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
    for (std::uint32_t position = 0; detect && position < processes(); ++position) {
        for (std::uint32_t dead = 0; dead < processes(); ++dead) {
            if (dead_[position] || !dead_[dead] || knows(position, dead)) continue;
            learn(position, dead);
            return true;
        }
    }
    return false;
}

void World::settle(std::mt19937& random, bool detect) {
    while (step(random, detect)) {
        if (sent_ > 1000000) {
            violation_ = "messages without end";
            return;
        }
    }
}

void World::check() {
    const CorrectionKind kind = plan_.correction.kind;
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

bool World::all_live_colored() const {
    for (std::uint32_t position = 0; position < processes(); ++position) {
        if (!dead_[position] && !machine(position).colored()) return false;
    }
    return true;
}

bool World::all_live_ended() const {
    for (std::uint32_t position = 0; position < processes(); ++position) {
        if (dead_[position]) continue;
        if (machine(position).result() == BroadcastResult::pending || !machine(position).finished()) return false;
    }
    return true;
}

}  // namespace coppice::protocol::testing
