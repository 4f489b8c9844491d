// Single machines, by hand: refusals, size, allocation, and corner cases that conversations do not show.
#include "protocol/broadcast.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "protocol/baselines/names.hpp"
#include "support/allocations.hpp"

namespace coppice::protocol {
namespace {

BroadcastPlan plan(const char* tree, std::uint32_t processes, const char* correction) {
    return {*topology::Tree::make(*topology::parse_tree(tree), processes), *baselines::parse_correction(correction)};
}

std::vector<Message> drain(Broadcast& machine) {
    std::vector<Message> messages;
    while (const auto message = machine.next_send(Nanoseconds{0}))
        messages.push_back(*message);
    return messages;
}

TEST(Machine, RefusesWhatCanNotBe) {
    const BroadcastPlan checked = plan("binomial", 8, "checked");
    FailedSet nobody;
    Broadcast five(checked, Position{5}, 0, nobody, false);
    const auto receive = [&five](MessageKind kind, std::uint32_t from, std::uint32_t to = 5, std::uint32_t detail = 0) {
        return five.receive({kind, Position{from}, Position{to}, detail});
    };
    EXPECT_FALSE(receive(MessageKind::tree, 5));             // from itself
    EXPECT_FALSE(receive(MessageKind::tree, 8));             // out of range
    EXPECT_FALSE(receive(MessageKind::tree, 1, 4));          // to somebody else
    EXPECT_FALSE(receive(MessageKind::tree, 0));             // not the parent
    EXPECT_FALSE(receive(MessageKind::tree, 1, 5, 7));       // a detail where there is none
    EXPECT_FALSE(receive(static_cast<MessageKind>(99), 1));  // no such kind
    EXPECT_FALSE(receive(MessageKind::acknowledgement, 1));  // not with this correction
    EXPECT_FALSE(receive(MessageKind::query, 1, 5, 1));      // the root lives
    EXPECT_FALSE(receive(MessageKind::denial, 1, 5, 1));     // from below
    EXPECT_FALSE(five.colored());
    EXPECT_TRUE(receive(MessageKind::tree, 1));
    EXPECT_TRUE(five.colored());
    EXPECT_FALSE(receive(MessageKind::verdict, 1));  // it has the payload

    Broadcast root(checked, Position{0}, 0, nobody, true);
    EXPECT_FALSE(root.receive({MessageKind::tree, Position{1}, Position{0}, 0}));

    const BroadcastPlan none = plan("binomial", 8, "none");
    Broadcast without(none, Position{5}, 0, nobody, false);
    EXPECT_FALSE(without.receive({MessageKind::correction_left, Position{6}, Position{5}, 0}));
    EXPECT_FALSE(without.receive({MessageKind::rescue, Position{6}, Position{5}, 0}));
    const BroadcastPlan right_only = plan("binomial", 8, "opportunistic:2:one-directional");
    Broadcast one_way(right_only, Position{5}, 0, nobody, false);
    EXPECT_FALSE(one_way.receive({MessageKind::correction_left, Position{6}, Position{5}, 0}));
}

TEST(Machine, AloneIsFinishedAtOnce) {
    for (const char* correction : {"none", "ack", "checked", "opportunistic:3", "optimized:2"}) {
        const BroadcastPlan alone = plan("binomial", 1, correction);
        FailedSet nobody;
        Broadcast root(alone, Position{0}, 0, nobody, true);
        EXPECT_TRUE(drain(root).empty());
        EXPECT_TRUE(root.finished());
        EXPECT_EQ(root.result(), BroadcastResult::colored);
    }
}

TEST(Machine, SendsToNobodyTwiceOnSmallRings) {
    for (std::uint32_t processes = 2; processes <= 12; ++processes) {
        for (const char* correction : {"opportunistic-paper:4", "opportunistic:4", "checked", "optimized:6",
                                       "opportunistic-paper:7:one-directional"}) {
            const BroadcastPlan small = plan("star", processes, correction);
            FailedSet nobody;
            Broadcast last(small, Position{processes - 1}, 0, nobody, false);
            last.receive({MessageKind::tree, Position{0}, Position{processes - 1}, 0});
            std::vector<bool> sent(processes, false);
            for (const Message& message : drain(last)) {
                ASSERT_LT(message.to.value, processes);
                EXPECT_NE(message.to.value, processes - 1);
                EXPECT_FALSE(sent[message.to.value]);
                sent[message.to.value] = true;
            }
        }
    }
}

TEST(Machine, PositionsRotateWithTheRoot) {
    const BroadcastPlan rotated = plan("binomial", 8, "none");
    FailedSet failed;
    failed.insert(6);  // position 1 under root 5
    Broadcast root(rotated, Position{0}, 5, failed, true);
    for (const Message& message : drain(root))
        EXPECT_NE(message.to.value, 1U);
}

TEST(Machine, AFailureNoticeInTheRangeExtendsIt) {
    const BroadcastPlan ring = plan("chain", 32, "opportunistic:2");
    FailedSet failed;
    Broadcast machine(ring, Position{10}, 3, failed, true);
    EXPECT_EQ(drain(machine).size(), 4U);  // 11 (its child), 12, 9, 8
    EXPECT_TRUE(machine.finished());
    failed.insert(12 + 3);
    machine.peer_failed(Position{12});
    EXPECT_FALSE(machine.finished());
    const std::vector<Message> more = drain(machine);
    ASSERT_EQ(more.size(), 1U);
    EXPECT_EQ(more[0].to.value, 13U);
    failed.insert(25 + 3);  // far off: nothing to do
    machine.peer_failed(Position{25});
    EXPECT_TRUE(drain(machine).empty());
    EXPECT_TRUE(machine.finished());
}

TEST(Machine, CheckedGoesOnWhenTheOneAtWhichItStoppedFails) {
    const BroadcastPlan ring = plan("star", 100, "checked:synchronized");
    FailedSet failed;
    Broadcast machine(ring, Position{50}, 0, failed, false);
    machine.receive({MessageKind::tree, Position{0}, Position{50}, 0});
    machine.receive({MessageKind::correction_right, Position{48}, Position{50}, 0});
    machine.receive({MessageKind::correction_right, Position{45}, Position{50}, 0});
    machine.receive({MessageKind::correction_left, Position{51}, Position{50}, 0});
    EXPECT_EQ(drain(machine).size(), 3U);  // 49, 51, 48
    failed.insert(48);
    machine.peer_failed(Position{48});
    const std::vector<Message> more = drain(machine);  // now it relies on 45
    ASSERT_EQ(more.size(), 3U);
    EXPECT_EQ(more.back().to.value, 45U);
}

// PPoPP'19 §3.3, synchronized: correction starts everywhere at one time, and a member that it colors sends nothing.
TEST(Synchronized, StartsAtTheGivenTimeAndAMemberThatItColorsSendsNothing) {
    BroadcastPlan eight = plan("binomial", 8, "checked:synchronized");
    eight.correction_start = Nanoseconds{12};
    FailedSet nobody;
    Broadcast root(eight, Position{0}, 0, nobody, true);
    EXPECT_EQ(drain(root).size(), 3U);  // its children
    EXPECT_EQ(root.next_timer(), Nanoseconds{12});
    EXPECT_FALSE(root.finished());
    EXPECT_FALSE(root.next_send(Nanoseconds{11}));
    EXPECT_EQ(root.next_send(Nanoseconds{12}), (Message{MessageKind::correction_left, Position{0}, Position{7}, 0}));

    Broadcast one(eight, Position{1}, 0, nobody, false);
    EXPECT_TRUE(one.receive({MessageKind::correction_right, Position{0}, Position{1}, 0}));
    EXPECT_TRUE(drain(one).empty());
    EXPECT_TRUE(one.finished());
    // Where clocks disagree the tree message may come after the correction.
    EXPECT_TRUE(one.receive({MessageKind::tree, Position{0}, Position{1}, 0}));
    EXPECT_EQ(drain(one).size(), 2U);
    EXPECT_EQ(one.next_timer(), Nanoseconds{12});
}

// Lemma 2's dissemination part: in a binomial tree everybody is colored after log2 P times 2o + L.
TEST(Synchronized, StartsWhenTheFaultFreeDisseminationEnds) {
    const auto end = [](const char* tree, std::uint32_t processes, std::uint64_t latency, std::uint64_t overhead) {
        return dissemination_end(*topology::Tree::make(*topology::parse_tree(tree), processes), latency, overhead)
            .value;
    };
    EXPECT_EQ(end("binomial", 1, 2, 1), 0U);
    EXPECT_EQ(end("binomial", 1024, 2, 1), 40U);
    EXPECT_EQ(end("binomial", 17, 2, 1), 16U);
    EXPECT_EQ(end("chain", 5, 3, 2), 28U);
    EXPECT_EQ(end("star", 5, 3, 2), 13U);
    EXPECT_EQ(end("lame:3", 9, 1, 1), 7U);  // Figure 5
}

// PPoPP'19 §3.1: "if process 23 received the nearest correction messages from processes 19 and 28, it continues … until
// it finally sent to both 19 and 28. Overall, process 23 sends correction messages to processes {22, 24, 21, 25, 20,
// 26, 19, 27, 28}."
TEST(CheckedCorrection, Process23SendsAsFarAs19And28) {
    const BroadcastPlan ring = plan("star", 60, "checked:synchronized");
    FailedSet nobody;
    Broadcast machine(ring, Position{23}, 0, nobody, false);
    EXPECT_TRUE(machine.receive({MessageKind::tree, Position{0}, Position{23}, 0}));
    EXPECT_TRUE(machine.receive({MessageKind::correction_right, Position{19}, Position{23}, 0}));
    EXPECT_TRUE(machine.receive({MessageKind::correction_left, Position{28}, Position{23}, 0}));
    std::vector<std::uint32_t> to;
    for (const Message& message : drain(machine))
        to.push_back(message.to.value);
    EXPECT_EQ(to, (std::vector<std::uint32_t>{22, 24, 21, 25, 20, 26, 19, 27, 28}));
}

// Everybody hears from the root itself: only its death leaves anything to be corrected.
TEST(CheckedCorrection, SendsNothingUnderAStarUntilTheRootHasFailed) {
    const BroadcastPlan star = plan("star", 8, "checked");
    FailedSet failed;
    Broadcast root(star, Position{0}, 2, failed, true);
    EXPECT_EQ(drain(root).size(), 7U);
    EXPECT_TRUE(root.finished());
    Broadcast three(star, Position{3}, 2, failed, false);
    EXPECT_TRUE(three.receive({MessageKind::tree, Position{0}, Position{3}, 0}));
    EXPECT_TRUE(drain(three).empty());
    EXPECT_TRUE(three.finished());

    failed.insert(5 + 2);
    three.peer_failed(Position{5});
    EXPECT_TRUE(drain(three).empty());
    failed.insert(0 + 2);
    three.peer_failed(Position{0});
    EXPECT_FALSE(three.finished());
    std::vector<std::uint32_t> to;
    for (const Message& message : drain(three))
        to.push_back(message.to.value);
    EXPECT_EQ(to, (std::vector<std::uint32_t>{2, 4, 1, 6, 7}));
    EXPECT_TRUE(three.receive({MessageKind::correction_left, Position{4}, Position{3}, 0}));
    EXPECT_TRUE(drain(three).empty());
}

// PPoPP'19 §3.3: "process 19 receives a correction message from process 23. With d = 8, 23 surely sends messages to
// processes 22, …, 15, so 19 has to send only to processes 14, …, 11."
TEST(OptimizedCorrection, AsPrintedProcess19SendsTo14To11AfterHearing23) {
    const BroadcastPlan ring = plan("star", 60, "optimized-paper:8");
    FailedSet nobody;
    Broadcast machine(ring, Position{19}, 0, nobody, false);
    EXPECT_TRUE(machine.receive({MessageKind::tree, Position{0}, Position{19}, 0}));
    EXPECT_TRUE(machine.receive({MessageKind::correction_left, Position{23}, Position{19}, 0}));
    std::vector<std::uint32_t> to;
    for (const Message& message : drain(machine))
        to.push_back(message.to.value);
    EXPECT_EQ(to, (std::vector<std::uint32_t>{14, 13, 12, 11}));
}

// A process that stands in for another with the payload: others may rely already on what its predecessor said. Nearer
// ones that have spoken are left out, since they have the payload; nothing is left to them.
TEST(OptimizedCorrection, AStandInLeavesNothingToOthers) {
    const BroadcastPlan ring = plan("chain", 60, "optimized:8");
    FailedSet nobody;
    Broadcast stand_in(ring, Position{19}, 0, nobody, true);
    EXPECT_TRUE(stand_in.receive({MessageKind::correction_left, Position{23}, Position{19}, 0}));
    std::vector<std::uint32_t> to;
    for (const Message& message : drain(stand_in)) {
        if (message.kind != MessageKind::tree) to.push_back(message.to.value);
    }
    std::ranges::sort(to);
    EXPECT_EQ(to, (std::vector<std::uint32_t>{11, 12, 13, 14, 15, 16, 17, 18, 21, 22, 24, 25, 26, 27}));
}

// A member's turn is one more than the highest it has heard of when it sends its first correction.
TEST(OptimizedCorrection, ATurnIsOneMoreThanTheHighestHeard) {
    const BroadcastPlan ring = plan("chain", 60, "optimized:8");
    FailedSet nobody;
    Broadcast machine(ring, Position{19}, 0, nobody, false);
    EXPECT_TRUE(machine.receive({MessageKind::tree, Position{18}, Position{19}, 0}));
    EXPECT_TRUE(machine.receive({MessageKind::correction_left, Position{23}, Position{19}, 4}));
    std::uint32_t corrections = 0;
    for (const Message& message : drain(machine)) {
        if (message.kind == MessageKind::tree) continue;
        ++corrections;
        EXPECT_EQ(message.detail, 5U);
    }
    EXPECT_GT(corrections, 0U);
}

// Of two members with one turn the nearer serves a target; of two equally near the one on its left.
TEST(OptimizedCorrection, OfTwoWithOneTurnTheNearerServesOrTheOneOnTheLeft) {
    const BroadcastPlan ring = plan("chain", 60, "optimized:4");
    FailedSet nobody;
    Broadcast machine(ring, Position{19}, 0, nobody, false);
    EXPECT_TRUE(machine.receive({MessageKind::tree, Position{18}, Position{19}, 0}));
    EXPECT_EQ(machine.next_send(Nanoseconds{0})->kind, MessageKind::tree);
    EXPECT_EQ(machine.next_send(Nanoseconds{0})->to, Position{21});
    EXPECT_TRUE(machine.receive({MessageKind::correction_left, Position{25}, Position{19}, 0}));
    std::vector<std::uint32_t> to;
    for (const Message& message : drain(machine))
        to.push_back(message.to.value);
    std::ranges::sort(to);
    EXPECT_EQ(to, (std::vector<std::uint32_t>{15, 16, 17, 22})) << "22 is as near to 25; 23 is nearer to it";
}

// What a member leaves to the root and its children is its own once the root is dead.
TEST(OpportunisticCorrection, WhatWasLeftToTheRootIsServedWhenItDies) {
    for (const char* correction : {"opportunistic:2", "optimized:2"}) {
        const BroadcastPlan ring = plan("star", 60, correction);
        FailedSet failed;
        Broadcast machine(ring, Position{19}, 0, failed, false);
        EXPECT_TRUE(machine.receive({MessageKind::tree, Position{0}, Position{19}, 0}));
        EXPECT_TRUE(drain(machine).empty()) << "the root sends to all";
        failed.insert(0);
        machine.peer_failed(Position{0});
        EXPECT_EQ(drain(machine).size(), 4U) << correction;
    }
}

TEST(Acknowledged, TheDeadAreNotWaitedFor) {
    const BroadcastPlan line = plan("chain", 3, "ack");
    FailedSet failed;
    Broadcast machine(line, Position{1}, 0, failed, false);
    EXPECT_TRUE(machine.receive({MessageKind::tree, Position{0}, Position{1}, 0}));
    ASSERT_EQ(drain(machine).size(), 1U) << "the payload for 2; its acknowledgement has not come";
    failed.insert(2);
    machine.peer_failed(Position{2});
    const std::vector<Message> sent = drain(machine);
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0], (Message{MessageKind::acknowledgement, Position{1}, Position{0}, 0}));
    EXPECT_TRUE(machine.finished());
}

// PPoPP'19 §3.3: one message to the left; to the right only after the delay.
TEST(Delayed, SendsToTheRightOnlyWhenNobodyWasHeardFromThere) {
    const BroadcastPlan ring = plan("star", 20, "delayed:10");
    FailedSet failed;
    Broadcast five(ring, Position{5}, 0, failed, false);
    EXPECT_TRUE(five.receive({MessageKind::tree, Position{0}, Position{5}, 0}));
    EXPECT_EQ(five.next_send(Nanoseconds{3}), (Message{MessageKind::correction_left, Position{5}, Position{4}, 0}));
    EXPECT_FALSE(five.next_send(Nanoseconds{4}));
    EXPECT_EQ(five.next_timer(), Nanoseconds{13});
    EXPECT_FALSE(five.finished());
    EXPECT_EQ(five.next_send(Nanoseconds{13}), (Message{MessageKind::correction_right, Position{5}, Position{6}, 0}));
    EXPECT_EQ(five.next_send(Nanoseconds{14}), (Message{MessageKind::correction_right, Position{5}, Position{7}, 0}));
    EXPECT_TRUE(five.receive({MessageKind::correction_left, Position{8}, Position{5}, 0}));
    EXPECT_FALSE(five.next_send(Nanoseconds{15}));
    EXPECT_TRUE(five.finished());
    // Its right neighbour dies: it goes on at once.
    failed.insert(8);
    five.peer_failed(Position{8});
    EXPECT_EQ(five.next_send(Nanoseconds{16}), (Message{MessageKind::correction_right, Position{5}, Position{9}, 0}));
}

TEST(Delayed, AnswersAnyMemberThatSendsToTheRight) {
    const BroadcastPlan ring = plan("star", 200, "delayed:10");
    FailedSet nobody;
    Broadcast machine(ring, Position{150}, 0, nobody, false);
    EXPECT_TRUE(machine.receive({MessageKind::correction_right, Position{148}, Position{150}, 0}));
    EXPECT_TRUE(machine.colored());
    EXPECT_TRUE(drain(machine).empty());  // colored by a correction: takes no part
    Broadcast other(ring, Position{150}, 0, nobody, false);
    EXPECT_TRUE(other.receive({MessageKind::tree, Position{0}, Position{150}, 0}));
    EXPECT_EQ(drain(other).size(), 1U);
    for (const std::uint32_t from : {147U, 149U, 20U}) {
        EXPECT_TRUE(other.receive({MessageKind::correction_right, Position{from}, Position{150}, 0}));
    }
    // 149 has been sent the message to the left.
    const std::vector<Message> answers = drain(other);
    ASSERT_EQ(answers.size(), 2U);
    EXPECT_EQ(answers[0], (Message{MessageKind::correction_left, Position{150}, Position{147}, 0}));
    EXPECT_EQ(answers[1], (Message{MessageKind::correction_left, Position{150}, Position{20}, 0}));
}

TEST(Machine, OriginLostEndsWithAVerdictForEverybody) {
    const BroadcastPlan five = plan("binomial", 5, "opportunistic:1");
    FailedSet failed;
    failed.insert(2);
    Broadcast stand_in(five, Position{0}, 0, failed, false);
    EXPECT_TRUE(drain(stand_in).empty());
    EXPECT_EQ(stand_in.result(), BroadcastResult::pending);
    stand_in.origin_lost();
    EXPECT_EQ(stand_in.result(), BroadcastResult::root_failed);
    const std::vector<Message> verdicts = drain(stand_in);
    ASSERT_EQ(verdicts.size(), 3U);
    for (const Message& message : verdicts)
        EXPECT_EQ(message.kind, MessageKind::verdict);
    EXPECT_TRUE(stand_in.finished());
    stand_in.peer_restarted(Position{3});
    EXPECT_EQ(drain(stand_in).size(), 3U);

    Broadcast three(five, Position{3}, 0, failed, false);
    EXPECT_TRUE(three.receive({MessageKind::verdict, Position{0}, Position{3}, 0}));
    EXPECT_EQ(three.result(), BroadcastResult::root_failed);
    EXPECT_TRUE(drain(three).empty());
    EXPECT_TRUE(three.finished());
}

// A query overtaken by a later one of the same asker must not be answered in its stead.
TEST(Machine, AnswersTheLaterRoundInWhateverOrderTheyCame) {
    const BroadcastPlan four = plan("star", 6, "checked");
    FailedSet failed;
    failed.insert(0);
    failed.insert(1);
    Broadcast four_th(four, Position{4}, 0, failed, false);
    EXPECT_TRUE(four_th.receive({MessageKind::query, Position{2}, Position{4}, 2}));
    EXPECT_TRUE(four_th.receive({MessageKind::query, Position{2}, Position{4}, 1}));
    const std::vector<Message> answers = drain(four_th);
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0], (Message{MessageKind::denial, Position{4}, Position{2}, 2}));
}

// It was given before its sender knew of the death that began the new round.
TEST(Denial, OfAnEarlierRoundDoesNotCount) {
    const BroadcastPlan five = plan("star", 5, "checked");
    FailedSet failed;
    failed.insert(0);
    Broadcast coordinator(five, Position{1}, 0, failed, false);
    ASSERT_EQ(drain(coordinator).size(), 3U);
    failed.insert(4);
    coordinator.peer_failed(Position{4});
    EXPECT_TRUE(coordinator.receive({MessageKind::denial, Position{2}, Position{1}, 1}));
    EXPECT_TRUE(coordinator.receive({MessageKind::denial, Position{3}, Position{1}, 2}));
    EXPECT_EQ(coordinator.result(), BroadcastResult::pending);
    EXPECT_TRUE(coordinator.receive({MessageKind::denial, Position{2}, Position{1}, 2}));
    EXPECT_EQ(coordinator.result(), BroadcastResult::root_failed);
    const std::vector<Message> verdicts = drain(coordinator);
    ASSERT_EQ(verdicts.size(), 2U) << "for 2 and 3";
    EXPECT_EQ(verdicts[0].kind, MessageKind::verdict);
}

TEST(Machine, TheCoordinatorAsksSixtyFourAtATime) {
    const BroadcastPlan wide = plan("binomial", 200, "opportunistic:1");
    FailedSet failed;
    failed.insert(0);
    Broadcast one(wide, Position{1}, 0, failed, false);
    std::uint32_t asked = 0;
    for (std::vector<Message> queries = drain(one); !queries.empty() && queries[0].kind == MessageKind::query;
         queries = drain(one)) {
        EXPECT_LE(queries.size(), 64U);
        asked += static_cast<std::uint32_t>(queries.size());
        EXPECT_EQ(one.result(), BroadcastResult::pending);
        for (const Message& query : queries) {
            EXPECT_TRUE(one.receive({MessageKind::denial, query.to, Position{1}, query.detail}));
        }
    }
    EXPECT_EQ(one.result(), BroadcastResult::root_failed);
    EXPECT_EQ(asked, 198U);
}

TEST(Machine, NothingIsAllocatedAfterConstruction) {
    { const auto counted = std::make_unique<int>(1); }
    EXPECT_GT(coppice::testing::allocations_so_far().objects, 0U);
    for (const char* correction : {"none", "ack", "checked", "opportunistic:2", "optimized:4",
                                   "optimized:4:one-directional", "optimized-paper:4"}) {
        const BroadcastPlan shared = plan("lame:2", 300, correction);
        FailedSet failed;
        failed.insert(17);
        failed.insert(40);
        const std::uint64_t before = coppice::testing::allocations_so_far().objects;
        std::uint64_t sends = 0;
        for (std::uint32_t position = 0; position < 300; ++position) {
            Broadcast machine(shared, Position{position}, 11, failed, position == 0);
            if (position != 0) {
                machine.receive({MessageKind::tree, *shared.tree.parent(Position{position}), Position{position}, 0});
            }
            machine.receive({MessageKind::correction_left, Position{(position + 3) % 300}, Position{position}, 0});
            while (machine.next_send(Nanoseconds{0}))
                ++sends;
            machine.peer_failed(Position{(40 + 300 - 11) % 300});
            machine.peer_restarted(Position{(position + 1) % 300});
            while (machine.next_send(Nanoseconds{0}))
                ++sends;
        }
        EXPECT_EQ(coppice::testing::allocations_so_far().objects, before) << correction;
        EXPECT_GT(sends, 200U);
    }
}

}  // namespace
}  // namespace coppice::protocol
