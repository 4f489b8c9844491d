// coppice.hpp over the real library, with groups of one rank: what RAII adds to the C interface.
#include <gtest/gtest.h>

#include <array>
#include <coppice/coppice.hpp>
#include <cstring>
#include <stdexcept>
#include <string>

namespace {

using namespace std::chrono_literals;
using coppice::Status;

coppice::GroupOptions alone() {
    coppice::GroupOptions options;
    options.rank = 0;
    options.size = 1;
    options.exchange = [](std::span<const std::byte> mine, std::span<std::byte> all) {
        std::memcpy(all.data(), mine.data(), mine.size());
        return mine.size() == all.size();
    };
    return options;
}

TEST(Header, LinksTheVersionItWasBuiltWith) {
    EXPECT_STREQ(coppice::version(), COPPICE_VERSION);
}

TEST(Header, EveryStatusHasASentence) {
    for (int number = COPPICE_ERR_NO_QUORUM; number <= COPPICE_IN_PROGRESS; ++number) {
        EXPECT_STRNE(coppice::to_string(Status{number}), "") << number;
    }
    EXPECT_NE(coppice::to_string(Status{-4711}), nullptr);
}

TEST(Header, ThrowsWhatTryReturns) {
    const coppice::ContextOptions options{.transports = "pigeon"};
    coppice::Context context;
    EXPECT_EQ(coppice::Context::try_create(options, context), Status::kConfig);
    EXPECT_FALSE(context);
    try {
        static_cast<void>(coppice::Context::create(options));
        FAIL() << "did not throw";
    } catch (const coppice::Error& error) {
        EXPECT_EQ(error.status(), Status::kConfig);
        EXPECT_NE(std::string(error.what()).find("pigeon"), std::string::npos) << error.what();
    }
}

TEST(Header, AGroupOfOneBroadcastsToItself) {
    auto context = coppice::Context::create();
    auto group = coppice::Group::create(context, alone());
    EXPECT_EQ(group.rank(), 0U);
    EXPECT_EQ(group.size(), 1U);
    EXPECT_TRUE(group.failed().empty());
    std::array<std::byte, 16> payload{};
    payload[3] = std::byte{42};
    EXPECT_EQ(group.broadcast(payload, 0).size(), payload.size());
    auto request = group.broadcast_nb(payload, 0);
    EXPECT_EQ(request.wait(60s), payload.size());
    const coppice::View view = group.broadcast_view(payload, 0, 60s);
    ASSERT_EQ(view.bytes().size(), payload.size());
    EXPECT_EQ(view.bytes()[3], std::byte{42});
}

TEST(Header, AGroupOfSomeRanksIsGatheredAmongThem) {
    auto context = coppice::Context::create();
    coppice::GroupOptions options = alone();
    options.rank = 2;
    options.size = 4;
    options.ranks = {2};
    const auto group = coppice::Group::create(context, options);
    EXPECT_EQ(group.rank(), 0U);
    EXPECT_EQ(group.size(), 1U);
    options.ranks = {1, 3};
    coppice::Group none;
    EXPECT_EQ(coppice::Group::try_create(context, options, none), Status::kInvalidArgument);
}

TEST(Header, AViewIsTakenFromItsRequest) {
    auto context = coppice::Context::create();
    auto group = coppice::Group::create(context, alone());
    const std::array<std::byte, 8> payload{std::byte{7}};
    auto request = group.broadcast_view_nb(payload, 0);
    request.wait(60s);
    const coppice::View view = request.take_view();
    EXPECT_FALSE(request);
    EXPECT_TRUE(view);
    EXPECT_EQ(view.bytes()[0], std::byte{7});
}

TEST(Header, OutParametersKeepTheirValueOnErrors) {
    auto context = coppice::Context::create();
    auto group = coppice::Group::create(context, alone());
    std::array<std::byte, 8> payload{};
    std::size_t received = 4711;
    EXPECT_EQ(group.try_broadcast(payload, 17, received), Status::kOutOfRange);
    EXPECT_EQ(received, 4711U);
    coppice::Request request;
    EXPECT_EQ(group.try_broadcast_nb(payload, 17, request), Status::kOutOfRange);
    EXPECT_FALSE(request);
}

TEST(Header, MovedFromObjectsAreEmptyAndGroupsSurviveTheMove) {
    auto first = coppice::Context::create();
    auto context = std::move(first);
    EXPECT_FALSE(first);
    auto one = coppice::Group::create(context, alone());
    auto two = coppice::Group::create(context, alone());
    coppice_group_t* const handle = two.native();
    one = std::move(two);  // the first group ends here
    EXPECT_FALSE(two);
    EXPECT_EQ(one.native(), handle);
    std::array<std::byte, 1> payload{};
    EXPECT_EQ(one.broadcast(payload, 0).size(), 1U);
}

TEST(Header, AFailedExchangeEndsCreation) {
    auto context = coppice::Context::create();
    auto options = alone();
    options.exchange = [](auto, auto) { return false; };
    coppice::Group group;
    EXPECT_EQ(coppice::Group::try_create(context, options, group), Status::kBootstrap);
    EXPECT_FALSE(group);
}

TEST(Header, WhatAnExchangeThrowsComesOutOfCreate) {
    auto context = coppice::Context::create();
    auto options = alone();
    options.exchange = [](auto, auto) -> bool { throw std::out_of_range("no such board"); };
    EXPECT_THROW(static_cast<void>(coppice::Group::create(context, options)), std::out_of_range);
    coppice::Group group;
    EXPECT_EQ(coppice::Group::try_create(context, options, group), Status::kBootstrap);
}

TEST(Header, AgreementsGiveNumbersAndBytes) {
    auto context = coppice::Context::create();
    auto group = coppice::Group::create(context, alone());
    const auto [value, agreed] = group.agree(std::int16_t{-3}, coppice::Operation::kMax);
    EXPECT_EQ(value, -3);
    EXPECT_TRUE(agreed.acknowledged);
    EXPECT_TRUE(group.agreed().empty());
    group.acknowledge_failed();
    EXPECT_EQ(group.try_acknowledge_failed(std::array{0U}), Status::kInvalidArgument);

    std::array<std::byte, 5> bytes{std::byte{7}};
    auto request = group.agree_nb(bytes, {.operation = coppice::Operation::kOr});
    EXPECT_EQ(request.wait(60s), bytes.size());
    EXPECT_EQ(bytes[0], std::byte{7});
    std::array<std::byte, 300> many{};
    EXPECT_EQ(group.try_agree(many), Status::kTooLarge);
    EXPECT_EQ(group.try_agree(bytes, {.operation = coppice::Operation::kMin, .type = coppice::Type::kInt64}),
              Status::kInvalidArgument);
}

TEST(Header, AShrunkGroupIsAGroup) {
    auto context = coppice::Context::create();
    auto group = coppice::Group::create(context, alone());
    auto second = group.shrink(60s);
    std::array<std::byte, 4> payload{};
    EXPECT_EQ(second.broadcast(payload, 0).size(), payload.size());

    auto shrinking = second.shrink_nb();
    EXPECT_TRUE(shrinking);
    auto moved = std::move(shrinking);
    EXPECT_FALSE(shrinking);
    while (!moved.test())
        context.progress();
    EXPECT_TRUE(moved.test()) << "again";
    auto third = moved.wait(60s);
    EXPECT_FALSE(moved);
    coppice::Group none;
    EXPECT_EQ(moved.try_wait(none, 0s), Status::kInvalidArgument) << "once";
    EXPECT_EQ(third.size(), 1U);
    third.revoke();
    EXPECT_EQ(third.try_agree(payload), Status::kRevoked);
    EXPECT_EQ(second.broadcast(payload, 0).size(), payload.size());
}

TEST(Header, ARenewedGroupIsAGroupAndOneThatLeavesGetsNone) {
    setenv("COPPICE_CAPACITY", "2", 1);  // a second member may come, though none does
    auto context = coppice::Context::create();
    auto group = coppice::Group::create(context, alone());
    unsetenv("COPPICE_CAPACITY");
    auto next = group.renew({.least = 1, .most = 4, .newcomers_come_last = true}, 60s);
    const coppice::Membership membership = next.view();
    EXPECT_EQ(membership.view.epoch, 1U);
    EXPECT_EQ(membership.view.newcomers, 0U);
    ASSERT_EQ(membership.members.size(), 1U);
    EXPECT_EQ(membership.members[0].before, 0U);
    coppice::Group none;
    EXPECT_EQ(next.try_renew(none, {.least = 2}, 0s), Status::kTimeout);
    EXPECT_EQ(next.try_renew(none, {.as_others = true}, 0s), Status::kTimeout) << "asks for nothing else";
    coppice::Shrinking going_on;
    ASSERT_EQ(next.try_renew_nb(going_on, {.as_others = true}), Status::kOk);
    EXPECT_EQ(going_on.try_wait(none, 0s), Status::kTimeout);
    going_on = {};
    EXPECT_FALSE(next.pending());
    EXPECT_EQ(next.try_leave_with_renewal(), Status::kBusy);
    auto third = next.renew({}, 60s);
    third.leave_with_renewal();
    third.barrier();
    EXPECT_TRUE(third.pending());
    auto renewing = third.renew_nb();
    while (!renewing.test())
        context.progress();
    EXPECT_TRUE(renewing);
    EXPECT_FALSE(renewing.wait(60s));
    EXPECT_FALSE(renewing);
}

TEST(Header, AProcessJoinsWithATicket) {
    setenv("COPPICE_JOIN", "host", 1);
    setenv("COPPICE_CAPACITY", "2", 1);
    setenv("COPPICE_TRANSPORT", "tcp", 1);
    {
        auto context = coppice::Context::create();
        auto group = coppice::Group::create(context, alone());
        const std::vector<std::byte> ticket = group.invite(1, 1h);
        std::thread other([&ticket] {
            auto theirs = coppice::Context::create();
            auto joined = coppice::Group::join(theirs, ticket, {}, 60s);
            EXPECT_EQ(joined.size(), 2U);
            joined.barrier();
        });
        while (group.size() == 1) {
            group.barrier();
            if (group.pending()) group = group.renew({}, 60s);
        }
        group.barrier();
        group.leave(60s);
        other.join();
        coppice::Group none;
        EXPECT_EQ(coppice::Group::try_join(context, std::span(ticket).first(9), {}, none, 60s),
                  Status::kInvalidArgument);
        EXPECT_FALSE(none);
    }
    for (const char* name : {"COPPICE_JOIN", "COPPICE_CAPACITY", "COPPICE_TRANSPORT"})
        unsetenv(name);
}

TEST(Header, AShrinkThatNobodyWaitsForLeavesItsGroup) {
    auto context = coppice::Context::create();
    auto group = coppice::Group::create(context, alone());
    static_cast<void>(group.shrink_nb());
    {
        auto shrinking = group.shrink_nb();
        EXPECT_TRUE(shrinking.test());
    }
    EXPECT_EQ(group.shrink(60s).size(), 1U);
    group.leave(60s);
    context = coppice::Context();  // ends at once: no group holds it
}

TEST(Header, LeavingEmptiesTheGroup) {
    auto context = coppice::Context::create();
    auto group = coppice::Group::create(context, alone());
    group.leave(60s);
    EXPECT_FALSE(group);
    context = coppice::Context();  // ends at once: no group holds it
}

TEST(Header, AllocatedMemoryIsFreedOnce) {
    auto context = coppice::Context::create();
    auto group = coppice::Group::create(context, alone());
    coppice::Memory kept;
    {
        coppice::Memory memory = group.allocate_memory(50'000);
        ASSERT_EQ(memory.bytes().size(), 50'000U);
        memory.bytes()[49'999] = std::byte{7};
        EXPECT_EQ(group.broadcast(memory.bytes(), 0).size(), 50'000U);
        kept = std::move(memory);
        EXPECT_FALSE(memory);
    }
    EXPECT_EQ(kept.bytes()[49'999], std::byte{7});
    kept = coppice::Memory();
    coppice::Memory none;
    EXPECT_EQ(group.try_allocate_memory(0, none), Status::kInvalidArgument);
    EXPECT_FALSE(none);
}

TEST(Header, RegisteredMemoryIsGivenBack) {
    auto context = coppice::Context::create();
    auto group = coppice::Group::create(context, alone());
    std::array<std::byte, 4096> memory{};
    {
        const auto registration = group.register_memory(memory);
        EXPECT_TRUE(registration);
        coppice::Registration second;
        EXPECT_EQ(group.try_register_memory(memory, second), Status::kBusy);
    }
    EXPECT_TRUE(group.register_memory(memory));
}

}  // namespace
