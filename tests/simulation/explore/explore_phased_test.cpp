// Every schedule of the older agreements in small groups: any ranks die, between any two sends; each of the others is told
// at any time; messages arrive in any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "simulation/explore/phased_agreement.hpp"
#include "simulation/explore/walk.hpp"

namespace coppice::simulation {
namespace {

using protocol::AgreementPlan;
using protocol::AgreementTree;
using protocol::FailedSet;

struct Scenario {
    std::uint32_t ranks = 3;
    std::uint32_t crashes = 1;
    std::uint32_t agreements = 1;
    const char* tree = "binary";
    std::uint32_t phases = 2;
    bool in_order = false;
};

struct Member {
    PhasedAgreement machine;
    std::uint32_t started = 0;
    std::uint32_t known_dead = 0;  // as bits
    std::vector<std::uint64_t> decisions{};

    void append_state(std::vector<std::uint32_t>& words) const {
        machine.append_state(words);
        words.insert(words.end(), {started, known_dead});
        for (const std::uint64_t decision : decisions)
            words.push_back(static_cast<std::uint32_t>(decision));
    }
};

struct UnderWay {
    std::uint32_t from = 0;
    PhasedAgreement::Message message;
    std::vector<std::uint32_t> words{};

    bool same_channel(const UnderWay& other) const { return from == other.from && message.to == other.message.to; }
};

bool has(std::uint32_t bits, std::uint32_t rank) {
    return (bits >> rank & 1) != 0;
}

class World {
  public:
    World(const Scenario& scenario, const AgreementPlan& plan) : scenario_(&scenario), crashes_left_(scenario.crashes) {
        const auto first = PhasedAgreement::first_attempt(plan, {});
        for (std::uint32_t rank = 0; rank < scenario.ranks; ++rank)
            members_.emplace_back(Member{.machine = PhasedAgreement(plan, first, rank, scenario.phases)});
    }

    void moves(std::vector<Move>& moves) const {
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            if (!has(dead_, rank)) moves_of(rank, moves);
        }
        for (std::size_t i = 0; i < bag_.size(); ++i) {
            const bool is_next = i == 0 || (scenario_->in_order ? !bag_[i].same_channel(bag_[i - 1])
                                                                : bag_[i].words != bag_[i - 1].words);
            if (is_next)
                moves.push_back(
                    {kReceive, static_cast<std::uint8_t>(bag_[i].message.to), static_cast<std::uint16_t>(i)});
        }
    }

    void make(const Move& move) {
        if (move.kind == kCrash) {
            dead_ |= 1U << move.rank;
            --crashes_left_;
            std::erase_if(bag_, [this](const UnderWay& each) { return has(dead_, each.message.to); });
            return;
        }
        Member& member = members_[move.rank].change();
        if (move.kind == kStart) {
            ++member.started;
            member.machine.start(std::uint64_t{1} << move.rank);
        } else if (move.kind == kSend) {
            send(move.rank, *member.machine.next_send());
        } else if (move.kind == kReceive) {
            const PhasedAgreement::Message message = bag_[move.detail].message;
            bag_.erase(bag_.begin() + move.detail);
            member.machine.receive(message);
        } else {
            FailedSet dead;
            dead.insert(move.detail);
            member.known_dead |= 1U << move.detail;
            member.machine.peers_failed(dead);
        }
        if (member.machine.decided_count() > member.decisions.size() + 1) broken_ = "two decisions at once";
        if (member.machine.decided_count() > member.decisions.size())
            member.decisions.push_back(member.machine.last_value());
    }

    std::string describe(const Move& move) const {
        const std::string rank = std::to_string(move.rank);
        const std::string detail = std::to_string(move.detail);
        switch (move.kind) {
            case kStart:
                return rank + " contributes";
            case kSend:
                return rank + " sends";
            case kReceive: {
                const PhasedAgreement::Message& message = bag_[move.detail].message;
                return rank + " receives from " + std::to_string(bag_[move.detail].from) + " agreement " +
                       std::to_string(message.agreement) + " attempt " + std::to_string(message.attempt.coordinator) +
                       "." + std::to_string(message.attempt.number) + (message.call ? " call" : "") +
                       (message.down ? " down " : " up ") + std::to_string(message.value);
            }
            case kNotice:
                return rank + " learns that " + detail + " has died";
            default:
                return rank + " dies";
        }
    }

    std::string broken() const { return broken_; }

    std::string check() const {
        for (std::uint32_t agreement = 0; agreement < scenario_->agreements; ++agreement) {
            std::uint64_t seen = 0;
            for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
                if (has(dead_, rank) || members_[rank]->decisions.size() <= agreement) continue;
                const std::uint64_t decision = members_[rank]->decisions[agreement];
                if (seen != 0 && seen != decision) return "live ranks have decided differently";
                if ((~dead_ & all() & ~decision) != 0) return "a decision lacks what a live rank contributed";
                seen = decision;
            }
        }
        return "";
    }

    std::string check_end() const {
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            if (!has(dead_, rank) && members_[rank]->decisions.size() != scenario_->agreements)
                return "rank " + std::to_string(rank) + " waits for ever";
        }
        return "";
    }

    std::uint64_t hash() const {
        std::uint64_t hash = mix(std::uint64_t{dead_} << 32 | crashes_left_);
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank)
            hash = mix(hash, has(dead_, rank) ? 1 : members_[rank].hash());
        for (const UnderWay& each : bag_)
            hash = hash_bytes(each.words.data(), each.words.size() * sizeof each.words[0], hash);
        return hash;
    }

  private:
    enum Kind : std::uint8_t { kStart, kSend, kReceive, kNotice, kCrash };

    std::uint32_t all() const { return (1U << members_.size()) - 1; }

    void moves_of(std::uint32_t rank, std::vector<Move>& moves) const {
        const auto number = static_cast<std::uint8_t>(rank);
        const Member& member = *members_[rank];
        if (member.started == member.decisions.size() && member.started < scenario_->agreements)
            moves.push_back({kStart, number});
        if (member.machine.wants_to_send()) moves.push_back({kSend, number});
        for (std::uint32_t other = 0; other < members_.size(); ++other) {
            if (has(dead_ & ~member.known_dead, other))
                moves.push_back({kNotice, number, static_cast<std::uint16_t>(other)});
        }
        const bool somebody_else_lives = std::popcount(dead_) + 1U < members_.size();
        if (crashes_left_ > 0 && somebody_else_lives) moves.push_back({kCrash, number, 0, false});
    }

    void send(std::uint32_t from, const PhasedAgreement::Message& message) {
        if (has(dead_, message.to)) return;
        UnderWay each{.from = from, .message = message};
        each.words.push_back(from);
        message.append_state(each.words);
        const auto before = [this](const UnderWay& a, const UnderWay& b) {
            if (!scenario_->in_order) return a.words < b.words;
            return std::pair(a.from, a.message.to) < std::pair(b.from, b.message.to);
        };
        bag_.insert(std::ranges::upper_bound(bag_, each, before), each);
    }

    const Scenario* scenario_;
    std::vector<Shared<Member>> members_;
    std::vector<UnderWay> bag_;  // by channel, or by what they say
    std::uint32_t dead_ = 0;     // as bits
    std::uint32_t crashes_left_;
    std::string broken_;
};

void expect_all_hold(const Scenario& scenario) {
    const AgreementPlan plan{
        *AgreementTree::make(*protocol::parse_agreement_tree(scenario.tree), scenario.ranks, nullptr, {})};
    const WalkResult result = Walk<World>(World(scenario, plan), 20'000'000).run();
    EXPECT_EQ(text_of(result), "") << scenario.tree << ", " << scenario.ranks << " ranks";
    EXPECT_TRUE(result.complete);
    EXPECT_GT(result.ends, 0U);
}

TEST(ExplorePhased, TwoPhasesHoldInWhateverOrderMessagesArrive) {
    for (const char* tree : {"binary", "star", "chain"}) {
        expect_all_hold({.ranks = 2, .crashes = 1, .agreements = 3, .tree = tree});
        expect_all_hold({.ranks = 3, .crashes = 2, .agreements = 3, .tree = tree});
        expect_all_hold({.ranks = 4, .crashes = 1, .agreements = 3, .tree = tree});
        expect_all_hold({.ranks = 4, .crashes = 2, .agreements = 2, .tree = tree});
        expect_all_hold({.ranks = 4, .crashes = 3, .agreements = 1, .tree = tree});
        expect_all_hold({.ranks = 5, .crashes = 1, .agreements = 1, .tree = tree});
    }
}

TEST(ExplorePhased, ThreePhasesHoldWhereChannelsKeepTheirOrder) {
    for (const char* tree : {"binary", "star", "chain"}) {
        expect_all_hold({.ranks = 2, .crashes = 1, .agreements = 3, .tree = tree, .phases = 3, .in_order = true});
        expect_all_hold({.ranks = 3, .crashes = 2, .agreements = 3, .tree = tree, .phases = 3, .in_order = true});
        expect_all_hold({.ranks = 4, .crashes = 1, .agreements = 2, .tree = tree, .phases = 3, .in_order = true});
    }
}

}  // namespace
}  // namespace coppice::simulation
