#include "simulation/explore/pull_explorer.hpp"

#include <optional>
#include <string>

namespace coppice::simulation {
namespace {

using protocol::FailedSet;
using protocol::Pull;
using protocol::PullKind;
using protocol::PullMessage;
using protocol::PullPlan;
using protocol::PullResult;

bool has(std::uint32_t bits, std::uint32_t rank) {
    return (bits >> rank & 1) != 0;
}

// One rank: its machine, and what it knows.
struct Member {
    Pull machine;
    std::uint32_t known_dead = 0;
    std::uint32_t again = 0;  // chunks that came to this rank although it had them
    std::uint64_t clock = 0;

    void append_state(std::vector<std::uint32_t>& words) const {
        machine.append_state(words);
        words.insert(words.end(), {known_dead, again});
    }
};

constexpr std::uint64_t kChannel = 0xffff'0000'0000'0000U;

// `set`: of the dead that the sender knows.
std::uint64_t encode(const PullMessage& message, std::uint32_t set) {
    return std::uint64_t{message.from.value} << 56 | std::uint64_t{message.to.value} << 48 |
           std::uint64_t{static_cast<std::uint8_t>(message.kind)} << 40 | std::uint64_t{set} << 32 |
           std::uint64_t{message.first} << 16 | message.end;
}

PullMessage decode(std::uint64_t code) {
    const auto part = [code](int shift, std::uint32_t mask) {
        return static_cast<std::uint32_t>(code >> shift & mask);
    };
    return {.kind = static_cast<PullKind>(part(40, 0xff)),
            .from = Rank(part(56, 0xff)),
            .to = Rank(part(48, 0xff)),
            .first = part(16, 0xffff),
            .end = part(0, 0xffff)};
}

bool carries_set(PullKind kind) {
    return kind == PullKind::query || kind == PullKind::denial;
}

class World {
  public:
    World(const PullScenario& scenario, const topology::Nodes& nodes, const PullPlan& plan)
        : scenario_(&scenario),
          crashes_left_(scenario.crashes),
          patience_left_(scenario.patience_is_lost),
          is_sometimes_lost_((scenario.silent | scenario.unaware) != 0 || scenario.patience_is_lost > 0) {
        for (std::uint32_t rank = 0; rank < nodes.ranks(); ++rank)
            members_.emplace_back(Member{.machine = Pull(plan, Rank(rank), Rank(scenario.root), FailedSet())});
        members_[scenario.root].change().machine.hold(scenario.chunks, scenario.fills ? 0 : scenario.chunks);
    }

    void moves(std::vector<Move>& moves) const {
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            if (!is_away(rank)) moves_of(rank, moves);
        }
        for (std::size_t i = 0; i < bag_.size(); ++i) {
            const auto to = static_cast<std::uint8_t>(bag_[i] >> 48);
            const bool is_next = i == 0 || ((bag_[i] ^ bag_[i - 1]) & kChannel) != 0;
            if (is_next && !is_away(to)) moves.push_back({kReceive, to, static_cast<std::uint16_t>(i)});
        }
        const bool is_quiet = std::ranges::none_of(moves, [](const Move& move) { return move.has_to; });
        const bool is_lost_by_force = is_quiet && !has(dead_, scenario_->root) && is_sometimes_lost_;
        if (!is_lost_by_force && patience_left_ == 0) return;
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            if (is_away(rank) || members_[rank]->machine.next_timer() == kNever) continue;
            moves.push_back(
                {kSilence, static_cast<std::uint8_t>(rank), is_lost_by_force ? kForced : kFree, is_lost_by_force});
        }
    }

    void make(const Move& move) {
        switch (move.kind) {
            case kLearn:
                members_[move.rank].change().machine.learn(scenario_->chunks);
                break;
            case kFill: {
                Pull& root = members_[move.rank].change().machine;
                root.hold(scenario_->chunks, root.have() + 1);
                break;
            }
            case kSend:
                send(move.rank);
                break;
            case kReceive:
                receive(move.detail);
                break;
            case kLook:
                look(members_[move.rank].change().machine, move.detail);
                break;
            case kNotice:
                learn_deaths(move.rank, 1U << move.detail);
                break;
            case kSilence: {
                if (move.detail == kFree) --patience_left_;
                Member& member = members_[move.rank].change();
                member.clock = member.machine.next_timer().value;
                send(move.rank);
                break;
            }
            default:
                dead_ |= 1U << move.rank;
                --crashes_left_;
                break;
        }
        if (!scenario_->one_by_one && !is_away(move.rank)) {
            while (send(move.rank)) {
            }
        }
        remove_void_messages();
    }

    std::string describe(const Move& move) const {
        const std::string rank = std::to_string(move.rank);
        switch (move.kind) {
            case kLearn:
                return rank + " learns how many chunks there are";
            case kFill:
                return rank + " fills one chunk more";
            case kSend:
                return rank + " sends";
            case kReceive:
                return rank + " receives " + describe_message(decode(bag_[move.detail]));
            case kLook:
                return rank + " looks what " + std::to_string(move.detail) + " shows";
            case kNotice:
                return rank + " learns that " + std::to_string(move.detail) + " has died";
            case kSilence:
                return rank + " loses patience";
            default:
                return rank + " dies";
        }
    }

    std::string broken() const { return broken_; }

    std::string check() const {
        std::uint32_t complete = 0;
        std::uint32_t told = 0;
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            if (has(dead_, rank)) continue;
            const PullResult result = members_[rank]->machine.result();
            if (result == PullResult::complete) complete |= 1U << rank;
            if (result == PullResult::root_failed) told |= 1U << rank;
        }
        if (told != 0 && !has(dead_, scenario_->root)) return "a rank is told that the root failed, which lives";
        return complete != 0 && told != 0 ? "a live rank has all chunks, and another is told that the root failed" : "";
    }

    std::string check_end() const {
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            if (is_away(rank) || has(scenario_->unaware, rank)) continue;
            const Member& member = *members_[rank];
            const std::string who = "rank " + std::to_string(rank);
            const bool knows = member.machine.chunks() > 0;
            if (member.machine.result() == PullResult::pending && (knows || !has(dead_, scenario_->root)))
                return who + " waits for ever, with " + std::to_string(member.machine.have()) + " chunks";
            if (member.again > scenario_->most_again)
                return who + " got " + std::to_string(member.again) + " chunks again";
        }
        return "";
    }

    std::uint64_t hash() const {
        std::uint64_t hash = mix(std::uint64_t{dead_} << 32 | crashes_left_, patience_left_);
        // What a dead one shows outlives it.
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            const std::uint32_t left = scenario_->shows ? members_[rank]->machine.have() : 0;
            hash = mix(hash, has(dead_, rank) ? 1 + left : members_[rank].hash());
        }
        return hash_bytes(bag_.data(), bag_.size() * sizeof bag_[0], hash);
    }

  private:
    static constexpr std::uint16_t kFree = 0;
    static constexpr std::uint16_t kForced = 1;
    enum Kind : std::uint8_t { kLearn, kFill, kSend, kReceive, kLook, kNotice, kSilence, kCrash };

    static std::string describe_message(const PullMessage& message) {
        return std::string(to_string(message.kind)) + " " + std::to_string(message.first) + " … " +
               std::to_string(message.end) + " from " + std::to_string(message.from.value);
    }

    bool is_away(std::uint32_t rank) const { return has(dead_ | scenario_->silent, rank); }

    // As the broadcast of the descriptor has it: all that live get it, or none of them does.
    bool may_learn(std::uint32_t rank) const {
        if (members_[rank]->machine.chunks() > 0 || has(scenario_->unaware, rank)) return false;
        for (std::uint32_t other = 0; other < members_.size(); ++other)
            if (!has(dead_, other) && members_[other]->machine.chunks() > 0) return true;
        return false;
    }

    // Or finds something out when it is asked for what it sends.
    bool has_to_send(std::uint32_t rank) const {
        Shared<Member> copy = members_[rank];
        return copy.change().machine.next_send(Nanoseconds(copy->clock)).has_value() ||
               copy.hash() != members_[rank].hash();
    }

    void moves_of(std::uint32_t rank, std::vector<Move>& moves) const {
        const auto number = static_cast<std::uint8_t>(rank);
        const Member& member = *members_[rank];
        if (may_learn(rank)) moves.push_back({kLearn, number});
        if (rank == scenario_->root && member.machine.have() < scenario_->chunks) moves.push_back({kFill, number});
        if (const auto watched = watched_by(member)) {
            Shared<Member> copy = members_[rank];
            look(copy.change().machine, watched->value);
            if (copy.hash() != members_[rank].hash())
                moves.push_back({kLook, number, static_cast<std::uint16_t>(watched->value)});
        }
        if (scenario_->one_by_one && has_to_send(rank)) moves.push_back({kSend, number});
        for (std::uint32_t other = 0; other < members_.size(); ++other) {
            if (has(dead_, other) && !has(member.known_dead, other))
                moves.push_back({kNotice, number, static_cast<std::uint16_t>(other)});
        }
        if (crashes_left_ > 0 && has(scenario_->may_crash, rank)) moves.push_back({kCrash, number, 0, false});
    }

    // Without the rule that forbids it also the root, when that is dead.
    std::optional<Rank> watched_by(const Member& member) const {
        if (const auto watched = member.machine.watched()) return watched;
        if ((scenario_->faults & protocol::kTheDeadAreLookedAt) != 0 && member.machine.chunks() > 0)
            return Rank(scenario_->root);
        return std::nullopt;
    }

    void look(Pull& machine, std::uint32_t at) const {
        if (has(scenario_->unshown, at)) return machine.not_shown(Rank(at));
        machine.shown(Rank(at), members_[at]->machine.have());
    }

    void learn_deaths(std::uint32_t rank, std::uint32_t dead) {
        Member& member = members_[rank].change();
        const std::uint32_t news = dead & ~member.known_dead & ~(1U << rank);
        if (const auto watched = member.machine.watched()) look(member.machine, watched->value);
        member.known_dead |= news;
        for (std::uint32_t other = 0; other < members_.size(); ++other)
            if (has(news, other)) member.machine.peer_failed(Rank(other));
    }

    void receive(std::size_t at) {
        const std::uint64_t code = bag_[at];
        const PullMessage message = decode(code);
        bag_.erase(bag_.begin() + static_cast<std::ptrdiff_t>(at));
        if (carries_set(message.kind)) learn_deaths(message.to.value, static_cast<std::uint32_t>(code >> 32 & 0xff));
        Member& member = members_[message.to.value].change();
        if (message.kind == PullKind::chunk && message.first < member.machine.have()) ++member.again;
        if (!member.machine.receive(message))
            broken_ = "refused a message that can occur: " + describe_message(message);
    }

    bool send(std::uint32_t rank) {
        Member& member = members_[rank].change();
        const auto next = member.machine.next_send(Nanoseconds(member.clock));
        if (!next) return false;
        if (next->to == next->from) broken_ = "a rank sends to itself";
        if (next->kind == PullKind::chunk && next->first >= member.machine.have())
            broken_ = "rank " + std::to_string(rank) + " sends a chunk that it does not have";
        const std::uint64_t code = encode(*next, carries_set(next->kind) ? member.known_dead : 0);
        bag_.insert(std::upper_bound(bag_.begin(), bag_.end(), code | ~kChannel), code);
        if (bag_.size() > kMostMessages) broken_ = "more messages under way than can be";
        return broken_.empty();
    }

    void remove_void_messages() {
        std::erase_if(bag_, [this](std::uint64_t code) {
            const PullMessage message = decode(code);
            return has(dead_, message.to.value) || has(members_[message.to.value]->known_dead, message.from.value);
        });
    }

    static constexpr std::size_t kMostMessages = 200;

    const PullScenario* scenario_;
    std::vector<Shared<Member>> members_;
    std::vector<std::uint64_t> bag_;  // by channel
    std::uint32_t dead_ = 0;          // as bits
    std::uint32_t crashes_left_;
    std::uint32_t patience_left_;
    bool is_sometimes_lost_;
    std::string broken_;
};

}  // namespace

WalkResult explore(const PullScenario& scenario) {
    std::vector<std::uint64_t> keys(scenario.node_of.begin(), scenario.node_of.end());
    const topology::Nodes nodes = topology::Nodes::by_host(keys);
    const PullPlan plan{.nodes = &nodes,
                        .credit = scenario.credit,
                        .patience = Nanoseconds(1),
                        .faults = scenario.faults,
                        .shows = scenario.shows};
    return Walk<World>(World(scenario, nodes, plan), scenario.max_states).run();
}

}  // namespace coppice::simulation
