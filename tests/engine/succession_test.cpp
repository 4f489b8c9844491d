// Which ranks go on, under which number and token.
#include "engine/collectives/shrink/succession.hpp"

#include <gtest/gtest.h>

#include <set>

#include "engine/collectives/shrink/quorum_watch.hpp"
#include "engine/collectives/shrink/witness_grace.hpp"
#include "protocol/membership/codec.hpp"

namespace coppice::engine {
namespace {

protocol::FailedSet set_of(std::initializer_list<std::uint32_t> ranks) {
    protocol::FailedSet set;
    for (const std::uint32_t rank : ranks)
        set.insert(rank);
    return set;
}

std::vector<std::uint32_t> numbers(const std::vector<Seat>& seats) {
    std::vector<std::uint32_t> all;
    for (const Seat seat : seats)
        all.push_back(seat.value);
    return all;
}

// All but these, ascending.
std::vector<Seat> all_but(std::uint32_t ranks, const protocol::FailedSet& excluded) {
    std::vector<Seat> left;
    for (std::uint32_t seat = 0; seat < ranks; ++seat)
        if (!excluded.contains(seat)) left.emplace_back(seat);
    return left;
}

TEST(Succession, TokensDependOnWhichProcessesAreTakenIn) {
    const GroupId group{0xfeedbeef, Epoch(0)};
    std::set<std::uint32_t> tokens{group.token};
    for (std::uint32_t number = 4; number < 104; ++number) {
        for (std::uint32_t incarnation = 0; incarnation < 100; ++incarnation) {
            const Heritage heritage{
                .number = 0,
                .excluded = std::make_shared<protocol::FailedSet>(),
                .left = {},
                .panel = std::nullopt,
                .heirs = {{.before = Rank(0)}, {.before = {}, .number = number, .incarnation = incarnation}}};
            EXPECT_TRUE(heritage.has_newcomers());
            tokens.insert(id_after(group, heritage).token);
        }
    }
    EXPECT_GT(tokens.size(), 10'000U - 2);  // of 2^32, so a coincidence is possible
}

TEST(Succession, AQuorumThatIsMissingIsNotCalledTooFewWhereTheyAreEnough) {
    const protocol::FailedSet gone = set_of({0, 1});
    const std::string few = describe_no_quorum(protocol::Quorum::certain, 4, 2, gone);
    EXPECT_NE(few.find("2 of 4 members are left, too few for COPPICE_QUORUM=certain: ranks 0, 1"), std::string::npos)
        << few;
    const std::string enough = describe_no_quorum(protocol::Quorum::majority, 4, 3, set_of({0}), true);
    EXPECT_EQ(enough.find("too few"), std::string::npos) << enough;
    EXPECT_NE(enough.find("under COPPICE_QUORUM=majority: rank 0"), std::string::npos) << enough;
}

// A quorum may be lost twice in one group, and each time there is as much time for the witness.
TEST(WitnessGrace, BeginsAnewEachTimeThatAQuorumIsMissing) {
    constexpr std::uint64_t kTime = Membership::kWitnessTimeNs;
    WitnessGrace grace;
    EXPECT_FALSE(grace.lasts(0));
    grace.look(true, 5);
    grace.look(true, 5 + kTime / 2);
    EXPECT_TRUE(grace.lasts(4 + kTime));
    EXPECT_FALSE(grace.lasts(5 + kTime));
    grace.look(true, 6 + kTime);
    EXPECT_FALSE(grace.lasts(6 + kTime));
    grace.look(false, 7 + kTime);
    EXPECT_FALSE(grace.lasts(7 + kTime));
    grace.look(true, 8 + kTime);
    EXPECT_TRUE(grace.lasts(7 + 2 * kTime));
    EXPECT_FALSE(grace.lasts(8 + 2 * kTime));
}

// What it knows of the others then is by their ranks in a view that is not the last one.
TEST(Succession, ARankThatHasLeftTakesNobodyForAnotherRank) {
    const Members members(Rank(3), topology::Nodes::flat(4));
    const Router router(std::make_shared<TransportSet>(4), 4);
    Succession succession(members, router, {0xfeedbeef, Epoch(0)}, protocol::Quorum::any, nullptr);
    succession.peer_failed(Rank(1));
    succession.leave();
    succession.begin({});
    protocol::MembershipMessage stable{
        .kind = protocol::MembershipKind::stable, .from = protocol::Process(0), .to = protocol::Process(3)};
    stable.proposal = protocol::Change{.gone = set_of({1, 3}), .joined = {}, .left = set_of({3})};
    std::vector<std::byte> body;
    protocol::write_membership(stable, body);
    const WireHeader header{.token = 0xfeedbeef, .tag = {Channel::succession, stable.kind}};
    ASSERT_TRUE(succession.message(Rank(0), header, body));
    ASSERT_TRUE(succession.has_left());
    EXPECT_EQ(succession.failed(), set_of({1}));
}

// Without a panel that all have there is one view more. What a rank has asked for meanwhile, the others have not.
TEST(Succession, ARankAsksForTheSameInTheViewAfterItsPanelsAreReady) {
    using Kind = protocol::MembershipKind;
    const Members members(Rank(0), topology::Nodes::flat(2));
    const Router router(std::make_shared<TransportSet>(2), 2);
    Succession succession(members, router, {0xfeedbeef, Epoch(0)}, protocol::Quorum::any, nullptr);
    std::uint64_t sequence = 0;
    const auto hear = [&](Kind kind, std::uint32_t epoch, const protocol::Offer& offer) {
        protocol::MembershipMessage message{
            .kind = kind, .from = protocol::Process(1), .to = protocol::Process(0), .epoch = epoch};
        message.offer = offer;
        std::vector<std::byte> body;
        protocol::write_membership(message, body);
        const WireHeader header{
            .token = 0xfeedbeef, .tag = {Channel::succession, message.kind}, .sequence = sequence++};
        ASSERT_TRUE(succession.message(Rank(1), header, body));
    };
    const RenewalOptions first{.bounds = protocol::Bounds{.least = 2, .most = 9}, .newcomers_last = true};
    succession.begin(first);
    succession.ask_for({.bounds = protocol::Bounds{.least = 0, .most = 2}});
    hear(Kind::consent, 0, {.bits = 0});
    hear(Kind::failure_ack, 0, {});
    ASSERT_FALSE(succession.progress());
    hear(Kind::consent, 1, {.terms = first.terms()});
    hear(Kind::failure_ack, 1, {});
    const auto heritage = succession.progress();
    ASSERT_TRUE(heritage);
    EXPECT_FALSE(heritage->is_at_odds);
    EXPECT_EQ(heritage->most, 2U) << "of its last call";
}

TEST(Succession, ARankThatGivesNoOptionsLearnsTheMostThatTheOthersWant) {
    using Kind = protocol::MembershipKind;
    const Members members(Rank(0), topology::Nodes::flat(2));
    const Router router(std::make_shared<TransportSet>(2), 2);
    for (const bool shrinks : {false, true}) {
        Succession succession(members, router, {0xfeedbeef, Epoch(0)}, protocol::Quorum::any, nullptr);
        std::uint64_t sequence = 0;
        const auto hear = [&](Kind kind) {
            protocol::MembershipMessage message{
                .kind = kind, .from = protocol::Process(1), .to = protocol::Process(0), .epoch = 0};
            message.offer.terms = protocol::Terms({.least = 2, .most = 9});
            std::vector<std::byte> body;
            protocol::write_membership(message, body);
            const WireHeader header{
                .token = 0xfeedbeef, .tag = {Channel::succession, message.kind}, .sequence = sequence++};
            ASSERT_TRUE(succession.message(Rank(1), header, body));
        };
        RenewalOptions options;
        if (shrinks) options = {.bounds = protocol::Bounds{.least = 0, .most = 0}, .is_shrink = true};
        succession.begin(options);
        hear(Kind::consent);
        hear(Kind::failure_ack);
        const auto heritage = succession.progress();
        ASSERT_TRUE(heritage);
        EXPECT_EQ(heritage->most, 9U) << "shrinks " << shrinks;
    }
}

TEST(Succession, EpochsCountAndTokensDifferFromTheirAncestorsAndAmongSuccessors) {
    std::set<std::uint32_t> tokens;
    GroupId group{0xfeedbeef, Epoch(0)};
    tokens.insert(group.token);
    for (std::uint64_t number = 0; number < 1000; ++number) {
        Heritage heritage{.number = number,
                          .excluded = std::make_shared<protocol::FailedSet>(set_of({3})),
                          .left = {},
                          .panel = std::nullopt};
        tokens.insert(id_after(group, heritage).token);
        heritage.excluded = std::make_shared<protocol::FailedSet>(set_of({3, 4}));
        EXPECT_NE(id_after(group, heritage).token, group.token);
        group = id_after(group, heritage);
        EXPECT_EQ(group.epoch.value, number + 1);
        tokens.insert(group.token);
    }
    EXPECT_EQ(tokens.size(), 2001U);
}

TEST(Succession, NumbersAreTranslatedBothWaysThroughGenerations) {
    const auto transport_set = std::make_shared<TransportSet>(8);
    const Router first(transport_set, 8);
    EXPECT_EQ(first.seat_of(Rank(5)), Seat(5));
    EXPECT_EQ(first.rank_at(Seat(5)), Rank(5));
    const Router second(transport_set, all_but(8, set_of({0, 5})));  // 1 2 3 4 6 7
    EXPECT_EQ(second.seat_of(Rank(0)), Seat(1));
    EXPECT_EQ(second.seat_of(Rank(4)), Seat(6));
    EXPECT_EQ(second.rank_at(Seat(6)), Rank(4));
    EXPECT_FALSE(second.rank_at(Seat(0)).has_value());
    EXPECT_FALSE(second.rank_at(Seat(5)).has_value());
    std::vector<Seat> there;
    for (const std::uint32_t rank : {0U, 2U, 3U, 4U})
        there.push_back(second.seat_of(Rank(rank)));
    const Router third(transport_set, there);  // 1 3 4 6
    EXPECT_EQ(numbers(there), (std::vector<std::uint32_t>{1, 3, 4, 6}));
    EXPECT_EQ(third.rank_at(Seat(6)), Rank(3));
    EXPECT_FALSE(third.rank_at(Seat(2)).has_value());
    EXPECT_FALSE(third.rank_at(Seat(7)).has_value());
}

}  // namespace
}  // namespace coppice::engine
