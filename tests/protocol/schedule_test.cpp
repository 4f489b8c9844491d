// What a schedule says is what a machine says that works everything out: after any messages, and across failures.
#include "protocol/schedule.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/baselines/names.hpp"
#include "protocol/chance.hpp"

namespace coppice::protocol {
namespace {

BroadcastPlan plan(const char* tree, std::uint32_t processes, const char* correction) {
    return {*topology::Tree::make(*topology::parse_tree(tree), processes), *baselines::parse_correction(correction)};
}

// What a member may hear: the payload, by its tree parent or by a correction from anybody.
Message draw_message(const BroadcastPlan& plan, Position self, Chance& chance) {
    const std::uint32_t processes = plan.tree.processes();
    const auto parent = plan.tree.parent(self);
    if (parent && chance.below(3) == 0) return {MessageKind::tree, *parent, self, 0};
    const std::uint32_t other = chance.below(processes - 1);
    const bool goes_left = !plan.correction.one_directional && chance.below(2) == 0;
    return {goes_left ? MessageKind::correction_left : MessageKind::correction_right,
            Position{other < self.value ? other : other + 1}, self, 0};
}

// The same is told to both machines, and each is asked now and then.
void compare(const BroadcastPlan& plan, Position self, std::uint64_t seed) {
    Schedule schedule;
    if (!schedule.make(plan, self)) {
        ASSERT_EQ(plan.correction.kind, CorrectionKind::optimized_opportunistic);
        return;
    }
    Chance chance(seed, self.value);
    FailedSet failed;
    Broadcast worked_out(plan, self, 0, failed, self.value == 0);
    Broadcast looked_up(plan, self, 0, failed, self.value == 0);
    const std::uint32_t processes = plan.tree.processes();
    const bool is_told = plan.correction.kind != CorrectionKind::none;
    for (int step = 0; step < 40; ++step) {
        const std::uint32_t what = chance.below(8);
        if (what < 3 && processes > 1 && is_told) {
            const Message message = draw_message(plan, self, chance);
            if (failed.contains(message.from.value)) continue;
            ASSERT_EQ(worked_out.receive(message), looked_up.receive(message));
        } else if (what == 3 && step > 20 && processes > 1) {
            const std::uint32_t other = chance.below(processes);
            if (other == self.value || !failed.insert(other)) continue;
            worked_out.peer_failed(Position{other});
            looked_up.peer_failed(Position{other});
        } else {
            const auto expected = worked_out.next_send(Nanoseconds{0});
            // Whether one is asked in this way or in that makes no difference.
            const auto found = chance.below(4) == 0 ? looked_up.next_send(Nanoseconds{0})
                                                    : looked_up.next_send(Nanoseconds{0}, schedule);
            ASSERT_EQ(expected, found);
        }
        ASSERT_EQ(worked_out.finished(), looked_up.finished());
        ASSERT_EQ(worked_out.colored(), looked_up.colored());
    }
}

TEST(Schedule, SaysWhatAMachineSays) {
    for (const char* tree : {"binomial", "kary:3", "chain", "star", "lame:2", "binomial:inorder"}) {
        for (const char* correction : {"none", "opportunistic:1", "opportunistic:4", "opportunistic:2:one-directional",
                                       "opportunistic-paper:3", "optimized:1", "optimized:3"}) {
            for (const std::uint32_t processes : {1U, 2U, 3U, 4U, 7U, 16U, 21U}) {
                const BroadcastPlan its = plan(tree, processes, correction);
                ASSERT_TRUE(Schedule::exists_for(its));
                SCOPED_TRACE(std::string(tree) + " " + correction + " of " + std::to_string(processes));
                for (std::uint32_t self = 0; self < processes; ++self) {
                    for (std::uint64_t seed = 0; seed < 50; ++seed)
                        compare(its, Position{self}, seed);
                }
            }
        }
    }
}

TEST(Schedule, ExistsOnlyWhereNothingButWhatWasHeardDecides) {
    for (const char* correction :
         {"ack", "checked", "optimized-paper:2", "delayed:5", "failure-proof:1", "opportunistic:1:synchronized"})
        EXPECT_FALSE(Schedule::exists_for(plan("binomial", 8, correction))) << correction;
    BroadcastPlan gossip = plan("star", 8, "opportunistic:1");
    gossip.gossip = {.rounds = 3, .hop = 1};
    EXPECT_FALSE(Schedule::exists_for(gossip));
}

TEST(Schedule, ExistsForOptimizedCorrectionWhereThereIsNothingToCorrect) {
    Schedule schedule;
    for (std::uint32_t self = 0; self < 8; ++self) {
        EXPECT_TRUE(schedule.make(plan("star", 8, "optimized:2"), Position{self})) << self;
        EXPECT_FALSE(schedule.make(plan("chain", 8, "optimized:2"), Position{self})) << self;
        EXPECT_EQ(schedule.size(), 0U);
    }
}

TEST(Schedule, ExistsForCheckedCorrectionUnderAStar) {
    const BroadcastPlan star = plan("star", 8, "checked");
    ASSERT_TRUE(Schedule::exists_for(star));
    for (std::uint32_t self = 0; self < 8; ++self) {
        Schedule schedule;
        EXPECT_TRUE(schedule.make(star, Position{self})) << self;
        for (std::uint64_t seed = 0; seed < 50; ++seed)
            compare(star, Position{self}, seed);
    }
    EXPECT_FALSE(Schedule::exists_for(plan("star", 8, "checked:synchronized")));
}

TEST(Schedule, IsRefusedToAPositionThatSendsVeryMuch) {
    Schedule schedule;
    EXPECT_FALSE(schedule.make(plan("star", 1000, "opportunistic:1"), Position{0}));
    EXPECT_TRUE(schedule.make(plan("star", 1000, "opportunistic:1"), Position{1}));
    EXPECT_FALSE(schedule.make(plan("binomial", 1000, "opportunistic:100"), Position{1}));
}

}  // namespace
}  // namespace coppice::protocol
