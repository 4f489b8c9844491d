// Corrected gossip by exhaustive search: every order of messages, every moment of death, every moment of a timeout, for
// gossip by rounds in small groups; in the larger cases with what one member sends to another kept in order, or with
// few messages under way at once. The seed decides which members gossip draws: several are searched.
#include <gtest/gtest.h>

#include "explore_failure_proof.hpp"
#include "protocol/baselines/failure_proof_gossip.hpp"

namespace coppice::protocol::testing {
namespace {

// What both subjects share.
struct GossipConditions : Conditions {
    std::uint64_t seed = 1;
};

// -------------------------------------------------------------------------------------------------------------- CCG

class CheckedSubject {
  public:
    using Machine = Gossip;
    using Machines = std::array<const Gossip*, kMaxExplored>;

    CheckedSubject(const GossipPlan& plan, const GossipConditions& conditions) : plan_(plan), conditions_(conditions) {}

    static std::uint64_t encode(const GossipMessage& message) {
        return std::uint64_t{static_cast<std::uint8_t>(message.kind)} << 56 | std::uint64_t{message.from.value} << 48 |
               std::uint64_t{message.to.value} << 40 | message.round;
    }
    static GossipMessage decode(std::uint64_t code) {
        return {static_cast<GossipMessageKind>(code >> 56), Position{static_cast<std::uint32_t>(code >> 48 & 0xff)},
                Position{static_cast<std::uint32_t>(code >> 40 & 0xff)}, static_cast<std::uint32_t>(code & 0xfffff)};
    }
    static std::string describe(const GossipMessage& message) { return describe_ends(message); }
    static bool carries_set(const GossipMessage& /*message*/) { return false; }
    // Gossip may still make a member take part that a correction has reached.
    static bool end_is_final() { return false; }
    static bool is_monotone() { return false; }
    void build(void* where, Position position, const FailedSet& failed) const {
        new (where) Gossip(plan_, position, conditions_.root_member, failed, position.value == 0, conditions_.seed);
    }
    static std::string check(const Machines& /*machines*/) { return ""; }
    // All live members are colored; if the root is dead, all or none.
    std::string check_final(const Machines& machines, std::uint32_t /*retired*/, Exploration& result) const {
        bool all = true;
        bool none = true;
        for (std::uint32_t member = 0; member < conditions_.processes; ++member) {
            if (machines[member] == nullptr) continue;
            (machines[member]->colored() ? none : all) = false;
            if (machines[member]->colored() && !machines[member]->finished()) return "somebody never finishes";
        }
        if (all) ++result.all_colored;
        if (all || (none && machines[0] == nullptr)) return "";
        return "a live member is never reached";
    }

  private:
    GossipPlan plan_;
    GossipConditions conditions_;
};

struct CheckedCase {
    std::uint32_t processes;
    std::uint32_t rounds;
    std::uint8_t dead;
    std::uint32_t crashes;
};

std::ostream& operator<<(std::ostream& out, const CheckedCase& one) {
    return out << "P=" << one.processes << ", " << one.rounds << " rounds, dead " << static_cast<int>(one.dead) << ", "
               << one.crashes << " crashes";
}

class Claim3 : public ::testing::TestWithParam<CheckedCase> {};

// Nobody dies on the way and nobody is told; or some die, and the survivors are told.
TEST_P(Claim3, CheckedReachesEveryLiveMember) {
    const CheckedCase& one = GetParam();
    GossipPlan plan;
    plan.processes = one.processes;
    plan.spec = {GossipKind::checked, 1, true, one.rounds, 0};
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(seed);
        GossipConditions conditions;
        conditions.processes = one.processes;
        conditions.dead = one.dead;
        conditions.crashes = one.crashes;
        conditions.detection = one.crashes > 0;
        conditions.seed = seed;
        CheckedSubject subject(plan, conditions);
        const Exploration result = StateExplorer<CheckedSubject>(subject, conditions).run();
        EXPECT_TRUE(result.complete) << result.states;
        EXPECT_EQ(result.violation, "");
        EXPECT_GT(result.all_colored, 0U);
    }
}

INSTANTIATE_TEST_SUITE_P(Small, Claim3,
                         ::testing::Values(CheckedCase{2, 1, 0, 1}, CheckedCase{3, 1, 0, 0}, CheckedCase{3, 2, 0, 0},
                                           CheckedCase{4, 1, 0, 0}, CheckedCase{4, 2, 0b0010, 0},
                                           CheckedCase{5, 1, 0b00100, 0}, CheckedCase{3, 1, 0, 2},
                                           CheckedCase{4, 2, 0, 0}, CheckedCase{5, 1, 0, 0},
                                           CheckedCase{5, 2, 0b00110, 0}, CheckedCase{6, 1, 0, 0},
                                           CheckedCase{4, 1, 0, 1}));

// -------------------------------------------------------------------------------------------------------------- FCG

class FailureProofGossipSubject {
  public:
    using Machine = FailureProofGossip;
    using Machines = std::array<const FailureProofGossip*, kMaxExplored>;

    FailureProofGossipSubject(const FailureProofGossipPlan& plan, const GossipConditions& conditions)
        : plan_(plan), conditions_(conditions) {}

    static std::uint64_t encode(const FailureProofMessage& message) { return FailureProofSubject::encode(message); }
    static FailureProofMessage decode(std::uint64_t code) { return FailureProofSubject::decode(code); }
    static std::string describe(const FailureProofMessage& message) { return testing::describe(message); }
    static bool carries_set(const FailureProofMessage& /*message*/) { return false; }
    static bool end_is_final() { return true; }
    static bool is_monotone() { return true; }
    void build(void* where, Position position, const FailedSet& failed) const {
        new (where)
            FailureProofGossip(plan_, position, conditions_.root_member, failed, position.value == 0, conditions_.seed);
    }
    static std::string check(const Machines& /*machines*/) { return ""; }
    std::string check_final(const Machines& machines, std::uint32_t retired, Exploration& result) const {
        bool all = true;
        bool none = retired == 0;
        for (std::uint32_t member = 0; member < conditions_.processes; ++member) {
            if (machines[member] == nullptr) continue;
            (machines[member]->colored() ? none : all) = false;
            if (machines[member]->colored() && !machines[member]->finished()) return "somebody is never through";
        }
        if (all) ++result.all_colored;
        return all || none ? "" : "some members have the payload or were through, and a live one never gets it";
    }

  private:
    FailureProofGossipPlan plan_;
    GossipConditions conditions_;
};

struct FailureProofCase {
    std::uint32_t processes;
    std::uint32_t rounds;
    std::uint8_t dead;
    std::uint32_t crashes;
    bool in_order;
    std::uint32_t under_way;
    bool detection = false;
};

std::ostream& operator<<(std::ostream& out, const FailureProofCase& one) {
    return out << "P=" << one.processes << ", " << one.rounds << " rounds, dead " << static_cast<int>(one.dead) << ", "
               << one.crashes << " crashes" << (one.in_order ? ", in order" : "") << (one.detection ? ", told" : "");
}

class Claim4 : public ::testing::TestWithParam<FailureProofCase> {};

TEST_P(Claim4, FailureProofIsAllOrNone) {
    const FailureProofCase& one = GetParam();
    FailureProofGossipPlan plan;
    plan.gossip.processes = plan.correction.processes = one.processes;
    plan.gossip.spec = {GossipKind::failure_proof, 1, true, one.rounds, 0};
    plan.correction.failures = 1;
    plan.correction.timeout = Nanoseconds{1};
    for (std::uint64_t seed = 1; seed <= (one.rounds > 1 ? 1 : 3); ++seed) {
        SCOPED_TRACE(seed);
        GossipConditions conditions;
        conditions.processes = one.processes;
        conditions.dead = one.dead;
        conditions.crashes = one.crashes;
        conditions.detection = one.detection;
        conditions.in_order = one.in_order;
        conditions.under_way = one.under_way;
        conditions.max_states = 3000000;
        conditions.seed = seed;
        FailureProofGossipSubject subject(plan, conditions);
        const Exploration result = StateExplorer<FailureProofGossipSubject>(subject, conditions).run();
        EXPECT_TRUE(result.complete) << result.states;
        EXPECT_EQ(result.violation, "");
        EXPECT_GT(result.all_colored, 0U);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Small, Claim4,
    ::testing::Values(FailureProofCase{2, 1, 0, 1, false, 99}, FailureProofCase{3, 1, 0, 1, true, 99},
                      FailureProofCase{3, 2, 0, 1, true, 2}, FailureProofCase{3, 1, 0, 1, false, 4},
                      FailureProofCase{4, 1, 0b0010, 1, true, 3}, FailureProofCase{4, 1, 0b0000, 1, true, 2},
                      FailureProofCase{3, 1, 0, 2, true, 2, true}));

}  // namespace
}  // namespace coppice::protocol::testing
