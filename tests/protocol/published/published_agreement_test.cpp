// Published agreements by hand. Every schedule of small groups, and random ones of larger groups, are driven by the
// explorer and by seeds (tests/simulation/explore).
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "protocol/published/published_agreement.hpp"
#include "simulation/explore/board_memory.hpp"

namespace coppice::protocol {
namespace {

using Memory = simulation::BoardMemory;
using View = simulation::BoardView;

constexpr std::uint32_t kWindow = 2;
constexpr Operation kOr{Operator::bit_or, Element::u8, nullptr, nullptr};

AgreementPlan plan_of(std::uint32_t ranks, const char* tree) {
    return {.tree = *AgreementTree::make(*parse_agreement_tree(tree), ranks, nullptr, {}), .window = kWindow};
}

TEST(PublishedAgreement, NobodyNeedsAMessageWhileNobodyDies) {
    const AgreementPlan plan = plan_of(3, "star");
    Memory memory(3, kWindow);
    std::vector<std::unique_ptr<View>> views;
    std::vector<std::unique_ptr<PublishedAgreement>> machines;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        views.push_back(std::make_unique<View>(memory, rank));
        machines.push_back(std::make_unique<PublishedAgreement>(plan, Rank{rank}, *views.back()));
    }
    for (std::uint64_t number = 0; number < 20; ++number) {
        for (std::uint32_t rank = 0; rank < 3; ++rank) {
            const std::uint64_t value = std::uint64_t{1} << rank;
            EXPECT_EQ(machines[rank]->contribute(kOr, std::as_bytes(std::span(&value, 1)))->value, number);
            machines[rank]->look(true);
            EXPECT_EQ(machines[rank]->decided(Sequence{number}), rank == 2);
        }
        for (const auto& machine : machines) {
            machine->look(true);
            ASSERT_TRUE(machine->decided(Sequence{number}));
            EXPECT_EQ(std::to_integer<int>(machine->outcome(Sequence{number})->value[0]), 7);
            EXPECT_FALSE(machine->wants_to_send());
            EXPECT_EQ(machine->recoveries(), 0U);
        }
    }
}

TEST(PublishedAgreement, TheWindowBoundsHowManyAreUnderWay) {
    const AgreementPlan plan = plan_of(2, "star");
    Memory memory(2, kWindow);
    View view(memory, 0);
    PublishedAgreement machine(plan, Rank{0}, view);
    for (std::uint32_t i = 0; i < kWindow; ++i)
        EXPECT_TRUE(machine.contribute(kOr, {}).has_value());
    EXPECT_FALSE(machine.contribute(kOr, {}).has_value());
    std::vector<std::uint32_t> waited_for;
    machine.waiting_for(Sequence{0}, [&](Rank rank) {
        waited_for.push_back(rank.value);
        return true;
    });
    EXPECT_EQ(waited_for, std::vector<std::uint32_t>{1});
}

// Ranks 0 and 1 take rank 2 for dead while it lives and has contributed to the first agreement.
class Suspected : public ::testing::Test {
  protected:
    Suspected() : plan_(plan_of(3, "star")), memory_(3, kWindow) {
        for (std::uint32_t rank = 0; rank < 3; ++rank) {
            views_.push_back(std::make_unique<View>(memory_, rank));
            machines_.push_back(std::make_unique<PublishedAgreement>(plan_, Rank{rank}, *views_.back()));
        }
    }
    void contribute(std::uint32_t rank) {
        const std::byte bit{static_cast<unsigned char>(1U << rank)};
        ASSERT_TRUE(machines_[rank]->contribute(kOr, std::span(&bit, 1)));
    }
    void suspect() {
        memory_.shut_out[2] = true;
        for (std::uint32_t rank = 0; rank < 2; ++rank)
            machines_[rank]->peer_failed(Rank{2});
    }
    // Until nothing more happens among ranks 0 and 1.
    void go_on() {
        for (bool moved = true; moved;) {
            moved = false;
            for (std::uint32_t rank = 0; rank < 2; ++rank) {
                machines_[rank]->look(true);
                while (const auto message = machines_[rank]->next_send(Nanoseconds{0})) {
                    moved = true;
                    if (message->to.value < 2) machines_[message->to.value]->receive(*message);
                }
            }
        }
    }
    std::uint32_t value_at(std::uint32_t rank) {
        const auto outcome = machines_[rank]->outcome(Sequence{0});
        return outcome ? std::to_integer<std::uint32_t>(outcome->value[0]) : 0;
    }

    AgreementPlan plan_;
    Memory memory_;
    std::vector<std::unique_ptr<View>> views_;
    std::vector<std::unique_ptr<PublishedAgreement>> machines_;
};

TEST_F(Suspected, ARankThatDecidedBeforeTheSuspicionDecidedAsTheOthersWill) {
    for (std::uint32_t rank = 0; rank < 3; ++rank)
        contribute(rank);
    machines_[2]->look(false);
    ASSERT_TRUE(machines_[2]->decided(Sequence{0}));
    suspect();
    go_on();
    for (std::uint32_t rank = 0; rank < 3; ++rank)
        EXPECT_EQ(value_at(rank), 7U) << rank;
}

TEST_F(Suspected, ARankThatLooksAfterwardsDecidesNothingAndKnowsWhy) {
    contribute(0);
    contribute(1);
    suspect();
    go_on();
    EXPECT_EQ(value_at(0), 3U);
    EXPECT_EQ(value_at(1), 3U);
    // It was stopped, and goes on as if nothing had been: all contributions are there.
    contribute(2);
    machines_[2]->look(false);
    EXPECT_FALSE(machines_[2]->decided(Sequence{0}));
    EXPECT_TRUE(machines_[2]->fenced());
}

// Also by ranks that have not looked yet when the one that differs is dead.
TEST_F(Suspected, ADifferentOperationIsSeenByAll) {
    contribute(0);
    contribute(1);
    const std::byte bit{4};
    ASSERT_TRUE(machines_[2]->contribute({Operator::bit_and, Element::u8, nullptr, nullptr}, std::span(&bit, 1)));
    machines_[0]->look(false);
    machines_[1]->peer_failed(Rank{2});
    machines_[1]->look(false);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        ASSERT_TRUE(machines_[rank]->decided(Sequence{0})) << rank;
        EXPECT_TRUE(machines_[rank]->outcome(Sequence{0})->mismatched) << rank;
        EXPECT_EQ(machines_[rank]->who_differs(Sequence{0}), Rank{2}) << rank;
    }
}

// Rank 0 has seen the word of rank 1 already when that one and rank 2 turn out to be dead.
TEST_F(Suspected, AWordOfAChangeCountsOnlyWithItsContribution) {
    machines_[1]->set_change_waits(true);
    contribute(0);
    contribute(1);
    machines_[0]->look(false);
    for (const std::uint32_t dead : {1U, 2U})
        machines_[0]->peer_failed(Rank{dead});
    machines_[0]->look(true);
    while (machines_[0]->next_send(Nanoseconds{0})) {
    }
    machines_[0]->look(true);
    ASSERT_TRUE(machines_[0]->decided(Sequence{0}));
    EXPECT_EQ(value_at(0), 1U);
    EXPECT_FALSE(machines_[0]->outcome(Sequence{0})->change_waits);
}

TEST_F(Suspected, WhatAllHaveAcknowledgedIsNoNews) {
    contribute(0);
    contribute(1);
    suspect();
    go_on();
    for (std::uint32_t rank = 0; rank < 2; ++rank)
        EXPECT_FALSE(machines_[rank]->outcome(Sequence{0})->acknowledged) << rank;
    const auto is_no_news = [&](std::uint64_t number) {
        contribute(0);
        contribute(1);
        go_on();
        return machines_[0]->outcome(Sequence{number})->acknowledged &&
               machines_[1]->outcome(Sequence{number})->acknowledged;
    };
    machines_[0]->acknowledge(*machines_[0]->agreed(Sequence{0}));
    EXPECT_FALSE(is_no_news(1)) << "one of them has not";
    machines_[1]->acknowledge(*machines_[1]->agreed(Sequence{0}));
    EXPECT_TRUE(is_no_news(2));
}

TEST_F(Suspected, ARankShutOutInARecoverySaysNothingToRanksThatDoNotKnow) {
    contribute(2);
    machines_[2]->peer_failed(Rank{0});
    machines_[2]->look(false);
    ASSERT_TRUE(machines_[2]->recovering());
    ASSERT_TRUE(machines_[2]->wants_to_send());
    suspect();
    EXPECT_FALSE(machines_[2]->next_send(Nanoseconds{0}).has_value());
    EXPECT_TRUE(machines_[2]->fenced());
    EXPECT_FALSE(machines_[2]->wants_to_send());
}

// Ranks 0 and 1 share a cache, 2 and 3 another one.
class ByCaches : public ::testing::Test {
  protected:
    ByCaches() : plan_(plan_of(4, "star")), memory_(4, kWindow) {
        const std::vector<std::uint64_t> cache_of{0, 0, 1, 1};
        domains_ = topology::Nodes::by_host(cache_of);
        for (std::uint32_t rank = 0; rank < 4; ++rank) {
            views_.push_back(std::make_unique<View>(memory_, rank));
            machines_.push_back(std::make_unique<PublishedAgreement>(plan_, Rank{rank}, *views_.back(), &*domains_));
        }
    }
    void contribute(std::uint32_t rank, const Operation& operation = kOr) {
        const std::byte bit{static_cast<unsigned char>(1U << rank)};
        ASSERT_TRUE(machines_[rank]->contribute(operation, std::span(&bit, 1)));
    }
    bool decides(std::uint32_t rank) {
        machines_[rank]->look(false);
        return machines_[rank]->decided(Sequence{0});
    }

    AgreementPlan plan_;
    Memory memory_;
    std::optional<topology::Nodes> domains_;
    std::vector<std::unique_ptr<View>> views_;
    std::vector<std::unique_ptr<PublishedAgreement>> machines_;
};

TEST_F(ByCaches, TheLowestOfEachSpeaksForAll) {
    for (std::uint32_t rank = 0; rank < 4; ++rank)
        contribute(rank);
    EXPECT_FALSE(decides(1));
    EXPECT_TRUE(machines_[2]->owes_summary());
    EXPECT_FALSE(machines_[3]->owes_summary());
    EXPECT_FALSE(decides(2)) << "rank 0 has not looked";
    EXPECT_FALSE(machines_[2]->owes_summary());
    for (const std::uint32_t rank : {0U, 1U, 2U, 3U}) {
        ASSERT_TRUE(decides(rank)) << rank;
        EXPECT_EQ(std::to_integer<int>(machines_[rank]->outcome(Sequence{0})->value[0]), 15);
        EXPECT_EQ(machines_[rank]->recoveries(), 0U);
    }
}

TEST_F(ByCaches, ASpeakerThatHasNotLookedIsWaitedForByName) {
    for (std::uint32_t rank = 0; rank < 4; ++rank)
        contribute(rank);
    ASSERT_FALSE(decides(0));
    std::vector<std::uint32_t> waited_for;
    machines_[0]->waiting_for(Sequence{0}, [&](Rank rank) {
        waited_for.push_back(rank.value);
        return true;
    });
    EXPECT_EQ(waited_for, std::vector<std::uint32_t>{2});
}

// What it has read may have been written again.
TEST_F(ByCaches, ASpeakerThatIsShutOutSaysNothing) {
    for (std::uint32_t rank = 0; rank < 4; ++rank)
        contribute(rank);
    memory_.shut_out[0] = true;
    EXPECT_FALSE(decides(0));
    EXPECT_TRUE(machines_[0]->fenced());
    Summary summary;
    EXPECT_FALSE(views_[1]->look_summary(0, 0, 0, summary));
}

TEST_F(ByCaches, ADifferentOperationIsSeenInBoth) {
    for (std::uint32_t rank = 0; rank < 4; ++rank)
        contribute(rank, rank == 3 ? Operation{Operator::bit_and, Element::u8, nullptr, nullptr} : kOr);
    decides(0);
    decides(2);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
        ASSERT_TRUE(decides(rank)) << rank;
        EXPECT_TRUE(machines_[rank]->outcome(Sequence{0})->mismatched) << rank;
    }
    for (std::uint32_t rank = 0; rank < 3; ++rank)
        EXPECT_EQ(machines_[rank]->who_differs(Sequence{0}), Rank{3}) << rank;
}

}  // namespace
}  // namespace coppice::protocol
