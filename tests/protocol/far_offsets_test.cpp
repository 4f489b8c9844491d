// The ring beyond the offset 64, up to which members heard from are remembered one by one: long runs of dead members,
// which are noticed late, and members on the far side of them that speak and die.
#include <gtest/gtest.h>

#include "topology/ring.hpp"
#include "world.hpp"

namespace coppice::protocol::testing {
namespace {

BroadcastPlan plan(const char* tree, std::uint32_t processes, const char* correction) {
    return {*topology::Tree::make(*topology::parse_tree(tree), processes), *parse_correction(correction),
            Nanoseconds{5}};
}

// Member 100 of a chain of 200, which has no child that it has not sent to.
struct Member {
    explicit Member(const char* correction)
        : ring(plan("chain", 200, correction)), machine(ring, Position{100}, 0, failed, false) {
        EXPECT_TRUE(machine.receive({MessageKind::tree, Position{99}, Position{100}, 0}));
    }
    void hear_from(std::uint32_t position) {
        const auto kind = position < 100 ? MessageKind::correction_right : MessageKind::correction_left;
        EXPECT_TRUE(machine.receive({kind, Position{position}, Position{100}, 0}));
    }
    void fail(std::uint32_t position) {
        failed.insert(position);
        machine.peer_failed(Position{position});
    }
    // Where it sends corrections to, by `now`.
    std::vector<std::uint32_t> sends(MessageKind kind, std::uint64_t now = 0) {
        std::vector<std::uint32_t> to;
        while (const auto message = machine.next_send(Nanoseconds{now})) {
            if (message->kind == kind) to.push_back(message->to.value);
        }
        return to;
    }

    BroadcastPlan ring;
    FailedSet failed;
    Broadcast machine;
};

TEST(FarOffsets, CheckedStopsAtTheNearestAndGoesOnWhenThatOneDies) {
    Member member("checked");
    member.hear_from(20);
    member.hear_from(30);
    member.hear_from(10);
    member.hear_from(180);
    member.hear_from(170);
    member.hear_from(190);
    std::uint32_t nearest_left = 100;
    std::uint32_t nearest_right = 100;
    while (const auto message = member.machine.next_send(Nanoseconds{0})) {
        if (message->kind == MessageKind::correction_left) nearest_left = message->to.value;
        if (message->kind == MessageKind::correction_right) nearest_right = message->to.value;
    }
    EXPECT_EQ(nearest_left, 30U);
    EXPECT_EQ(nearest_right, 170U);
    member.fail(170);
    EXPECT_EQ(member.sends(MessageKind::correction_right).front(), 171U);
}

TEST(FarOffsets, CheckedGoesOnToTheLeftWhenTheNearestThereDies) {
    Member member("checked");
    member.hear_from(30);
    member.hear_from(120);
    EXPECT_EQ(member.sends(MessageKind::correction_left).back(), 30U);
    member.fail(30);
    EXPECT_EQ(member.sends(MessageKind::correction_left).front(), 29U);
}

TEST(FarOffsets, TheLastThatIsRememberedIsForgottenWhenItDies) {
    Member member("checked");
    member.hear_from(36);
    member.hear_from(35);
    member.hear_from(164);
    EXPECT_EQ(member.sends(MessageKind::correction_left).back(), 36U);
    member.fail(36);
    EXPECT_EQ(member.sends(MessageKind::correction_left), std::vector<std::uint32_t>{35});
}

TEST(FarOffsets, DelayedStopsASenderThatIsFarToTheLeft) {
    Member member("delayed:10");
    member.hear_from(101);
    (void)member.sends(MessageKind::correction_left);
    member.hear_from(30);
    EXPECT_EQ(member.sends(MessageKind::correction_left), std::vector<std::uint32_t>{30});
    EXPECT_TRUE(member.sends(MessageKind::correction_left).empty()) << "once";
}

TEST(FarOffsets, DelayedGoesOnWhenAFarStopDies) {
    Member member("delayed:10");
    member.hear_from(180);
    EXPECT_TRUE(member.sends(MessageKind::correction_right, 20).empty());
    member.fail(180);
    EXPECT_EQ(member.sends(MessageKind::correction_right, 20).front(), 101U);
}

// Its death would not be taken back.
TEST(FarOffsets, OptimizedLeavesNothingToAMemberThatIsFarAway) {
    for (const std::uint32_t far : {35U, 165U}) {
        Member member("optimized:90");
        member.hear_from(far);
        EXPECT_EQ(member.sends(MessageKind::correction_left).size(), 89U) << far << "; 99 is its parent";
    }
    Member member("optimized:90");
    member.hear_from(164);
    EXPECT_LT(member.sends(MessageKind::correction_right).size(), 80U) << "the last that it may rely on";
    member.fail(164);
    EXPECT_GT(member.sends(MessageKind::correction_right).size(), 20U) << "and that is taken back";
}

struct Far {
    const char* tree;
    const char* correction;
};

class FarOffsetsIn : public ::testing::TestWithParam<Far> {};
INSTANTIATE_TEST_SUITE_P(Rings, FarOffsetsIn,
                         ::testing::Values(Far{"star", "checked"}, Far{"star", "checked:synchronized"},
                                           Far{"star", "delayed:3"}, Far{"star", "optimized:80"},
                                           Far{"star", "optimized:90:one-directional"}, Far{"star", "opportunistic:80"},
                                           Far{"kary:4", "checked"}, Far{"kary:4", "delayed:3"},
                                           Far{"kary:4", "optimized:80"}));

// A run of 66 to 89 members is dead and nobody knows; live ones beside it, and within, die while the others correct.
TEST_P(FarOffsetsIn, EveryLiveMemberIsReachedWhicheverDieBesideALongGap) {
    constexpr std::uint32_t kProcesses = 140;
    for (std::uint32_t seed = 1; seed <= 4; ++seed) {
        std::mt19937 random(seed);
        SCOPED_TRACE(seed);
        World world(plan(GetParam().tree, kProcesses, GetParam().correction),
                    static_cast<std::uint32_t>(random() % kProcesses), seed);
        const auto length = 66 + static_cast<std::uint32_t>(random() % 24);
        const auto first = 2 + static_cast<std::uint32_t>(random() % (kProcesses - length - 4));
        const std::uint32_t spared = first + static_cast<std::uint32_t>(random() % length);
        for (std::uint32_t position = first; position < first + length; ++position) {
            if (position != spared) world.crash(position);
        }
        const std::uint64_t steps = random() % 3000;
        for (std::uint64_t step = 0; step < steps && world.step(random, false); ++step)
            ;
        world.crash(first - 1);
        world.settle(random, random() % 2 == 0);
        world.crash(first + length);
        world.settle(random, true);
        ASSERT_EQ(world.violation(), "");
        ASSERT_TRUE(world.all_live_colored());
        ASSERT_TRUE(world.all_live_ended());
    }
}

}  // namespace
}  // namespace coppice::protocol::testing
