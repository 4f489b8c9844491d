// Values, windows, results and bad input, without failures; and that nothing is allocated then.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "plans.hpp"
#include "support/allocations.hpp"

namespace coppice::protocol::testing {
namespace {

// Messages arrive at once, in the order of sending, until nobody has anything to say.
void settle(std::vector<Agreement>& group) {
    for (bool moved = true; moved;) {
        moved = false;
        for (Agreement& machine : group) {
            while (const auto message = machine.next_send(Nanoseconds{0})) {
                moved = true;
                ASSERT_EQ(group[message->to.value].receive(*message), Reception::taken);
            }
        }
    }
}

std::vector<Agreement> group_of(const AgreementPlan& plan) {
    std::vector<Agreement> group;
    for (std::uint32_t rank = 0; rank < plan.tree.ranks(); ++rank)
        group.emplace_back(plan, Rank{rank});
    return group;
}

template <class Number>
std::span<const std::byte> bytes_of(const Number& number) {
    return std::as_bytes(std::span(&number, 1));
}

template <class Number>
Number value_of(const Agreement& machine, Sequence agreement) {
    Number number{};
    const auto outcome = machine.outcome(agreement);
    EXPECT_TRUE(outcome.has_value());
    EXPECT_EQ(outcome->value.size(), sizeof(Number));
    std::memcpy(&number, outcome->value.data(), sizeof(Number));
    return number;
}

const char* const kTrees[] = {"binary", "binomial", "kary:5", "star", "chain", "lame:2"};

TEST(Agreement, EverybodyGetsTheCombinationOfAllContributions) {
    for (const char* tree : kTrees) {
        for (std::uint32_t ranks = 1; ranks <= 40; ++ranks) {
            const AgreementPlan plan = plan_of(tree, ranks);
            std::vector<Agreement> group = group_of(plan);
            for (std::uint32_t rank = 0; rank < ranks; ++rank) {
                const std::int32_t mine = (rank * 17) % ranks == 0 ? -5 - static_cast<std::int32_t>(rank) : 3;
                ASSERT_EQ(group[rank].contribute({Operator::min, Element::i32, nullptr, nullptr}, bytes_of(mine)),
                          Sequence{0});
            }
            settle(group);
            for (const Agreement& machine : group) {
                ASSERT_TRUE(machine.decided(Sequence{0}));
                EXPECT_LT(value_of<std::int32_t>(machine, Sequence{0}), 0) << tree << ranks;
                EXPECT_EQ(value_of<std::int32_t>(machine, Sequence{0}), value_of<std::int32_t>(group[0], Sequence{0}));
                EXPECT_TRUE(machine.outcome(Sequence{0})->failed->empty());
                EXPECT_TRUE(machine.outcome(Sequence{0})->acknowledged);
            }
        }
    }
}

TEST(Agreement, TakesTwoMessagesForEachRankButOne) {
    const AgreementPlan plan = plan_of("binary", 100);
    std::vector<Agreement> group = group_of(plan);
    const std::uint64_t value = 7;
    for (Agreement& machine : group)
        machine.contribute({}, bytes_of(value));
    std::map<AgreementKind, int> sent;
    for (bool moved = true; moved;) {
        moved = false;
        for (Agreement& machine : group) {
            while (const auto message = machine.next_send(Nanoseconds{0})) {
                moved = true;
                ++sent[message->kind];
                EXPECT_EQ(message->body.size(), body_bytes(8));
                group[message->to.value].receive(*message);
            }
        }
    }
    EXPECT_EQ(sent[AgreementKind::up], 99);
    EXPECT_EQ(sent[AgreementKind::down], 99);
    EXPECT_EQ(sent[AgreementKind::result_request], 0);
}

TEST(Agreement, ValuesMayBeEmptyAndUpToTheMaximum) {
    AgreementPlan plan = plan_of("binary", 5);
    plan.max_value = AgreementPlan::kMaxValue;
    std::vector<Agreement> group = group_of(plan);
    std::vector<std::byte> value(AgreementPlan::kMaxValue);
    for (std::uint32_t rank = 0; rank < 5; ++rank) {
        group[rank].contribute({Operator::bit_or}, {});
        settle(group);
    }
    EXPECT_TRUE(group[4].outcome(Sequence{0})->value.empty());
    for (std::uint32_t rank = 0; rank < 5; ++rank) {
        std::fill(value.begin(), value.end(), static_cast<std::byte>(1U << rank));
        group[rank].contribute({Operator::bit_or}, value);
    }
    settle(group);
    std::fill(value.begin(), value.end(), std::byte{31});
    EXPECT_TRUE(std::ranges::equal(group[3].outcome(Sequence{1})->value, value));
}

TEST(Agreement, AllAreToldWhetherSomeContributorKnowsOfAChange) {
    for (const std::uint32_t knows : {0U, 3U, 4U, 99U}) {
        const AgreementPlan plan = plan_of("binary", 5);
        std::vector<Agreement> group = group_of(plan);
        for (std::uint32_t rank = 0; rank < 5; ++rank) {
            group[rank].contribute({Operator::bit_or}, {});
            group[rank].set_change_waits(rank == knows);  // from the next one on
            settle(group);
        }
        for (std::uint32_t rank = 0; rank < 5; ++rank)
            group[rank].contribute({Operator::bit_or}, {});
        settle(group);
        for (std::uint32_t rank = 0; rank < 5; ++rank) {
            EXPECT_FALSE(group[rank].outcome(Sequence{0})->change_waits);
            EXPECT_EQ(group[rank].outcome(Sequence{1})->change_waits, knows < 5);
        }
    }
}

// The larger one in the order of bytes. Also checks that what it is given is aligned.
void larger_pair(void* context, std::byte* into, const std::byte* from, std::size_t bytes) {
    ++*static_cast<int*>(context);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(into) % 8, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(from) % 8, 0U);
    if (std::memcmp(from, into, bytes) > 0) std::memcpy(into, from, bytes);
}

TEST(Agreement, OnesOwnFunctionIsAppliedAlsoToWhatCameBeforeItWasKnown) {
    for (const bool early : {false, true}) {
        const AgreementPlan plan = plan_of("star", 6);
        std::vector<Agreement> group = group_of(plan);
        int calls = 0;
        const Operation operation{Operator::user, {}, larger_pair, &calls};
        for (std::uint32_t i = 0; i < 6; ++i) {
            const std::uint32_t rank = early ? 5 - i : i;
            const std::array<std::uint32_t, 3> value{rank == 2 ? 9U : rank, rank, rank};
            group[rank].contribute(operation, std::as_bytes(std::span(value)));
            settle(group);
        }
        EXPECT_EQ(calls, 5);
        std::array<std::uint32_t, 3> value{};
        std::memcpy(value.data(), group[4].outcome(Sequence{0})->value.data(), sizeof(value));
        EXPECT_EQ(value, (std::array<std::uint32_t, 3>{9, 2, 2})) << early;
    }
}

TEST(Agreement, DifferentSizesOrOperationsAreAMismatchForEverybody) {
    for (std::uint32_t odd = 0; odd < 7; ++odd) {
        for (int how = 0; how < 4; ++how) {
            const AgreementPlan plan = plan_of("binary", 7, 4);
            std::vector<Agreement> group = group_of(plan);
            int calls = 0;
            for (std::uint32_t rank = 0; rank < 7; ++rank) {
                const std::uint64_t value = rank;
                Operation operation{Operator::max, Element::u64, nullptr, nullptr};
                std::span<const std::byte> bytes = bytes_of(value);
                if (rank == odd && how == 0) operation.op = Operator::min;
                if (rank == odd && how == 1) operation = {Operator::max, Element::u32, nullptr, nullptr};
                if (rank == odd && how == 2) operation = {Operator::user, {}, larger_pair, &calls};
                if (rank == odd && how == 3) {
                    group[rank].flush();
                } else {
                    group[rank].contribute(operation, bytes);
                }
                if (rank % 2 == 0) settle(group);
            }
            settle(group);
            for (const Agreement& machine : group) {
                ASSERT_TRUE(machine.outcome(Sequence{0}).has_value());
                EXPECT_TRUE(machine.outcome(Sequence{0})->mismatched) << odd << how;
            }
            // The next one is fine again.
            for (Agreement& machine : group) {
                const std::uint64_t value = 3;
                machine.contribute({Operator::max, Element::u64, nullptr, nullptr}, bytes_of(value));
            }
            settle(group);
            EXPECT_FALSE(group[6].outcome(Sequence{1})->mismatched);
            EXPECT_EQ(value_of<std::uint64_t>(group[6], Sequence{1}), 3U);
        }
    }
}

TEST(Window, AsManyAsItIsWideMayBeUnderWay) {
    for (const std::uint32_t window : {1U, 2U, 4U, 8U, 16U}) {
        const AgreementPlan plan = plan_of("binary", 3, window);
        std::vector<Agreement> group = group_of(plan);
        const std::uint32_t value = 1;
        for (std::uint32_t i = 0; i < window; ++i)
            ASSERT_EQ(group[1].contribute({}, bytes_of(value)), Sequence{i});
        EXPECT_FALSE(group[1].can_start());
        EXPECT_FALSE(group[1].contribute({}, bytes_of(value)).has_value());
        for (std::uint32_t rank : {0U, 2U}) {
            for (std::uint32_t i = 0; i < window; ++i)
                ASSERT_TRUE(group[rank].contribute({}, bytes_of(value)).has_value());
        }
        settle(group);
        EXPECT_EQ(group[1].decided_below(), Sequence{window});
        EXPECT_TRUE(group[1].contribute({}, bytes_of(value)).has_value());
    }
}

TEST(Window, AgreementsMayBeDecidedOutOfOrderAndKeepTheirValues) {
    std::mt19937 random(5);
    const AgreementPlan plan = plan_of("binomial", 12, 8);
    std::vector<Agreement> group = group_of(plan);
    struct Sent {
        AgreementMessage message;
        std::vector<std::byte> body;
    };
    std::vector<Sent> bag;
    std::uint32_t done = 0;
    constexpr std::uint32_t kAgreements = 300;
    while (done < 12) {
        Agreement& machine = group[below(random, 12)];
        if (machine.can_start() && machine.next().value < kAgreements && below(random, 4) == 0) {
            const std::uint64_t value = machine.next().value * 1000 + below(random, 500);
            machine.contribute({Operator::max, Element::u64, nullptr, nullptr}, bytes_of(value));
        }
        if (const auto message = machine.next_send(Nanoseconds{0})) {
            bag.push_back({*message, {message->body.begin(), message->body.end()}});
        }
        if (!bag.empty() && below(random, 2) == 0) {
            std::swap(bag[below(random, static_cast<std::uint32_t>(bag.size()))], bag.back());
            Sent sent = std::move(bag.back());
            bag.pop_back();
            sent.message.body = sent.body;
            ASSERT_NE(group[sent.message.to.value].receive(sent.message), Reception::garbage);
        }
        const std::uint64_t last = machine.decided_below().value;
        if (last > 0 && machine.outcome(Sequence{last - 1})) {
            ASSERT_EQ(value_of<std::uint64_t>(machine, Sequence{last - 1}) / 1000, last - 1);
        }
        done = 0;
        for (const Agreement& each : group)
            done += each.decided_below().value == kAgreements ? 1 : 0;
    }
}

TEST(Results, AreForgottenWhenEverybodyHasReturnedFromThem) {
    const AgreementPlan plan = plan_of("binary", 9, 4);
    std::vector<Agreement> group = group_of(plan);
    const std::uint32_t value = 1;
    for (std::uint64_t i = 0; i < 50; ++i) {
        for (Agreement& machine : group)
            machine.contribute({}, bytes_of(value));
        settle(group);
        for (const Agreement& machine : group) {
            EXPECT_EQ(machine.decided_below(), Sequence{i + 1});
            EXPECT_EQ(machine.settled_below(), Sequence{i}) << "of the last one only the flush is sure";
            EXPECT_TRUE(machine.outcome(Sequence{i}).has_value());
            if (i >= 11) {
                EXPECT_TRUE(machine.outcome(Sequence{i - 11}).has_value()) << "3 windows - 1 later";
            }
            if (i >= 16) {
                EXPECT_FALSE(machine.outcome(Sequence{i - 16}).has_value());
                EXPECT_TRUE(machine.decided(Sequence{i - 16}));
            }
        }
    }
}

TEST(Flush, SettlesAllBeforeIt) {
    const AgreementPlan plan = plan_of("binary", 9, 4);
    std::vector<Agreement> group = group_of(plan);
    const std::uint32_t value = 1;
    for (Agreement& machine : group)
        machine.contribute({}, bytes_of(value));
    settle(group);
    for (Agreement& machine : group)
        ASSERT_EQ(machine.flush(), Sequence{1});
    settle(group);
    for (const Agreement& machine : group) {
        EXPECT_EQ(machine.settled_below(), Sequence{1});
        EXPECT_FALSE(machine.outcome(Sequence{1})->mismatched);
        EXPECT_FALSE(machine.wants_to_send());
    }
}

TEST(WaitingFor, NamesThoseWhoseMessagesAreMissing) {
    const AgreementPlan plan = plan_of("star", 4);
    std::vector<Agreement> group = group_of(plan);
    const auto waits = [&](std::uint32_t rank) {
        std::vector<std::uint32_t> ranks;
        group[rank].waiting_for(Sequence{0}, [&](Rank other) {
            ranks.push_back(other.value);
            return true;
        });
        return ranks;
    };
    const std::uint32_t value = 1;
    EXPECT_EQ(waits(0), std::vector<std::uint32_t>{0}) << "its own call";
    group[0].contribute({}, bytes_of(value));
    group[2].contribute({}, bytes_of(value));
    settle(group);
    EXPECT_EQ(waits(0), (std::vector<std::uint32_t>{1, 3}));
    EXPECT_EQ(waits(2), std::vector<std::uint32_t>{0});
    group[0].peer_failed(Rank{3});
    EXPECT_EQ(waits(0), std::vector<std::uint32_t>{1});
    group[1].contribute({}, bytes_of(value));
    settle(group);
    EXPECT_TRUE(waits(0).empty());
}

TEST(Garbage, IsRefusedAndChangesNothing) {
    std::mt19937 random(9);
    const AgreementPlan plan = plan_of("binary", 6, 2);
    std::vector<Agreement> group = group_of(plan);
    const std::uint64_t value = 1;
    for (Agreement& machine : group)
        machine.contribute({}, bytes_of(value));
    const auto good = group[5].next_send(Nanoseconds{0});
    ASSERT_TRUE(good.has_value());
    Agreement& victim = group[good->to.value];
    const auto expect_refused = [&](const AgreementMessage& message, const char* why) {
        std::string before;
        std::string after;
        victim.fingerprint(before);
        EXPECT_NE(victim.receive(message), Reception::taken) << why;
        victim.fingerprint(after);
        EXPECT_EQ(before, after) << why;
    };
    AgreementMessage bad = *good;
    bad.from = good->to;
    expect_refused(bad, "from itself");
    bad = *good;
    bad.from = Rank{6};
    expect_refused(bad, "from nobody");
    bad = *good;
    bad.to = Rank{0};
    expect_refused(bad, "to somebody else");
    bad = *good;
    bad.agreement = Sequence{4};
    expect_refused(bad, "an agreement that can't be under way");
    bad.agreement = Sequence{UINT64_MAX};
    expect_refused(bad, "an agreement that can't be under way");
    bad = *good;
    bad.kind = static_cast<AgreementKind>(3);
    expect_refused(bad, "no such kind");
    bad = *good;
    bad.body = {};
    expect_refused(bad, "no body");
    bad = *good;
    bad.kind = AgreementKind::down;
    expect_refused(bad, "a decision before this rank has contributed all that it has to");
    bad.kind = AgreementKind::result_request;
    const std::vector<std::byte> nobody{std::byte{0}};
    bad.body = nobody;
    expect_refused(bad, "a rank that asks must be root");
    for (int round = 0; round < 20000; ++round) {
        std::vector<std::byte> bytes(good->body.begin(), good->body.end());
        bytes.resize(below(random, 24));
        for (std::byte& byte : bytes)
            byte = static_cast<std::byte>(random() & 0xff);
        bad = *good;
        bad.kind = static_cast<AgreementKind>(below(random, 3));
        bad.body = bytes;
        bad.agreement = Sequence{below(random, 8)};
        victim.receive(bad);
    }
    EXPECT_TRUE(victim.failed().count() < 6);
}

TEST(Fenced, ARankTakenForDeadDoesNothingAnyMore) {
    const AgreementPlan plan = plan_of("star", 3);
    std::vector<Agreement> group = group_of(plan);
    const std::uint64_t value = 1;
    for (Agreement& machine : group)
        machine.contribute({}, bytes_of(value));
    group[0].peer_failed(Rank{2});  // which is not true
    while (const auto message = group[1].next_send(Nanoseconds{0}))
        group[0].receive(*message);
    ASSERT_TRUE(group[0].decided(Sequence{0}));
    auto down = group[0].next_send(Nanoseconds{0});
    ASSERT_TRUE(down.has_value());
    down->to = Rank{2};
    const auto up = group[2].next_send(Nanoseconds{0});
    ASSERT_TRUE(up.has_value());
    EXPECT_EQ(group[0].receive(*up), Reception::stale);
    EXPECT_EQ(group[2].receive(*down), Reception::stale);
    EXPECT_TRUE(group[2].fenced());
    EXPECT_FALSE(group[2].decided(Sequence{0})) << "it may not return what the others might have decided";
    EXPECT_FALSE(group[2].next_send(Nanoseconds{0}).has_value());
}

TEST(HotPath, AllocatesNothingWhileNobodyHasFailed) {
    for (const char* tree : {"binary", "binomial", "star", "chain"}) {
        const AgreementPlan plan = plan_of(tree, 80, 4);
        std::vector<Agreement> group = group_of(plan);
        const std::uint64_t before = coppice::testing::allocations_so_far().objects;
        for (std::uint64_t i = 0; i < 40; ++i) {
            for (Agreement& machine : group)
                machine.contribute({Operator::max, Element::u64, nullptr, nullptr}, bytes_of(i));
            for (bool moved = true; moved;) {
                moved = false;
                for (Agreement& machine : group) {
                    while (const auto message = machine.next_send(Nanoseconds{0})) {
                        moved = true;
                        group[message->to.value].receive(*message);
                    }
                }
            }
        }
        EXPECT_EQ(coppice::testing::allocations_so_far().objects - before, 0U) << tree;
        EXPECT_EQ(value_of<std::uint64_t>(group[79], Sequence{39}), 39U);
    }
}

}  // namespace
}  // namespace coppice::protocol::testing
