#include "simulation/explore/revocation_explorer.hpp"

#include <algorithm>
#include <string>

namespace coppice::simulation {
namespace {

using protocol::Revocation;
using protocol::RevocationKind;
using protocol::RevocationMessage;

bool has(std::uint32_t bits, std::uint32_t rank) {
    return (bits >> rank & 1) != 0;
}

// One rank: its machine, and the word on its page.
struct Member {
    Revocation machine;
    std::uint64_t page = 0;
    std::uint32_t known_dead = 0;
    std::uint32_t known_left = 0;

    void append_state(std::vector<std::uint32_t>& words) const {
        machine.append_state(words);
        words.insert(words.end(), {static_cast<std::uint32_t>(page), static_cast<std::uint32_t>(page >> 32), known_dead,
                                   known_left});
    }
};

class World {
  public:
    World(const RevocationScenario& scenario, const topology::Nodes& nodes)
        : scenario_(&scenario), nodes_(&nodes), crashes_left_(scenario.crashes) {
        for (std::uint32_t rank = 0; rank < nodes.ranks(); ++rank) {
            const bool shares = nodes.members(nodes.node_of(Rank(rank))).size() > 1;
            members_.emplace_back(Member{.machine = Revocation({.nodes = nodes_,
                                                                .shares_memory = shares,
                                                                .farthest = scenario.farthest,
                                                                .faults = scenario.faults},
                                                               Rank(rank))});
        }
    }

    void moves(std::vector<Move>& moves) const {
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            if (takes_part(rank)) moves_of(rank, moves);
        }
        for (std::size_t i = 0; i < bag_.size(); ++i) {
            if (i == 0 || bag_[i] != bag_[i - 1])
                moves.push_back({kReceive, static_cast<std::uint8_t>(to_of(bag_[i])), static_cast<std::uint16_t>(i)});
        }
    }

    void make(const Move& move) {
        const std::uint32_t rank = move.rank;
        switch (move.kind) {
            case kRevoke:
                members_[rank].change().machine.revoke();
                break;
            case kRead:
                read(rank);
                break;
            case kReceive:
                receive(move.detail);
                break;
            case kNotice:
                read(rank);
                members_[rank].change().known_dead |= 1U << move.detail;
                members_[rank].change().machine.peer_failed(Rank(move.detail));
                break;
            case kFarewell:
                read(rank);
                members_[rank].change().known_left |= 1U << move.detail;
                members_[rank].change().machine.peer_left(Rank(move.detail));
                break;
            case kLeave:
                left_ |= 1U << rank;
                break;
            default:
                dead_ |= 1U << rank;
                --crashes_left_;
                break;
        }
        if (takes_part(rank)) round(rank);
        remove_void_messages();
    }

    std::string describe(const Move& move) const {
        const std::string rank = std::to_string(move.rank);
        switch (move.kind) {
            case kRevoke:
                return rank + " revokes the group";
            case kRead:
                return rank + " reads the pages of its node";
            case kReceive:
                return rank + " receives " + (is_answer(bag_[move.detail]) ? "the answer" : "the news") + " from " +
                       std::to_string(from_of(bag_[move.detail]));
            case kNotice:
                return rank + (has(left_, move.detail) ? " takes " : " learns that ") + std::to_string(move.detail) +
                       (has(left_, move.detail) ? ", which has left, for dead" : " has died");
            case kFarewell:
                return rank + " learns that " + std::to_string(move.detail) + " has left";
            case kLeave:
                return rank + " leaves";
            default:
                return rank + " dies";
        }
    }

    std::string broken() const { return broken_; }
    std::string check() const { return ""; }

    std::string check_end() const {
        bool known = left_ != 0;
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank)
            known |= takes_part(rank) && members_[rank]->machine.revoked();
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            const Revocation& machine = members_[rank]->machine;
            if (!takes_part(rank) || (!known && !node_has_said_so(rank))) continue;
            if (!machine.revoked()) return "rank " + std::to_string(rank) + " never learns that the group is revoked";
            if (scenario_->leave) return "rank " + std::to_string(rank) + " can leave only when it loses patience";
        }
        return "";
    }

    std::uint64_t hash() const {
        std::uint64_t hash = mix(std::uint64_t{left_} << 32 | dead_, crashes_left_);
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank)
            hash = mix(hash, takes_part(rank) ? members_[rank].hash() : members_[rank]->page);
        return hash_bytes(bag_.data(), bag_.size() * sizeof bag_[0], hash);
    }

  private:
    enum Kind : std::uint8_t { kRevoke, kRead, kReceive, kNotice, kFarewell, kLeave, kCrash };

    static std::uint32_t from_of(std::uint32_t code) { return code >> 24; }
    static std::uint32_t to_of(std::uint32_t code) { return code >> 16 & 0xff; }
    static bool is_answer(std::uint32_t code) { return (code & 1) != 0; }

    bool takes_part(std::uint32_t rank) const { return !has(dead_ | left_, rank); }
    bool shares_memory(std::uint32_t rank) const { return nodes_->members(nodes_->node_of(Rank(rank))).size() > 1; }

    void moves_of(std::uint32_t rank, std::vector<Move>& moves) const {
        const auto number = static_cast<std::uint8_t>(rank);
        const Member& member = *members_[rank];
        if (has(scenario_->revokers, rank) && !member.machine.revoked()) moves.push_back({kRevoke, number, 0, false});
        if (!member.machine.revoked() && page_says_so(rank)) moves.push_back({kRead, number});
        if (scenario_->leave && may_leave(rank)) moves.push_back({kLeave, number});
        for (std::uint16_t other = 0; other < members_.size(); ++other) {
            if (has(member.known_dead, other)) continue;
            if (has(dead_, other)) moves.push_back({kNotice, number, other});
            if (!has(left_, other)) continue;
            moves.push_back({kNotice, number, other, false});
            if (!has(member.known_left, other)) moves.push_back({kFarewell, number, other});
        }
        if (crashes_left_ > 0) moves.push_back({kCrash, number, 0, false});
    }

    bool may_leave(std::uint32_t rank) const {
        Revocation machine = members_[rank]->machine;
        const std::uint32_t leader = machine.leader();
        return machine.may_leave(Nanoseconds(0), true, members_[leader]->page);
    }

    bool is_page_read(std::uint32_t rank) const {
        return !has(dead_, rank) || (scenario_->faults & protocol::kPagesOfTheDeadAreUnread) == 0;
    }

    bool node_has_said_so(std::uint32_t rank) const {
        const auto local = nodes_->members(nodes_->node_of(Rank(rank)));
        return std::ranges::any_of(local, [this](Rank peer) { return members_[peer.value]->page != 0; });
    }

    bool page_says_so(std::uint32_t rank) const {
        const auto local = nodes_->members(nodes_->node_of(Rank(rank)));
        return std::ranges::any_of(
            local, [this](Rank peer) { return members_[peer.value]->page != 0 && is_page_read(peer.value); });
    }

    void read(std::uint32_t rank) {
        if (!shares_memory(rank)) return;
        for (const Rank peer : nodes_->members(nodes_->node_of(Rank(rank)))) {
            if (peer.value != rank && is_page_read(peer.value))
                members_[rank].change().machine.read(members_[peer.value]->page);
        }
    }

    void receive(std::size_t at) {
        const std::uint32_t code = bag_[at];
        bag_.erase(bag_.begin() + static_cast<std::ptrdiff_t>(at));
        const RevocationMessage message{.kind = is_answer(code) ? RevocationKind::answer : RevocationKind::news,
                                        .from = Rank(from_of(code)),
                                        .to = Rank(to_of(code)),
                                        .revoker = Rank(code >> 8 & 0xff)};
        if (!members_[to_of(code)].change().machine.receive(message)) broken_ = "refused a message that can occur";
    }

    // As an engine does it after every fact: the page first.
    void round(std::uint32_t rank) {
        Member& member = members_[rank].change();
        member.page = member.machine.word();
        while (const auto message = member.machine.next_send()) {
            const std::uint32_t code = message->from.value << 24 | message->to.value << 16 |
                                       message->revoker.value << 8 | static_cast<std::uint32_t>(message->kind);
            const auto place = std::ranges::lower_bound(bag_, code);
            // Where nobody leaves nobody waits for answers either, and to be told twice is to be told.
            const bool is_void = !scenario_->leave && (is_answer(code) || (place != bag_.end() && *place == code));
            if (!is_void) bag_.insert(place, code);
        }
        member.machine.settle(true);
        member.page = member.machine.word();
    }

    void remove_void_messages() {
        std::erase_if(bag_, [this](std::uint32_t code) {
            return !takes_part(to_of(code)) || has(members_[to_of(code)]->known_dead, from_of(code));
        });
    }

    const RevocationScenario* scenario_;
    const topology::Nodes* nodes_;
    std::vector<Shared<Member>> members_;
    std::vector<std::uint32_t> bag_;  // ascending
    std::uint32_t dead_ = 0;          // as bits
    std::uint32_t left_ = 0;
    std::uint32_t crashes_left_;
    std::string broken_;
};

}  // namespace

WalkResult explore(const RevocationScenario& scenario) {
    const std::vector<std::uint64_t> keys(scenario.node_of.begin(), scenario.node_of.end());
    const topology::Nodes nodes = topology::Nodes::by_host(keys);
    return Walk<World>(World(scenario, nodes), scenario.max_states).run();
}

}  // namespace coppice::simulation
