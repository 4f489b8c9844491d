#include "simulation/explore/stability_explorer.hpp"

#include <optional>
#include <string>

namespace coppice::simulation {
namespace {

using protocol::Stability;
using protocol::StabilityKind;
using protocol::StabilityMessage;
using protocol::StabilityPlan;

bool has(std::uint32_t bits, std::uint32_t rank) {
    return (bits >> rank & 1) != 0;
}

// One rank: its machine, and what stands in its memory for the others of its node.
struct Member {
    Stability machine;
    std::uint32_t consumed = 0;
    std::uint32_t published = 0;  // what it knows to be stable
    std::uint32_t known_dead = 0;
    bool leaves = false;

    void append_state(std::vector<std::uint32_t>& words) const {
        machine.append_state(words);
        words.insert(words.end(), {consumed, published, known_dead, leaves ? 1U : 0U});
    }
};

constexpr std::uint64_t kChannel = 0xffff'0000'0000'0000U;

std::uint64_t encode(const StabilityMessage& message) {
    return std::uint64_t{message.from.value} << 56 | std::uint64_t{message.to.value} << 48 |
           std::uint64_t{static_cast<std::uint8_t>(message.kind)} << 40 | std::uint64_t{message.slowest.value} << 32 |
           (message.count & 0xffff) << 16 | (message.stable & 0xffff);
}

StabilityMessage decode(std::uint64_t code) {
    const auto rank = [code](int shift) { return Rank(static_cast<std::uint32_t>(code >> shift & 0xff)); };
    return {.kind = static_cast<StabilityKind>(code >> 40 & 0xff),
            .from = rank(56),
            .to = rank(48),
            .count = code >> 16 & 0xffff,
            .stable = code & 0xffff,
            .slowest = rank(32)};
}

class World {
  public:
    World(const StabilityScenario& scenario, const topology::Nodes& nodes)
        : scenario_(&scenario), nodes_(&nodes), crashes_left_(scenario.crashes) {
        const StabilityPlan plan{.nodes = nodes_, .window = scenario.window, .faults = scenario.faults};
        for (std::uint32_t rank = 0; rank < nodes.ranks(); ++rank)
            members_.emplace_back(Member{.machine = Stability(plan, Rank(rank)), .consumed = scenario.consumed});
    }

    void moves(std::vector<Move>& moves) const {
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            if (!has(dead_, rank)) moves_of(rank, moves);
        }
        for (std::size_t i = 0; i < bag_.size(); ++i) {
            const bool is_next =
                i == 0 || (scenario_->in_order ? ((bag_[i] ^ bag_[i - 1]) & kChannel) != 0 : bag_[i] != bag_[i - 1]);
            if (is_next) moves.push_back({kReceive, decode_to(bag_[i]), static_cast<std::uint16_t>(i)});
        }
    }

    void make(const Move& move) {
        switch (move.kind) {
            case kConsume:
                ++members_[move.rank].change().consumed;
                round(move.rank);
                break;
            case kLook:
                look(move.rank);
                if (scenario_->in_rounds) round(move.rank);
                break;
            case kAsk:
                ask(move.rank);
                break;
            case kLeave:
                leave(move.rank);
                break;
            case kReceive:
                receive(move.detail);
                round(move.rank);
                break;
            case kNotice:
                notice(move.rank, move.detail);
                round(move.rank);
                break;
            default:
                dead_ |= 1U << move.rank;
                --crashes_left_;
                break;
        }
        remove_void_messages();
    }

    std::string describe(const Move& move) const {
        const std::string rank = std::to_string(move.rank);
        switch (move.kind) {
            case kConsume:
                return rank + " consumes broadcast " + std::to_string(members_[move.rank]->consumed);
            case kLook:
                return rank + " makes progress";
            case kAsk:
                return rank + " is held up, and asks";
            case kLeave:
                return rank + " wants to leave";
            case kReceive:
                return rank + " receives " + describe_message(decode(bag_[move.detail]));
            case kNotice:
                return rank + " learns that " + std::to_string(move.detail) + " has died";
            default:
                return rank + " dies";
        }
    }

    std::string broken() const { return broken_; }

    std::string check() const {
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            for (std::uint32_t other = 0; other < members_.size() && !has(dead_, rank); ++other) {
                const std::uint64_t stable = members_[rank]->machine.stable();
                if (has(dead_, other) || stable <= members_[other]->consumed) continue;
                return "to rank " + std::to_string(rank) + " " + std::to_string(stable) + " are stable, but rank " +
                       std::to_string(other) + " has consumed " + std::to_string(members_[other]->consumed);
            }
        }
        return "";
    }

    std::string check_end() const {
        std::uint32_t least = scenario_->broadcasts;
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            if (!has(dead_, rank)) least = std::min(least, members_[rank]->consumed);
        }
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            if (has(dead_, rank) || has(scenario_->away, rank)) continue;
            if (const std::string wrong = check_end_of(rank, least); !wrong.empty())
                return "rank " + std::to_string(rank) + wrong;
        }
        return "";
    }

    std::uint64_t hash() const {
        std::uint64_t hash = mix(dead_, crashes_left_);
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            // Of the dead only what stands in their memory is left.
            const Member& member = *members_[rank];
            hash = mix(hash, has(dead_, rank) ? std::uint64_t{member.published} << 32 | member.consumed
                                              : members_[rank].hash());
        }
        return hash_bytes(bag_.data(), bag_.size() * sizeof bag_[0], hash);
    }

  private:
    enum Kind : std::uint8_t { kConsume, kLook, kAsk, kLeave, kReceive, kNotice, kCrash };

    static std::uint8_t decode_to(std::uint64_t code) { return static_cast<std::uint8_t>(code >> 48); }

    static std::string describe_message(const StabilityMessage& message) {
        return std::string(to_string(message.kind)) + " from " + std::to_string(message.from.value) + ": count " +
               std::to_string(message.count) + ", stable " + std::to_string(message.stable) + ", slowest " +
               std::to_string(message.slowest.value);
    }

    bool share_node(std::uint32_t a, std::uint32_t b) const { return scenario_->node_of[a] == scenario_->node_of[b]; }

    bool is_held_up(const Member& member) const {
        const std::uint64_t stable = member.machine.stable();
        if (member.leaves) return stable < scenario_->broadcasts;
        return member.consumed == stable + scenario_->window && member.consumed < scenario_->broadcasts;
    }

    std::uint32_t goal(std::uint32_t rank) const {
        return has(scenario_->away, rank) ? scenario_->away_at : scenario_->broadcasts;
    }

    bool may_leave(const Member& member) const {
        return scenario_->flush && !member.leaves && member.consumed == scenario_->broadcasts;
    }

    void moves_of(std::uint32_t rank, std::vector<Move>& moves) const {
        const auto number = static_cast<std::uint8_t>(rank);
        const Member& member = *members_[rank];
        if (member.consumed < goal(rank) && member.consumed < member.machine.stable() + scenario_->window)
            moves.push_back({kConsume, number});
        for (const Kind kind : {kLook, kAsk, kLeave}) {
            if ((kind == kAsk && !is_held_up(member)) || (kind == kLeave && !may_leave(member))) continue;
            if (scenario_->in_rounds && kind != kLook) continue;
            World next = *this;
            next.make({kind, number});
            if (next.members_[rank].hash() != members_[rank].hash() || next.bag_.size() != bag_.size())
                moves.push_back({kind, number});
        }
        for (std::uint32_t other = 0; other < members_.size(); ++other) {
            if (has(dead_, other) && !has(member.known_dead, other))
                moves.push_back({kNotice, number, static_cast<std::uint16_t>(other)});
        }
        if (crashes_left_ > 0) moves.push_back({kCrash, number, 0, false});
    }

    // The lowest rank of the node that is not known here to be dead.
    std::uint32_t leader_of(std::uint32_t rank) const {
        std::uint32_t leader = 0;
        while (!share_node(leader, rank) || has(members_[rank]->known_dead, leader))
            ++leader;
        return leader;
    }

    // As an engine does it in each round.
    void look(std::uint32_t rank) {
        const std::uint32_t leader = leader_of(rank);
        Member& member = members_[rank].change();
        if (leader == rank || nodes_->count() == 1) {
            std::uint32_t slowest = rank;
            std::uint32_t least = member.consumed;
            for (std::uint32_t peer = 0; peer < members_.size(); ++peer) {
                if (peer == rank || !share_node(peer, rank) || has(member.known_dead, peer)) continue;
                if (members_[peer]->consumed >= least) continue;
                least = members_[peer]->consumed;
                slowest = peer;
            }
            member.machine.node_consumed(least, Rank(slowest));
        } else {
            member.machine.learn_stable(std::min(members_[leader]->published, member.consumed));
        }
        pull(member);
        if (leader == rank) member.published = static_cast<std::uint32_t>(member.machine.stable());
    }

    void round(std::uint32_t rank) {
        if (!scenario_->in_rounds) return;
        if (may_leave(*members_[rank])) leave(rank);
        look(rank);
        if (!is_held_up(*members_[rank])) return;
        ask(rank);
        look(rank);
    }

    void ask(std::uint32_t rank) {
        Member& member = members_[rank].change();
        const std::uint64_t wanted = member.leaves ? scenario_->broadcasts : member.machine.stable() + 1;
        member.machine.want(wanted, Nanoseconds(0));
        pull(member);
    }

    void leave(std::uint32_t rank) {
        Member& member = members_[rank].change();
        member.leaves = true;
        member.machine.flush();
    }

    void receive(std::size_t at) {
        const StabilityMessage message = decode(bag_[at]);
        bag_.erase(bag_.begin() + static_cast<std::ptrdiff_t>(at));
        if (!members_[message.to.value].change().machine.receive(message)) {
            broken_ = "refused a message that can occur";
        }
    }

    void notice(std::uint32_t rank, std::uint32_t dead) {
        const bool led = share_node(rank, dead) && leader_of(rank) == dead;
        Member& member = members_[rank].change();
        member.known_dead |= 1U << dead;
        if (led) member.machine.learn_stable(std::min(members_[dead]->published, member.consumed));
        member.machine.peer_failed(Rank(dead));
    }

    void pull(Member& member) {
        while (const auto message = member.machine.next_send()) {
            if (message->to == message->from) broken_ = "a rank sends to itself";
            const std::uint64_t code = encode(*message);
            const auto place = scenario_->in_order ? std::upper_bound(bag_.begin(), bag_.end(), code | ~kChannel)
                                                   : std::lower_bound(bag_.begin(), bag_.end(), code);
            bag_.insert(place, code);
            if (bag_.size() > kMostMessages) {
                broken_ = "more messages under way than can be";
                return;
            }
        }
    }

    void remove_void_messages() {
        std::erase_if(bag_, [this](std::uint64_t code) {
            const StabilityMessage message = decode(code);
            return has(dead_, message.to.value) || has(members_[message.to.value]->known_dead, message.from.value);
        });
    }

    std::string check_end_of(std::uint32_t rank, std::uint32_t least) const {
        const Member& member = *members_[rank];
        const std::uint32_t reach = std::min(scenario_->broadcasts, least + scenario_->window);
        if (member.consumed < reach) {
            return " is held up at " + std::to_string(member.consumed) + " for ever, while " + std::to_string(least) +
                   " are consumed by all";
        }
        if (member.leaves && least == scenario_->broadcasts && member.machine.stable() < least)
            return " never learns that everything is stable";
        if (!scenario_->in_order || !is_held_up(member)) return "";
        const auto holder = member.machine.holder();
        if (!holder) return " is held up, and is never told by which rank";
        if (has(dead_, holder->value) || members_[holder->value]->consumed > least)
            return " is told that rank " + std::to_string(holder->value) + " holds it up, which does not";
        return "";
    }

    static constexpr std::size_t kMostMessages = 200;

    const StabilityScenario* scenario_;
    const topology::Nodes* nodes_;
    std::vector<Shared<Member>> members_;
    std::vector<std::uint64_t> bag_;  // by channel
    std::uint32_t dead_ = 0;          // as bits
    std::uint32_t crashes_left_;
    std::string broken_;
};

}  // namespace

WalkResult explore(const StabilityScenario& scenario) {
    std::vector<std::uint64_t> keys(scenario.node_of.begin(), scenario.node_of.end());
    const topology::Nodes nodes = topology::Nodes::by_host(keys);
    return Walk<World>(World(scenario, nodes), scenario.max_states).run();
}

}  // namespace coppice::simulation
