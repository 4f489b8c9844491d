// Which rank is asked, and how much is asked for.
#include <gtest/gtest.h>

#include "protocol/pull/pull.hpp"
#include "topology/pipeline.hpp"

namespace coppice::protocol {
namespace {

constexpr Nanoseconds kStart{0};
constexpr Nanoseconds kPatience{100};

class PullRules : public ::testing::Test {
  protected:
    Pull machine(std::uint32_t self, std::uint32_t chunks) {
        Pull made(plan_, Rank(self), Rank(0), {});
        made.learn(chunks);
        return made;
    }
    static PullMessage from(std::uint32_t rank, std::uint32_t self, PullKind kind, std::uint32_t first = 0,
                            std::uint32_t end = 0) {
        return {.kind = kind, .from = Rank(rank), .to = Rank(self), .first = first, .end = end};
    }

    // Hosts of two ranks.
    const std::vector<std::uint64_t> hosts_{0, 0, 1, 1, 2, 2};
    const topology::Nodes nodes_ = topology::Nodes::by_host(hosts_);
    const PullPlan plan_{.nodes = &nodes_, .credit = 4, .patience = kPatience};
};

TEST_F(PullRules, ALeaderAsksTheLeaderBeforeItAndOthersTheirLeader) {
    EXPECT_EQ(machine(4, 1).next_send(kStart)->to, Rank(2));
    EXPECT_EQ(machine(5, 1).next_send(kStart)->to, Rank(4));
    EXPECT_EQ(machine(1, 1).next_send(kStart)->to, Rank(0));
}

TEST_F(PullRules, WhatIsAskedForGrowsWithWhatIsHere) {
    Pull pull = machine(2, 100);
    EXPECT_EQ(*pull.next_send(kStart), from(2, 0, PullKind::ask, 0, 4));
    EXPECT_FALSE(pull.next_send(kStart));
    for (const std::uint32_t chunk : {0U, 1U})
        EXPECT_TRUE(pull.receive(from(0, 2, PullKind::chunk, chunk)));
    EXPECT_EQ(*pull.next_send(kStart), from(2, 0, PullKind::credit, 0, 6));
    EXPECT_FALSE(pull.next_send(kStart));
}

TEST_F(PullRules, TheNextSourceIsAskedForWhatIsLacking) {
    Pull pull = machine(4, 8);
    pull.next_send(kStart);
    pull.receive(from(2, 4, PullKind::chunk, 0));
    pull.peer_failed(Rank(2));
    EXPECT_EQ(*pull.next_send(kStart), from(4, 3, PullKind::ask, 1, 5));
    pull.peer_failed(Rank(3));
    EXPECT_EQ(*pull.next_send(kStart), from(4, 0, PullKind::ask, 1, 5));
}

TEST_F(PullRules, ASilentSourceIsToldToStopAndTheNextOneIsAsked) {
    Pull pull = machine(4, 8);
    pull.next_send(kStart);
    EXPECT_EQ(pull.next_timer(), kPatience);
    EXPECT_FALSE(pull.next_send(Nanoseconds{99}));
    EXPECT_EQ(*pull.next_send(kPatience), from(4, 2, PullKind::ask));
    EXPECT_EQ(*pull.next_send(kPatience), from(4, 0, PullKind::ask, 0, 4));
    EXPECT_TRUE(pull.receive(from(2, 4, PullKind::chunk, 0))) << "what it sends after all is good";
    EXPECT_EQ(pull.have(), 1U);
}

TEST_F(PullRules, EverybodyIsAskedInTheEnd) {
    Pull pull = machine(4, 1);
    std::vector<bool> asked(6);
    Nanoseconds now = kStart;
    for (int i = 0; i < 12; ++i) {
        while (const auto next = pull.next_send(now))
            asked[next->to.value] = true;
        now.value += kPatience.value;
    }
    EXPECT_EQ(asked, (std::vector<bool>{true, true, true, true, false, true}));
}

// All of them may need longer than this one is patient.
TEST_F(PullRules, WhenAllHaveBeenLeftEachIsGivenTwiceTheTime) {
    Pull pull = machine(4, 1);
    std::vector<std::uint64_t> waits;
    Nanoseconds now = kStart;
    for (int i = 0; i < 70; ++i) {
        while (pull.next_send(now)) {
        }
        waits.push_back(pull.next_timer().value - now.value);
        now = pull.next_timer();
    }
    EXPECT_EQ(waits[0], kPatience.value);
    EXPECT_EQ(waits[5], kPatience.value) << "six ranks";
    EXPECT_EQ(waits[6], 2 * kPatience.value);
    EXPECT_EQ(waits[12], 4 * kPatience.value);
    EXPECT_EQ(waits.back(), 128 * kPatience.value) << "and no longer";
}

TEST_F(PullRules, AChunkThatComesDamagedIsAskedOfAnother) {
    Pull pull = machine(4, 8);
    pull.next_send(kStart);
    pull.spoiled(Rank(2));
    EXPECT_EQ(*pull.next_send(kStart), from(4, 2, PullKind::ask));
    EXPECT_EQ(*pull.next_send(kStart), from(4, 0, PullKind::ask, 0, 4));
}

TEST_F(PullRules, WhatComesFromElsewhereIsNotAskedForAnyMore) {
    Pull pull = machine(4, 2);
    pull.next_send(kStart);
    pull.next_send(kPatience);
    EXPECT_EQ(*pull.next_send(kPatience), from(4, 0, PullKind::ask, 0, 2));
    for (const std::uint32_t chunk : {0U, 1U})
        EXPECT_TRUE(pull.receive(from(2, 4, PullKind::chunk, chunk)));
    EXPECT_EQ(pull.result(), PullResult::complete);
    EXPECT_EQ(*pull.next_send(kPatience), from(4, 0, PullKind::ask));
    EXPECT_FALSE(pull.next_send(kPatience));
}

// What is asked of it before leaves when it is there; what others may say is there does not count.
TEST_F(PullRules, ARootThatFillsItsMemorySendsWhatIsThereAndTakesNothing) {
    Pull root(plan_, Rank(0), Rank(0), {});
    root.hold(3, 0);
    EXPECT_TRUE(root.receive(from(1, 0, PullKind::ask, 0, 3)));
    EXPECT_FALSE(root.takes(0));
    EXPECT_TRUE(root.receive(from(1, 0, PullKind::chunk, 0)));
    EXPECT_EQ(root.have(), 0U);
    EXPECT_FALSE(root.next_send(kStart));
    EXPECT_EQ(root.next_timer(), kNever);
    EXPECT_EQ(root.result(), PullResult::pending);
    root.hold(3, 2);
    std::vector<std::uint32_t> chunks;
    while (const auto next = root.next_send(kStart))
        chunks.push_back(next->first);
    EXPECT_EQ(chunks, (std::vector<std::uint32_t>{0, 1}));
    root.hold(3, 3);
    EXPECT_EQ(root.result(), PullResult::complete);
}

TEST_F(PullRules, ThreeStreamsGetTheirChunksInTurn) {
    Pull root(plan_, Rank(0), Rank(0), {});
    root.hold(2);
    for (const std::uint32_t rank : {1U, 2U, 3U})
        root.receive(from(rank, 0, PullKind::ask, 0, 2));
    std::vector<std::uint32_t> chunks;
    while (const auto next = root.next_send(kStart))
        chunks.push_back(next->first);
    EXPECT_EQ(chunks, (std::vector<std::uint32_t>{0, 0, 0, 1, 1, 1}));
}

// Another rank may have said that it has everything, and died.
TEST_F(PullRules, ACoordinatorAsksOnThoughTheRankThatIsSaidToHaveEverythingIsDead) {
    Pull pull = machine(1, 4);
    pull.peer_failed(Rank(0));
    pull.peer_failed(Rank(2));
    EXPECT_TRUE(pull.receive(from(3, 1, PullKind::complete, 2)));
    std::vector<std::uint32_t> asked;
    while (const auto next = pull.next_send(kStart)) {
        if (next->kind == PullKind::query) asked.push_back(next->to.value);
    }
    EXPECT_EQ(asked, (std::vector<std::uint32_t>{3, 4, 5}));
}

TEST_F(PullRules, NothingIsSentToThoseThatAreKnownToBeDead) {
    Pull root(plan_, Rank(0), Rank(0), {});
    root.hold(2);
    for (const std::uint32_t rank : {1U, 2U})
        EXPECT_TRUE(root.receive(from(rank, 0, PullKind::ask, 0, 2)));
    root.peer_failed(Rank(1));
    while (const auto next = root.next_send(kStart))
        EXPECT_EQ(next->to, Rank(2));

    Pull coordinator = machine(1, 4);
    coordinator.peer_failed(Rank(0));
    for (const std::uint32_t rank : {2U, 3U})
        EXPECT_TRUE(coordinator.receive(from(rank, 1, PullKind::need)));
    EXPECT_TRUE(coordinator.receive(from(4, 1, PullKind::complete, 4)));
    coordinator.peer_failed(Rank(2));
    std::vector<std::uint32_t> told;
    while (const auto next = coordinator.next_send(kStart)) {
        EXPECT_NE(next->to, Rank(2));
        if (next->kind == PullKind::complete) told.push_back(next->to.value);
    }
    EXPECT_EQ(told, std::vector<std::uint32_t>{3});
}

TEST_F(PullRules, OnlyTheLowestAsksWhoHasEverything) {
    Pull pull = machine(2, 4);
    pull.peer_failed(Rank(0));
    EXPECT_FALSE(pull.receive(from(3, 2, PullKind::query, 1))) << "this one is lower, and lives";
    EXPECT_TRUE(pull.receive(from(1, 2, PullKind::query, 1)));
}

TEST_F(PullRules, WhatCannotBeIsRefused) {
    Pull pull = machine(2, 4);
    EXPECT_FALSE(pull.receive(from(2, 2, PullKind::ask))) << "from itself";
    EXPECT_FALSE(pull.receive(from(6, 2, PullKind::ask))) << "there are six ranks";
    EXPECT_FALSE(pull.receive(from(3, 2, PullKind::ask, 2, 1)));
    EXPECT_FALSE(pull.receive(from(3, 2, PullKind::ask, 0, 5))) << "there are four chunks";
    EXPECT_FALSE(pull.receive(from(3, 2, PullKind::credit, 0, 2))) << "nothing was asked for";
    EXPECT_FALSE(pull.receive(from(0, 2, PullKind::chunk, 4)));
    EXPECT_FALSE(pull.receive(from(1, 2, PullKind::query, 1))) << "the root lives";
    EXPECT_FALSE(pull.receive(from(1, 2, PullKind::complete, 6)));
    EXPECT_TRUE(pull.receive(from(0, 2, PullKind::chunk, 3))) << "early, and not taken";
    EXPECT_EQ(pull.have(), 0U);
}

// Those that are to ask this rank first, and those that have asked it.
TEST_F(PullRules, ARankIsWantedUntilAllWhoseFirstSourceItIsHaveEverything) {
    Pull root(plan_, Rank(0), Rank(0), {});
    root.hold(2);
    EXPECT_TRUE(root.is_wanted()) << "rank 1 on its host, rank 2 behind it";
    for (const std::uint32_t rank : {1U, 2U}) {
        root.receive(from(rank, 0, PullKind::ask, 0, 2));
        while (root.next_send(kStart)) {
        }
        EXPECT_EQ(root.is_wanted(), rank == 1);
    }
    root.receive(from(5, 0, PullKind::ask, 1, 2));
    EXPECT_TRUE(root.is_wanted()) << "one that need not have asked";
    root.receive(from(5, 0, PullKind::ask));
    EXPECT_FALSE(root.is_wanted()) << "it has found another source";
}

TEST_F(PullRules, NobodyWantsARankThatIsNotCompleteOrIsTheLast) {
    Pull last = machine(5, 1);
    EXPECT_FALSE(last.is_wanted());
    Pull relay = machine(2, 1);
    EXPECT_FALSE(relay.is_wanted()) << "nothing is here yet";
    relay.receive(from(0, 2, PullKind::chunk, 0));
    EXPECT_TRUE(relay.is_wanted());
    for (const std::uint32_t rank : {3U, 4U, 5U})
        relay.peer_failed(Rank(rank));
    EXPECT_FALSE(relay.is_wanted()) << "all behind it are dead";
    last.receive(from(4, 5, PullKind::chunk, 0));
    EXPECT_FALSE(last.is_wanted());
}

TEST_F(PullRules, WhereARankShowsItsChunksItsHostNeedNotAsk) {
    PullPlan plan = plan_;
    plan.shows = true;
    Pull leader(plan, Rank(4), Rank(0), {});
    leader.learn(1);
    leader.receive(from(2, 4, PullKind::chunk, 0));
    EXPECT_FALSE(leader.is_wanted());
    leader.receive(from(5, 4, PullKind::ask, 0, 1));
    EXPECT_TRUE(leader.is_wanted()) << "it could not map the memory";
}

// Its rank has not been asked for anything, so it is told of nothing.
TEST_F(PullRules, ARankThatShowsWhatCannotBeIsLeftForTheNextOne) {
    PullPlan plan = plan_;
    plan.shows = true;
    Pull pull(plan, Rank(5), Rank(0), {});
    pull.learn(4);
    pull.shown(Rank(4), 1);
    EXPECT_EQ(pull.watched(), Rank(4));
    pull.spoiled(Rank(3));
    EXPECT_EQ(pull.watched(), Rank(4)) << "nobody looks at what rank 3 shows";
    pull.spoiled(Rank(4));
    EXPECT_FALSE(pull.watched());
    EXPECT_EQ(*pull.next_send(kStart), from(5, 2, PullKind::ask, 1, 4));
    EXPECT_FALSE(pull.next_send(kStart));
    pull.shown(Rank(4), 4);
    EXPECT_EQ(pull.have(), 1U);
}

// One that says that it has all chunks is asked first, and has to send them.
TEST_F(PullRules, ARankThatSaysThatItHasEverythingAndSendsNothingIsLeftForTheOthers) {
    Pull pull = machine(4, 2);
    pull.peer_failed(Rank(0));
    EXPECT_TRUE(pull.receive(from(1, 4, PullKind::complete, 3)));
    EXPECT_EQ(pull.result(), PullResult::pending);
    std::vector<bool> asked(6);
    Nanoseconds now = kStart;
    for (int i = 0; i < 12; ++i) {
        while (const auto next = pull.next_send(now)) {
            if (next->kind != PullKind::ask || next->end == 0) continue;
            if (now == kStart) {
                EXPECT_EQ(next->to, Rank(3));
            }
            asked[next->to.value] = true;
        }
        now.value += kPatience.value;
    }
    EXPECT_EQ(asked, (std::vector<bool>{false, true, true, true, false, true}));
    EXPECT_EQ(pull.have(), 0U);
}

// Of a payload of 1 TiB in chunks of 1 KiB, which are as many as there may be.
TEST_F(PullRules, TheLastChunksOfTheLargestPayloadAreAskedForAndServed) {
    constexpr std::uint32_t kAll = 1U << 30;
    PullPlan plan = plan_;
    plan.shows = true;
    Pull pull(plan, Rank(5), Rank(0), {});
    pull.learn(kAll);
    pull.shown(Rank(4), kAll / 2);
    pull.not_shown(Rank(4));
    EXPECT_EQ(*pull.next_send(kStart), from(5, 4, PullKind::ask, kAll / 2, kAll / 2 + 4));
    Pull last(plan, Rank(5), Rank(0), {});
    last.learn(kAll);
    last.shown(Rank(4), kAll + 1);
    EXPECT_EQ(last.have(), 0U) << "there are not so many";
    last.shown(Rank(4), kAll - 3);
    last.not_shown(Rank(4));
    EXPECT_EQ(*last.next_send(kStart), from(5, 4, PullKind::ask, kAll - 3, kAll));
    Pull root(plan_, Rank(0), Rank(0), {});
    root.hold(kAll);
    EXPECT_FALSE(root.receive(from(2, 0, PullKind::ask, kAll - 3, kAll + 1)));
    EXPECT_FALSE(root.receive(from(2, 0, PullKind::ask, 0, UINT32_MAX)));
    EXPECT_TRUE(root.receive(from(2, 0, PullKind::ask, kAll - 3, kAll)));
    for (std::uint32_t chunk = kAll - 3; chunk < kAll; ++chunk) {
        EXPECT_EQ(*root.next_send(kStart), from(0, 2, PullKind::chunk, chunk));
        EXPECT_TRUE(last.receive(from(4, 5, PullKind::chunk, chunk)));
    }
    EXPECT_FALSE(root.next_send(kStart));
    EXPECT_EQ(last.result(), PullResult::complete);
}

TEST(Pipeline, TargetsAreTheInverseOfSources) {
    for (const std::uint32_t positions :
         {1U, 2U, 5U, topology::kLongestChain, topology::kLongestChain + 1, 18U, 1000U}) {
        std::uint32_t targets = 0;
        for (std::uint32_t position = 0; position < positions; ++position) {
            const auto [first, count] = topology::pipeline_targets(Position(position), positions);
            targets += count;
            for (std::uint32_t i = 0; i < count; ++i)
                EXPECT_EQ(topology::pipeline_source(Position(first + i), positions), Position(position));
        }
        EXPECT_EQ(targets, positions - 1) << positions;
    }
}

TEST(Pipeline, EveryPathLeadsToTheRoot) {
    for (const std::uint32_t positions : {2U, 5U, topology::kLongestChain, topology::kLongestChain + 1, 1000U}) {
        for (std::uint32_t position = 1; position < positions; ++position)
            EXPECT_LT(topology::pipeline_source(Position(position), positions).value, position);
    }
}

}  // namespace
}  // namespace coppice::protocol
