// What IPDPS'17 claims of corrected gossip and no other test here is named after: Claim 1, Lemma 4, Figure 8, and the
// example of Figure 4, whose g-nodes are those of Figure 6: 0, 1, 3, 4 and 5.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

#include "any_order.hpp"
#include "protocol/baselines/failure_proof_gossip.hpp"
#include "protocol/baselines/gossip.hpp"

namespace coppice::protocol::testing {
namespace {

constexpr auto kGossip = GossipMessageKind::gossip;
constexpr auto kLeft = GossipMessageKind::correction_left;
constexpr auto kRight = GossipMessageKind::correction_right;

GossipPlan plan_of(std::string_view text, std::uint32_t processes) {
    GossipPlan plan;
    plan.processes = processes;
    plan.spec = *parse_gossip(text);
    plan.latency = 1;
    plan.overhead = 1;
    return plan;
}

// (I) integrity: a member that has the payload got it by a message from one that had it. (II) no duplication: it is
// delivered once, and whatever comes later changes nothing. (Which broadcast a message belongs to is its sequence
// number, the paper's counter: tests/engine/wire_test.cpp and tests/integration.)
TEST(Claim1, OcgProvidesIntegrityAndNoDuplication) {
    for (std::uint32_t seed = 1; seed <= 500; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        GossipPlan plan = plan_of("ocg:1:3:rounds", 2 + static_cast<std::uint32_t>(random() % 40));
        plan.spec.limit = 1 + static_cast<std::uint32_t>(random() % 6);
        AnyOrder<Gossip> world(plan.processes, [&plan, seed](Position self, const FailedSet& failed) {
            return Gossip(plan, self, 0, failed, self.value == 0, seed);
        });
        world.settle(random, false);
        // "sent what it has not", "colored without a payload", "lost its color" are looked for at every event.
        ASSERT_EQ(world.violation(), "");
    }
    const GossipPlan plan = plan_of("ocg:6:3", 30);
    const FailedSet nobody;
    Gossip once(plan, Position{4}, 0, nobody, false, 1);
    Gossip again(plan, Position{4}, 0, nobody, false, 1);
    ASSERT_TRUE(once.receive({kGossip, Position{0}, Position{4}, 0}));
    ASSERT_TRUE(again.receive({kGossip, Position{0}, Position{4}, 0}));
    for (std::uint64_t now = 3; now < 20; ++now) {
        again.receive({now < 8 ? kGossip : kRight, Position{static_cast<std::uint32_t>(now % 3)}, Position{4}, 0});
        EXPECT_EQ(once.next_send(Nanoseconds{now}), again.next_send(Nanoseconds{now})) << now;
        EXPECT_TRUE(again.colored());
    }
}

// "All nodes are reached after 2 correction steps (+L/O+1) but the algorithm exits after 5 steps (+L/O+1), when all
// g-nodes received a message from their closest g-nodes in both directions." A step is a message forward and one
// backward. Nodes 0 and 5 have the gap 6 to 9 between them, and tell each other with their fifth.
TEST(Figure4, TwoStepsReachEverybodyAndFiveEndTheCorrection) {
    const GossipPlan plan = plan_of("ccg:1", 10);
    const std::set<std::uint32_t> g_nodes{0, 1, 3, 4, 5};
    const FailedSet nobody;
    std::vector<Gossip> members;
    for (std::uint32_t self = 0; self < 10; ++self)
        members.emplace_back(plan, Position{self}, 0, nobody, g_nodes.contains(self), 1);
    for (const std::uint32_t self : g_nodes)
        members[self].next_send(Nanoseconds{0});  // its gossip, which reaches a member that knows
    std::map<std::uint64_t, std::vector<GossipMessage>> arriving;
    std::map<std::uint32_t, std::uint64_t> reached;
    std::map<std::uint32_t, std::uint64_t> last;
    const std::uint64_t begin = plan.correction_start();
    for (std::uint64_t now = begin; now < begin + 40; ++now) {
        for (const GossipMessage& message : arriving[now]) {
            ASSERT_TRUE(members[message.to.value].receive(message));
            reached.try_emplace(message.to.value, now);
        }
        for (const std::uint32_t self : g_nodes) {
            const auto message = members[self].next_send(Nanoseconds{now});
            if (!message) continue;
            arriving[now + 3].push_back(*message);
            last[self] = now - begin;
            EXPECT_EQ(message->kind == kRight, (now - begin) % 2 == 0) << "forward, then backward";
        }
    }
    for (std::uint32_t self = 6; self < 10; ++self) {
        EXPECT_TRUE(members[self].colored());
        EXPECT_LE(reached[self], begin + 2 * 2 - 1 + 3) << self;
    }
    // Step 5 is at 8 and 9: node 5 sends forward to node 0, and node 0 backward to node 5, which hears it at 12 and has
    // sent once more meanwhile.
    EXPECT_EQ(last[0], 9U);
    EXPECT_EQ(last[5], 10U);
    for (const std::uint32_t self : {1U, 3U, 4U})
        EXPECT_LT(last[self], 8U);
    for (const std::uint32_t self : g_nodes)
        EXPECT_TRUE(members[self].finished()) << self;
}

// Figure 8: a g-node C between A, B, D and E, and what Equation 5 concludes of it for f = 1: when all begin to correct
// at once nobody needs longer than 4 Ē O + L - 13 O, Ē the longest chain of five g-nodes.
TEST(Figure8, NobodyNeedsLongerThanTheLongestChainOfFiveGNodesAllows) {
    constexpr std::uint32_t kProcesses = 60;
    std::uint64_t nearest = UINT64_MAX;
    for (std::uint32_t seed = 1; seed <= 1000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        const std::uint64_t overhead = 1 + random() % 3;
        const std::uint64_t latency = overhead * (1 + random() % 4);
        std::set<std::uint32_t> at{0};
        for (const auto count = 8 + random() % 20; at.size() < count;)
            at.insert(static_cast<std::uint32_t>(random() % kProcesses));
        const std::vector<std::uint32_t> g_nodes(at.begin(), at.end());
        std::uint32_t longest = 0;
        for (std::size_t i = 0; i < g_nodes.size(); ++i) {
            const std::uint32_t end = g_nodes[(i + 4) % g_nodes.size()];
            longest = std::max(longest, (end + kProcesses - g_nodes[i]) % kProcesses + 1);
        }
        const FailureProofSettings settings{kProcesses, 1, Nanoseconds{1000000}, Nanoseconds{overhead}};
        const FailedSet nobody;
        std::vector<FailureProofCorrection> members;
        for (std::uint32_t self = 0; self < kProcesses; ++self)
            members.emplace_back(settings, Position{self}, 0, nobody);
        for (const std::uint32_t self : g_nodes) {
            members[self].join();
            members[self].start();
        }
        const std::uint64_t bound = 4 * longest * overhead + latency - 13 * overhead;
        std::map<std::uint64_t, std::vector<FailureProofMessage>> arriving;
        std::uint64_t last = 0;  // when the last send is over
        for (std::uint64_t now = 0; now <= 2 * bound; now += overhead) {
            for (const FailureProofMessage& message : arriving[now])
                ASSERT_TRUE(members[message.to.value].receive(message));
            for (std::uint32_t self = 0; self < kProcesses; ++self) {
                const auto message = members[self].next_send(Nanoseconds{now});
                if (!message) continue;
                arriving[now + 2 * overhead + latency].push_back(*message);
                last = now + overhead;
            }
        }
        for (const FailureProofCorrection& member : members)
            ASSERT_TRUE(member.finished() && !member.is_sos());
        ASSERT_LE(last, bound);
        nearest = std::min(nearest, (bound - last) / overhead);
    }
    EXPECT_LE(nearest, 10U);  // it is no idle bound
}

// A group in which nobody ever calls for help, because time stands still: messages arrive in any order, up to f die.
class WithoutSos {
  public:
    WithoutSos(const FailureProofGossipPlan& plan, std::uint64_t seed) : plan_(plan), dead_(size(), false) {
        for (std::uint32_t self = 0; self < size(); ++self)
            members_.emplace_back(plan, Position{self}, 0, nobody_, self == 0, seed);
    }

    void play(std::mt19937& random, std::uint32_t deaths) {
        for (std::uint32_t idle = 0; idle < 4 * size() || !bag_.empty();) {
            const auto self = static_cast<std::uint32_t>(random() % size());
            ++idle;
            if (const auto message = dead_[self] ? std::nullopt : members_[self].next_send(Nanoseconds{0})) {
                bag_.push_back(*message);
                idle = 0;
            }
            if (!bag_.empty() && random() % 2 == 0) deliver(random() % bag_.size());
            if (deaths > 0 && random() % (8 * size()) == 0) {
                --deaths;
                dead_[random() % size()] = true;
            }
        }
    }

    // g-nodes that live on, and how many others the least and the best informed of them has heard of in a direction.
    void look(bool forward, std::size_t& least, std::size_t& most) const {
        least = SIZE_MAX;
        most = 0;
        for (std::uint32_t self = 0; self < size(); ++self) {
            if (dead_[self] || !members_[self].gossiped()) continue;
            const auto& heard = forward ? heard_forward_ : heard_backward_;
            const auto found = heard.find(self);
            const std::size_t known = found == heard.end() ? 0 : found->second.size();
            least = std::min(least, known);
            most = std::max(most, known);
        }
    }
    bool any_sos() const {
        bool any = false;
        for (const FailureProofGossip& member : members_)
            any |= member.is_sos();
        return any;
    }

  private:
    std::uint32_t size() const { return plan_.gossip.processes; }

    void deliver(std::size_t index) {
        const FailureProofMessage message = bag_[index];
        bag_[index] = bag_.back();
        bag_.pop_back();
        const std::uint32_t self = message.to.value;
        if (dead_[self]) return;
        members_[self].receive(message);
        if (!is_correction(message.kind)) return;
        std::set<std::uint32_t>& heard =
            (message.kind == FailureProofKind::correction_left ? heard_forward_ : heard_backward_)[self];
        heard.insert(message.from.value);
        for (std::uint8_t i = 0; i < message.known_count; ++i)
            heard.insert(message.known[i].value);
        heard.erase(self);
    }

    const FailureProofGossipPlan& plan_;
    FailedSet nobody_;
    std::vector<FailureProofGossip> members_;
    std::vector<bool> dead_;
    std::vector<FailureProofMessage> bag_;
    std::map<std::uint32_t, std::set<std::uint32_t>> heard_forward_;  // of those in front, by backward messages
    std::map<std::uint32_t, std::set<std::uint32_t>> heard_backward_;
};

// "If the SOS protocol is disabled, if any r-node receives information about f other g-nodes in one direction, then all
// r-nodes will receive information about f + 1 g-nodes in that direction." As in Algorithm 3, line 24, the final round
// begins with f + 1 of them.
TEST(Lemma4, WhatOneLearnsOfOneSideAllLearn) {
    std::uint32_t applied = 0;
    for (std::uint32_t seed = 1; seed <= 2000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        FailureProofGossipPlan plan;
        plan.gossip = plan_of("fcg:1:6:rounds", 8 + static_cast<std::uint32_t>(random() % 20));
        plan.gossip.spec.failures = 1 + seed % 2;
        plan.correction.processes = plan.gossip.processes;
        plan.correction.failures = plan.gossip.spec.failures;
        plan.correction.timeout = Nanoseconds{1000};
        WithoutSos group(plan, seed);
        group.play(random, seed % 3 == 0 ? 0 : plan.correction.failures);
        if (group.any_sos()) continue;  // somebody came round to itself
        for (const bool forward : {false, true}) {
            std::size_t least = 0;
            std::size_t most = 0;
            group.look(forward, least, most);
            if (most < plan.correction.failures + 1) continue;
            ++applied;
            ASSERT_GE(least, plan.correction.failures + 1) << (forward ? "forward" : "backward");
        }
    }
    EXPECT_GT(applied, 1000U);
}

}  // namespace
}  // namespace coppice::protocol::testing
