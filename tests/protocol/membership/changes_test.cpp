// Around the mechanisms of the paper: members that leave, how many join at once, how many consents a member keeps, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "conversation.hpp"

namespace coppice::protocol {
namespace {

using Standing = Membership::Standing;
using Ranks = std::vector<std::uint32_t>;

Terms asking(std::uint32_t numbering) {
    return Terms(Bounds(), numbering);
}

TEST(Membership, AMemberThatLeavesIsNotInTheNextViewAndIsTold) {
    Conversation group(3);
    group[1].leave();
    group.deliver_all();
    group.all_renew();
    group.deliver_all();
    EXPECT_EQ(group[1].standing(), Standing::left);
    EXPECT_EQ(group.members_at(0), (Ranks{0, 2}));
    EXPECT_EQ(group.members_at(2), (Ranks{0, 2}));
}

// Its consent comes after all others', and the message that tells the root of it would come later still.
TEST(Membership, AMemberThatLeavesSaysSoWithItsConsent) {
    for (const std::uint32_t leaver : {0U, 1U, 4U}) {
        Conversation group(5, {.consents = true});
        group[leaver].leave();
        EXPECT_TRUE(group.under_way().empty());
        group.all_renew();
        group.deliver_all();
        EXPECT_EQ(group[leaver].standing(), Standing::left);
        for (std::uint32_t process = 0; process < 5; ++process) {
            if (process == leaver) continue;
            EXPECT_EQ(group.members_at(process).size(), 4U);
            EXPECT_TRUE(group[process].made_by().left.contains(leaver));
            EXPECT_EQ(group[process].made_by().left.count(), 1U);
        }
    }
}

// It goes only when nobody needs it any more, so it is asked what followed like any other member.
TEST(Membership, ARootThatHasLeftTellsTheChildrenOfTheDeadWhatFollowed) {
    Conversation group(4, {.quorum = Quorum::any, .consents = true});
    group[0].leave();
    group.all_renew();
    while (group[2].epoch() == 0)
        ASSERT_TRUE(group.deliver());
    ASSERT_EQ(group[0].standing(), Standing::left);
    ASSERT_EQ(group[1].epoch(), 1U);
    group.lose_all();
    group.crash(1);
    ASSERT_EQ(group[3].epoch(), 0U);
    for (const std::uint32_t process : {0U, 2U, 3U})
        group[process].peer_failed(Process(1));
    group.deliver_all();
    EXPECT_EQ(group[3].epoch(), 1U);
}

TEST(Membership, NewcomersAreTakenInUpToTheMostThatTheRootWants) {
    Conversation group(2);
    group.join({.process = Process(7), .waits = true});
    group.join({.process = Process(8), .waits = true});
    group.deliver_all();
    const auto renew = [&group](std::uint32_t most) {
        group[0].renew({}, Bounds{.most = most});
        group[1].renew({}, Bounds{.most = most});
        group.deliver_all();
    };
    renew(0);
    EXPECT_EQ(group.members_at(0), (Ranks{0, 1}));
    EXPECT_EQ(group[7].standing(), Standing::joining);
    renew(3);
    EXPECT_EQ(group.members_at(0), (Ranks{0, 1, 7}));
    EXPECT_EQ(group[8].standing(), Standing::joining);
}

TEST(Membership, ACallerMayAskForFewerThanItHasWaitedFor) {
    Conversation group(2);
    group[0].renew({}, Bounds{.least = 3});
    group[1].renew({}, Bounds{.least = 3});
    group.deliver_all();
    EXPECT_TRUE(group[0].lacks_members());
    group[0].ask_for({.least = 2});
    group.deliver_all();
    EXPECT_EQ(group[1].epoch(), 1U);
}

// More than any group has; the own one is told in any case.
TEST(Membership, AMemberKeepsSoManyConsentsAtMost) {
    const MembershipPlan plan{.first = View(4), .consents = true};
    Membership machine(plan, Process(2));
    MembershipMessage many{.kind = MembershipKind::consent, .from = Process(3), .to = Process(2)};
    for (std::uint32_t i = 0; i < kMostConsents + 9; ++i) {
        Consent one{.change = {.gone = {}, .joined = {}, .offer = {i}}, .members = {}};
        one.members.insert(3);
        one.change.gone.insert(3);
        many.consents = {one};
        EXPECT_TRUE(machine.receive(many));
    }
    machine.renew();
    machine.leave();
    std::optional<MembershipMessage> told;
    while (auto next = machine.next_send())
        told = std::move(next);
    ASSERT_TRUE(told.has_value());
    EXPECT_EQ(told->consents.size(), kMostConsents);
    EXPECT_TRUE(std::ranges::any_of(told->consents, [](const Consent& one) { return one.members.contains(2); }));
}

TEST(Membership, OneThatKeepsAsManyConsentsAsItCanDecidesNothingByThem) {
    for (const Quorum quorum : {Quorum::certain, Quorum::any}) {
        Conversation group(3, {.quorum = quorum, .consents = true});
        group.crash(0);
        group.all_notice(0);
        MembershipMessage many{.kind = MembershipKind::consent, .from = Process(2), .to = Process(1)};
        for (std::uint32_t i = 0; i < kMostConsents; ++i) {
            Consent one{.change = {.gone = {}, .joined = {}, .offer = {i}}, .members = {}};
            one.members.insert(2);
            one.change.gone.insert(2);  // else of these one at most may have been decided
            many.consents.push_back(one);
        }
        EXPECT_TRUE(group[1].receive(many));
        group.all_renew();
        group.deliver_all();
        EXPECT_EQ(group[1].lacks_quorum(), quorum == Quorum::certain);
        EXPECT_EQ(group[1].epoch(), quorum == Quorum::certain ? 0U : 1U);
    }
}

// Each member offers something else, and rank 0 is dead: what nobody can have decided stands in nobody's way.
TEST(Membership, AnyNumberOfDifferentConsentsCostsNoQuorum) {
    constexpr std::uint32_t kMembers = 3 * kMostConsents;
    Conversation group(kMembers, {.radix_bits = 4, .consents = true});
    group.crash(0);
    group.all_notice(0);
    for (std::uint32_t process = 1; process < kMembers; ++process)
        group[process].renew({process});
    group.deliver_all();
    for (std::uint32_t process = 1; process < kMembers; ++process) {
        EXPECT_EQ(group[process].epoch(), 1U) << process;
        EXPECT_EQ(group[process].view().count(), kMembers - 1);
    }
}

TEST(Membership, AJoinerIgnoresWhatFollowsAViewThatItHasNotHeardOf) {
    Conversation group(2);
    group.join({.process = Process(7)});
    EXPECT_TRUE(group[7].receive(
        {.kind = MembershipKind::stable, .from = Process(1), .to = Process(7), .epoch = 1, .proposal = Change{}}));
    EXPECT_EQ(group[7].standing(), Membership::Standing::joining);
}

TEST(Membership, WhereTheGroupIsFullAJoinerIsToldOrWaits) {
    Conversation group(2, {.capacity = 2});
    group.join({.process = Process(7)});
    group.join({.process = Process(8), .waits = true});
    group.deliver_all();
    group.all_renew();
    group.deliver_all();
    EXPECT_EQ(group[7].standing(), Standing::refused);
    EXPECT_EQ(group[7].refused_by(), MembershipKind::group_full);
    EXPECT_EQ(group[8].standing(), Standing::joining);
    group.crash(1);
    group.all_notice(1);
    group[0].renew();
    group.deliver_all();
    EXPECT_EQ(group.members_at(8), (Ranks{0, 8}));
}

TEST(Membership, TheRootWaitsUntilThereAreAsManyMembersAsItsCallerWants) {
    Conversation group(2);
    group[0].renew({}, Bounds{.least = 3});
    group[1].renew({}, Bounds{.least = 3});
    group.deliver_all();
    EXPECT_EQ(group[0].epoch(), 0U);
    group.join({.process = Process(7)});
    group.deliver_all();
    EXPECT_EQ(group.members_at(1), (Ranks{0, 1, 7}));
}

// Any rank may be root, and its caller may have asked for more: no member is waited for, and the newcomer goes on waiting.
TEST(Membership, CallersThatAskForDifferentThingsAllHearOfIt) {
    constexpr std::uint32_t kMembers = 5;
    for (const std::uint32_t dead : {kMembers, 0U, 1U}) {
        for (std::uint32_t odd = 0; odd < kMembers; ++odd) {
            if (odd == dead) continue;
            Conversation group(kMembers, {.consents = true, .introduces = true, .newcomers_go = true});
            group.join({.process = Process(7), .waits = true});
            group.deliver_all();
            if (dead != kMembers) {
                group.crash(dead);
                group.all_notice(dead);
            }
            const auto renew = [&](std::uint32_t least, std::uint32_t terms, std::uint32_t terms_of_one) {
                for (std::uint32_t process = 0; process < kMembers; ++process) {
                    if (process == dead) continue;
                    const std::uint32_t own = process == odd ? terms_of_one : terms;
                    group[process].renew({.terms = asking(own)}, Bounds{.least = least});
                }
                group.deliver_all();
            };
            renew(kMembers + 9, 6, 5);
            for (std::uint32_t process = 0; process < kMembers; ++process) {
                if (process == dead) continue;
                EXPECT_EQ(group[process].epoch(), 1U) << "dead " << dead << ", odd " << odd << ", at " << process;
                EXPECT_TRUE(group[process].view().offer().is_at_odds());
                EXPECT_TRUE(group[process].made_by().joined.empty());
            }
            renew(0, 6, 6);
            for (std::uint32_t process = 0; process < kMembers; ++process) {
                if (process == dead) continue;
                EXPECT_EQ(group[process].epoch(), 2U) << "dead " << dead << ", odd " << odd << ", at " << process;
                EXPECT_FALSE(group[process].view().offer().is_at_odds());
                EXPECT_FALSE(group[process].made_by().joined.empty());
            }
        }
    }
}

// It told what it asks for, and died before it could consent. The others have consented to the same.
TEST(Membership, TermsOfOneThatDiedMakeNoViewOfTooFew) {
    constexpr std::uint32_t kMembers = 4;
    Conversation group(kMembers, {.radix_bits = 2, .consents = true});
    group[3].leave();
    group[3].renew({.terms = asking(5)}, Bounds{.least = kMembers});
    group.deliver_all();
    group.crash(3);
    group.all_notice(3);
    for (std::uint32_t process = 0; process < 3; ++process)
        group[process].renew({.terms = asking(6)}, Bounds{.least = kMembers});
    group.deliver_all();
    EXPECT_EQ(group[0].epoch(), 0U);
    EXPECT_TRUE(group[0].lacks_members());
    group[0].ask_for({.least = 3, .most = kMembers});
    group.deliver_all();
    for (std::uint32_t process = 0; process < 3; ++process) {
        EXPECT_EQ(group.members_at(process), (Ranks{0, 1, 2}));
        EXPECT_EQ(group[process].view().offer().terms, asking(6));
    }
}

// It began to ask when there were enough, and has heard since that one leaves.
TEST(Membership, ARootThatHasAskedWaitsForMembersAgain) {
    Conversation group(5, {.radix_bits = 3, .consents = true, .introduces = true, .newcomers_go = true});
    const JoinRequest newcomer{.process = Process(7), .waits = true};
    group.crash(0);
    group.notice(1, 0);
    group.join(newcomer);
    group[1].introduce(newcomer);
    group[1].renew({}, Bounds{.least = 5});
    ASSERT_TRUE(group.deliver_until(MembershipKind::root_dead));
    group[4].leave();
    for (const std::uint32_t process : {2U, 3U, 4U})
        group[process].renew({}, Bounds{.least = 5});
    group.deliver_all();
    EXPECT_EQ(group[1].epoch(), 0U);
    EXPECT_TRUE(group[1].lacks_members());
    group[1].ask_for({.least = 4, .most = 5});
    group.deliver_all();
    for (const std::uint32_t process : {1U, 2U, 3U})
        EXPECT_EQ(group.members_at(process), (Ranks{7, 1, 2, 3}));
}

// Whichever member decides: the lowest of all, one that has asked, or the lowest of those that stay.
TEST(Membership, ARootThatAsksForNothingGoesByWhatTheOthersAskFor) {
    constexpr std::uint32_t kMembers = 4;
    for (const std::uint32_t dead : {kMembers, 0U}) {
        for (const bool lowest_leaves : {false, true}) {
            const std::uint32_t root = dead == 0 ? 1 : 0;
            Conversation group(kMembers, {.consents = true, .introduces = true, .newcomers_go = true});
            if (dead != kMembers) {
                group.crash(dead);
                group.all_notice(dead);
            }
            std::uint32_t staying = kMembers - (dead == 0 ? 1 : 0);
            if (lowest_leaves) {
                group[root].leave();
                --staying;
            }
            const Bounds wanted{.least = staying + 1, .most = staying + 1};
            for (std::uint32_t process = root; process < kMembers; ++process) {
                if (process == kMembers - 1) {
                    group[process].renew({.terms = Terms(wanted)}, wanted);
                } else {
                    group[process].renew();
                }
            }
            group.deliver_all();
            EXPECT_TRUE(group[root].lacks_members());
            EXPECT_EQ(group[root].least(), staying + 1);
            for (const std::uint32_t newcomer : {7U, 8U}) {
                group.join({.process = Process(newcomer), .waits = true});
                group.deliver_all();
            }
            const View& view = group[kMembers - 1].view();
            EXPECT_EQ(view.epoch(), 1U) << "dead " << dead << ", leaves " << lowest_leaves;
            EXPECT_EQ(view.count(), staying + 1) << "dead " << dead << ", leaves " << lowest_leaves;
            EXPECT_EQ(view.offer().terms, Terms(wanted));
        }
    }
}

// One that asks for nothing is at odds with nobody.
TEST(Membership, TermsAreAtOddsWhereTwoAreDifferent) {
    const auto in_common = [](std::initializer_list<Terms> all) {
        Terms terms;
        for (const Terms& one : all)
            terms &= one;
        return terms;
    };
    const Terms some(Bounds{.least = 3, .most = 9}, 1);
    EXPECT_FALSE(in_common({}).is_at_odds());
    EXPECT_FALSE(in_common({}).asks());
    for (const Terms& one : {some, Terms(Bounds())}) {
        EXPECT_EQ(in_common({Terms(), one, one, Terms()}), one);
        EXPECT_TRUE(in_common({one}).asks());
    }
    for (const Terms& other : {Terms({.least = 3, .most = 9}, 0), Terms({.least = 3, .most = 8}, 1),
                               Terms({.least = 2, .most = 9}, 1), Terms(Bounds(), 1), Terms(Bounds())}) {
        for (const Terms& all : {in_common({some, other}), in_common({Terms(), other, Terms(), some}),
                                 in_common({some, other, some}), in_common({some, other, Terms()})}) {
            EXPECT_TRUE(all.is_at_odds());
            EXPECT_FALSE(all.asks());
            EXPECT_EQ(all.bounds(), Bounds());
        }
    }
}

TEST(Membership, TermsKeepTheirBounds) {
    EXPECT_EQ(Terms().bounds(), Bounds());
    for (const std::uint32_t least : {0U, 1U, 1U << 20}) {
        for (const std::uint32_t most : {0U, 1U, 1U << 20, (1U << 24) - 2, UINT32_MAX}) {
            const Bounds bounds{.least = least, .most = most};
            EXPECT_EQ(Terms(bounds, 127).bounds(), bounds);
            EXPECT_EQ(Terms::of_word(Terms(bounds, 127).word()),
                      least <= most ? std::optional(Terms(bounds, 127)) : std::nullopt);
        }
    }
    EXPECT_EQ(Terms({.most = 1U << 24}).bounds().most, UINT32_MAX);
}

TEST(Membership, WhatCannotBeIsRefused) {
    Conversation group(3);
    const Process self(0);
    EXPECT_FALSE(group[0].receive({.kind = MembershipKind::stable, .from = Process(1), .to = Process(2)}));
    EXPECT_FALSE(group[0].receive({.kind = MembershipKind::stable, .from = self, .to = self}));
    group.join({.process = Process(7)});
    EXPECT_FALSE(group[7].receive({.kind = MembershipKind::failed_node, .from = self, .to = Process(7)}));
}

}  // namespace
}  // namespace coppice::protocol
