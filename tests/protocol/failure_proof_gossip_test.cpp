// Failure-proof corrected gossip: all or none, whichever members die and whenever, while no more than f die on the way.
#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "any_order.hpp"
#include "protocol/baselines/failure_proof_gossip.hpp"

namespace coppice::protocol::testing {
namespace {

static_assert(Machine<FailureProofGossip>);
static_assert(std::is_trivially_copyable_v<FailureProofGossip>);
static_assert(std::has_unique_object_representations_v<FailureProofGossip>);

FailureProofGossipPlan plan_of(std::string_view text, std::uint32_t processes) {
    FailureProofGossipPlan plan;
    plan.gossip.processes = processes;
    plan.gossip.spec = *parse_gossip(text);
    plan.gossip.latency = 2;
    plan.gossip.overhead = 1;
    plan.correction.processes = processes;
    plan.correction.failures = plan.gossip.spec.failures;
    plan.correction.timeout = Nanoseconds{1000};
    return plan;
}

FailureProofMessage gossip(std::uint32_t from, std::uint32_t to, std::uint32_t round) {
    FailureProofMessage message;
    message.kind = FailureProofKind::gossip;
    message.from = Position{from};
    message.to = Position{to};
    message.detail = round;
    return message;
}

FailureProofMessage to_the_right(std::uint32_t from, std::uint32_t to, std::vector<std::uint32_t> known) {
    FailureProofMessage message;
    message.kind = FailureProofKind::correction_right;
    message.from = Position{from};
    message.to = Position{to};
    for (const std::uint32_t one : known)
        message.known[message.known_count++] = Position{one};
    return message;
}

// ---------------------------------------------------------------------------------------------------------- one member

TEST(Algorithm3, GossipsUntilTAndCorrectsFromTPlusLPlusO) {
    const FailureProofGossipPlan plan = plan_of("fcg:1:2", 50);
    const FailedSet nobody;
    FailureProofGossip root(plan, Position{0}, 0, nobody, true, 1);
    EXPECT_EQ(root.next_send(Nanoseconds{0})->kind, FailureProofKind::gossip);
    EXPECT_EQ(root.next_send(Nanoseconds{1})->kind, FailureProofKind::gossip);
    EXPECT_FALSE(root.next_send(Nanoseconds{2}));
    EXPECT_EQ(root.next_timer(), Nanoseconds{5});
    EXPECT_FALSE(root.next_send(Nanoseconds{4}));
    EXPECT_TRUE(is_correction(root.next_send(Nanoseconds{5})->kind));
    EXPECT_FALSE(root.finished());
}

TEST(Algorithm3, ByRoundsTheCorrectionFollowsAtOnce) {
    const FailureProofGossipPlan plan = plan_of("fcg:1:3:rounds", 50);
    const FailedSet nobody;
    FailureProofGossip member(plan, Position{7}, 0, nobody, false, 1);
    ASSERT_TRUE(member.receive(gossip(3, 7, 2)));
    EXPECT_TRUE(member.colored());
    EXPECT_TRUE(member.gossiped());
    const auto first = member.next_send(Nanoseconds{0});
    EXPECT_EQ(first->kind, FailureProofKind::gossip);
    EXPECT_EQ(first->detail, 3U);
    EXPECT_TRUE(is_correction(member.next_send(Nanoseconds{0})->kind));
}

// What a member hears while it still gossips counts for its correction.
TEST(Algorithm3, ByRoundsWhatIsHeardDuringTheGossipIsRemembered) {
    const FailureProofGossipPlan plan = plan_of("fcg:1:1:rounds", 50);
    const FailedSet nobody;
    FailureProofGossip root(plan, Position{0}, 0, nobody, true, 1);
    ASSERT_TRUE(root.receive(to_the_right(48, 0, {45})));
    EXPECT_EQ(root.next_send(Nanoseconds{0})->kind, FailureProofKind::gossip);
    for (int i = 0; i < 2; ++i) {
        const auto next = root.next_send(Nanoseconds{0});
        ASSERT_TRUE(next);
        if (next->kind != FailureProofKind::correction_right) continue;
        // In the final round already: two are known on the left.
        EXPECT_EQ(next->to, Position{1});
        EXPECT_EQ(next->known_count, 2);
        EXPECT_EQ(next->known[0], Position{48});
        EXPECT_EQ(next->known[1], Position{45});
    }
}

TEST(Algorithm3, AMemberReachedByACorrectionIsThroughWhenItKnowsFPlusOne) {
    const FailureProofGossipPlan plan = plan_of("fcg:1:3:rounds", 50);
    const FailedSet nobody;
    FailureProofGossip member(plan, Position{7}, 0, nobody, false, 1);
    ASSERT_TRUE(member.receive(to_the_right(5, 7, {})));
    EXPECT_TRUE(member.colored());
    EXPECT_FALSE(member.next_send(Nanoseconds{0}));
    EXPECT_FALSE(member.finished());
    ASSERT_TRUE(member.receive(to_the_right(5, 7, {2})));
    EXPECT_FALSE(member.next_send(Nanoseconds{0}));
    EXPECT_TRUE(member.finished());
    // Late gossip does not move it any more.
    ASSERT_TRUE(member.receive(gossip(3, 7, 1)));
    EXPECT_FALSE(member.next_send(Nanoseconds{0}));
    EXPECT_TRUE(member.finished());
    EXPECT_FALSE(member.receive(gossip(3, 7, 4)));
}

TEST(Algorithm3, GossipAfterACorrectionMakesItsReceiverTakePart) {
    const FailureProofGossipPlan plan = plan_of("fcg:1:3:rounds", 50);
    const FailedSet nobody;
    FailureProofGossip member(plan, Position{7}, 0, nobody, false, 1);
    ASSERT_TRUE(member.receive(to_the_right(5, 7, {})));
    EXPECT_FALSE(member.next_send(Nanoseconds{0}));
    ASSERT_TRUE(member.receive(gossip(3, 7, 2)));
    EXPECT_EQ(member.next_send(Nanoseconds{0})->kind, FailureProofKind::gossip);
    EXPECT_TRUE(is_correction(member.next_send(Nanoseconds{0})->kind));
}

TEST(Algorithm3, AnSosEndsTheGossip) {
    const FailureProofGossipPlan plan = plan_of("fcg:1:30:rounds", 50);
    const FailedSet nobody;
    FailureProofGossip root(plan, Position{0}, 0, nobody, true, 1);
    FailureProofMessage sos = to_the_right(9, 0, {});
    sos.kind = FailureProofKind::sos;
    ASSERT_TRUE(root.receive(sos));
    int sent = 0;
    while (const auto next = root.next_send(Nanoseconds{0})) {
        EXPECT_EQ(next->kind, FailureProofKind::sos);
        ++sent;
    }
    EXPECT_EQ(sent, 49);
    EXPECT_TRUE(root.is_sos());
    EXPECT_TRUE(root.finished());
    ASSERT_TRUE(root.receive(gossip(3, 0, 1)));
    EXPECT_FALSE(root.next_send(Nanoseconds{0}));
}

TEST(Garbage, IsRefused) {
    const FailureProofGossipPlan plan = plan_of("fcg:1:3:rounds", 10);
    const FailedSet nobody;
    FailureProofGossip member(plan, Position{7}, 0, nobody, false, 1);
    EXPECT_FALSE(member.receive(gossip(7, 7, 1)));
    EXPECT_FALSE(member.receive(gossip(10, 7, 1)));
    EXPECT_FALSE(member.receive(gossip(1, 6, 1)));
    EXPECT_FALSE(member.receive(gossip(1, 7, 0)));
    EXPECT_FALSE(member.receive(gossip(1, 7, 4)));
    FailureProofMessage odd = gossip(1, 7, 1);
    odd.known_count = 1;
    EXPECT_FALSE(member.receive(odd));
    odd = to_the_right(1, 7, {});
    odd.detail = 1;
    EXPECT_FALSE(member.receive(odd));
    odd = to_the_right(1, 7, {3, 4});
    odd.known_count = 4;
    EXPECT_FALSE(member.receive(odd));
    for (const int kind : {0, 3, 5, 6, 7, 9, 255}) {
        odd = gossip(1, 7, 0);
        odd.kind = static_cast<FailureProofKind>(kind);
        EXPECT_FALSE(member.receive(odd)) << kind;
    }
    EXPECT_FALSE(member.colored());
}

// -------------------------------------------------------------------------------------------------------- any order

struct Ends {
    std::uint32_t all = 0;
    std::uint32_t none = 0;
    std::uint32_t with_sos = 0;
};

class Drama {
  public:
    Drama(std::mt19937& random, std::uint32_t seed, std::uint32_t largest)
        : random_(random),
          plan_(plan_of("fcg:1:1:rounds", 3 + static_cast<std::uint32_t>(random() % (largest - 2)))),
          world_(plan_.gossip.processes, [this, seed](Position self, const FailedSet& failed) {
              return FailureProofGossip(plan_, self, 0, failed, self.value == 0, seed);
          }) {
        plan_.correction.failures = plan_.gossip.spec.failures = 1 + static_cast<std::uint32_t>(random() % 3);
        plan_.gossip.spec.limit = 1 + static_cast<std::uint32_t>(random() % 5);
        plan_.gossip.hop = static_cast<std::uint32_t>(random() % 2);
        may_die_ = std::min(plan_.correction.failures, plan_.gossip.processes - 2);
        const std::uint32_t one_in = 1 + static_cast<std::uint32_t>(random() % 8);
        if (random() % 2 != 0) return;
        for (std::uint32_t position = 1; position < world_.processes(); ++position) {
            if (random() % one_in == 0) world_.crash(position);
        }
    }

    AnyOrder<FailureProofGossip>& world() { return world_; }

    void play(bool detect, bool unlimited) {
        const std::uint32_t one_in = 1 + static_cast<std::uint32_t>(random_() % 100);
        do {
            for (std::uint32_t position = 0; position < world_.processes(); ++position)
                anybody_through_ |= world_.machine(position).finished();
            if (random_() % one_in != 0) continue;
            const auto position = static_cast<std::uint32_t>(random_() % world_.processes());
            if (world_.is_dead(position) || (may_die_ == 0 && !unlimited)) continue;
            world_.crash(position);
            if (!unlimited) --may_die_;
        } while (world_.step(random_, detect));
    }

    // All live members have it and are through, or none has it; and if anybody ever was through, dead since or not, all
    // are.
    void check(Ends& ends) const {
        std::uint32_t live = 0;
        std::uint32_t colored = 0;
        std::uint32_t through = 0;
        bool sos = false;
        for (std::uint32_t position = 0; position < world_.processes(); ++position) {
            if (world_.is_dead(position)) continue;
            ++live;
            colored += world_.machine(position).colored() ? 1U : 0U;
            through += world_.machine(position).finished() ? 1U : 0U;
            sos |= world_.machine(position).is_sos();
        }
        ASSERT_EQ(world_.violation(), "");
        ASSERT_TRUE(colored == live || colored == 0);
        ASSERT_EQ(through, colored);
        ASSERT_TRUE(!anybody_through_ || through == live);
        ASSERT_TRUE(world_.is_dead(0) || colored == live);
        (colored == live ? ends.all : ends.none) += 1;
        if (sos) ++ends.with_sos;
    }

  private:
    std::mt19937& random_;
    FailureProofGossipPlan plan_;
    AnyOrder<FailureProofGossip> world_;
    std::uint32_t may_die_ = 0;
    bool anybody_through_ = false;
};

TEST(Claim4, AllOrNoneWithUpToFDeathsOnTheWayAndNobodyTold) {
    Ends ends;
    for (std::uint32_t seed = 1; seed <= 100000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        Drama drama(random, seed, 14);
        if (seed % 3 == 0) drama.world().let_timers_be_early();
        drama.play(false, false);
        drama.check(ends);
        if (HasFatalFailure()) return;
    }
    EXPECT_GT(ends.all, 50000U);
    EXPECT_GT(ends.none, 100U);
    EXPECT_GT(ends.with_sos, 1000U);
}

// Just past the edge the promise does not hold: f = 1, two reached by gossip, and both die once somebody relies on
// them.
TEST(Claim4, OneDeathMoreMayLeaveSomeWithout) {
    std::uint32_t violated = 0;
    for (std::uint32_t seed = 1; seed <= 500; ++seed) {
        std::mt19937 random(seed);
        const FailureProofGossipPlan plan = plan_of("fcg:1:1:rounds", 9);
        AnyOrder<FailureProofGossip> world(9, [&](Position self, const FailedSet& failed) {
            return FailureProofGossip(plan, self, 0, failed, self.value == 0, seed);
        });
        const auto somebody_is_through = [&world] {
            for (std::uint32_t position = 0; position < 9; ++position) {
                if (world.machine(position).finished()) return true;
            }
            return false;
        };
        while (!somebody_is_through())
            ASSERT_TRUE(world.step(random, false));
        for (std::uint32_t position = 0; position < 9; ++position) {
            if (world.machine(position).gossiped()) world.crash(position);
        }
        world.settle(random, false);
        if (!world.all_live_colored()) ++violated;
    }
    EXPECT_GT(violated, 10U);
}

// Beyond the paper: with notices, however many die.
TEST(Notices, AllOrNoneHoweverManyDie) {
    Ends ends;
    for (std::uint32_t seed = 1; seed <= 10000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        Drama drama(random, seed, 12);
        drama.play(true, seed % 2 == 0);
        drama.check(ends);
        if (HasFatalFailure()) return;
    }
    EXPECT_GT(ends.none, 100U);
}

// "No colored node exits the operation before ensuring that either itself or at least one of f + 1 other nodes will
// distribute the message": a member that is through has called everybody, or there are f + 1 others that gossip has
// reached, of which no more than f die.
TEST(Observation1, AMemberThatIsThroughLeavesFPlusOneOthersThatCarryOnOrHasSentToAll) {
    std::uint32_t without_sos = 0;
    for (std::uint32_t seed = 1; seed <= 2000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        const std::uint32_t failures = 1 + seed % 3;
        FailureProofGossipPlan plan = plan_of("fcg:1:1:rounds", 6 + static_cast<std::uint32_t>(random() % 20));
        plan.correction.failures = plan.gossip.spec.failures = failures;
        plan.gossip.spec.limit = 1 + static_cast<std::uint32_t>(random() % 6);
        AnyOrder<FailureProofGossip> world(plan.gossip.processes, [&](Position self, const FailedSet& failed) {
            return FailureProofGossip(plan, self, 0, failed, self.value == 0, seed);
        });
        std::uint32_t may_die = failures;
        std::vector<bool> through(world.processes(), false);
        do {
            std::uint32_t g_nodes = 0;
            for (std::uint32_t position = 0; position < world.processes(); ++position)
                g_nodes += world.machine(position).gossiped() ? 1U : 0U;
            for (std::uint32_t position = 0; position < world.processes(); ++position) {
                const FailureProofGossip& machine = world.machine(position);
                if (world.is_dead(position) || through[position] || !machine.finished()) continue;
                through[position] = true;
                if (machine.is_sos()) continue;
                ++without_sos;
                ASSERT_GE(g_nodes - (machine.gossiped() ? 1U : 0U), failures + 1) << position;
            }
            const auto position = static_cast<std::uint32_t>(random() % world.processes());
            if (may_die == 0 || random() % 60 != 0 || world.is_dead(position)) continue;
            world.crash(position);
            --may_die;
        } while (world.step(random, false));
    }
    EXPECT_GT(without_sos, 10000U);
}

// A group of those that gossip reaches and others, none of which dies.
class Peace {
  public:
    explicit Peace(std::uint32_t seed)
        : random_(seed),
          plan_(plan_of("fcg:1:3:rounds", 6 + static_cast<std::uint32_t>(random_() % 20))),
          world_(plan_.gossip.processes, [this, seed](Position self, const FailedSet& failed) {
              return FailureProofGossip(plan_, self, 0, failed, self.value == 0, seed);
          }) {
        do {
            for (std::uint32_t position = 0; position < world_.processes(); ++position) {
                const FailureProofGossip& machine = world_.machine(position);
                through_without_sos_ |= machine.gossiped() && machine.finished() && !machine.is_sos();
            }
        } while (world_.step(random_, false));
    }

    const AnyOrder<FailureProofGossip>& world() const { return world_; }
    // Whether one that gossip reached ever was through without having called for help.
    bool through_without_sos() const { return through_without_sos_; }

  private:
    std::mt19937 random_;
    FailureProofGossipPlan plan_;
    AnyOrder<FailureProofGossip> world_;
    bool through_without_sos_ = false;
};

TEST(Lemma2, IfAGNodeIsThroughWithoutSosMessagesAreSentToAll) {
    std::uint32_t without_sos = 0;
    for (std::uint32_t seed = 1; seed <= 3000; ++seed) {
        const Peace peace(seed);
        if (!peace.through_without_sos()) continue;
        ++without_sos;
        ASSERT_TRUE(peace.world().all_live_colored()) << seed;
    }
    EXPECT_GT(without_sos, 2000U);
}

// And Corollary 2, that a member that receives a message comes to an end, is the same in a machine that delivers when
// it ends.
TEST(Lemma3, AMemberThatReceivesAMessageDelivers) {
    for (std::uint32_t seed = 1; seed <= 3000; ++seed) {
        const Peace peace(seed);
        for (std::uint32_t position = 0; position < peace.world().processes(); ++position) {
            const FailureProofGossip& machine = peace.world().machine(position);
            ASSERT_EQ(machine.colored(), machine.finished()) << seed;
        }
    }
}

// With deaths on the way as well: no member that has received a message waits or sends for ever (a run ends by itself,
// or it is found to send without end).
TEST(Corollary2, AMemberThatReceivesAMessageComesToAnEnd) {
    for (std::uint32_t seed = 200001; seed <= 203000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        Drama drama(random, seed, 14);
        drama.play(false, false);
        drama.world().settle(random, false);
        ASSERT_EQ(drama.world().violation(), "");
        ASSERT_TRUE(drama.world().all_colored_finished());
    }
}

// Claim 5: with f² + f + 1 g-nodes and no deaths nobody needs an SOS.
TEST(Claim5, WithEnoughMembersReachedByGossipThereIsNoSos) {
    for (std::uint32_t seed = 1; seed <= 3000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        const std::uint32_t failures = 1 + seed % 3;
        FailureProofGossipPlan plan = plan_of("fcg:1:1:rounds", 16 + static_cast<std::uint32_t>(random() % 30));
        plan.correction.failures = plan.gossip.spec.failures = failures;
        plan.gossip.spec.limit = 8;
        AnyOrder<FailureProofGossip> world(plan.gossip.processes, [&](Position self, const FailedSet& failed) {
            return FailureProofGossip(plan, self, 0, failed, self.value == 0, seed);
        });
        world.settle(random, false);
        std::uint32_t reached = 0;
        bool sos = false;
        for (std::uint32_t position = 0; position < world.processes(); ++position) {
            reached += world.machine(position).gossiped() ? 1U : 0U;
            sos |= world.machine(position).is_sos();
        }
        ASSERT_EQ(world.violation(), "");
        ASSERT_TRUE(world.all_live_colored());
        ASSERT_TRUE(world.all_colored_finished());
        ASSERT_TRUE(reached < failures * failures + failures + 1 || !sos);
    }
}

}  // namespace
}  // namespace coppice::protocol::testing
