#include "engine/core/members.hpp"

#include <gmock/gmock.h>

#include <array>

namespace coppice::engine {
namespace {

using ::testing::ElementsAre;

// Hosts a: 0, 1, 4; b: 2, 3; c: 5.
Members six_ranks_on_three_hosts(std::uint32_t self) {
    const std::array<std::string, 6> hosts{"a", "a", "b", "b", "a", "c"};
    return Members(Rank(self), topology::Nodes::by_host(std::span<const std::string>(hosts)));
}

TEST(Members, ARootSpeaksForItsOwnHostAndTheLowestRankForTheOthers) {
    const Members members = six_ranks_on_three_hosts(1);
    EXPECT_EQ(members.leader_for(Node(0), Rank(4)), Rank(4));
    EXPECT_EQ(members.leader_for(Node(1), Rank(4)), Rank(2));
    EXPECT_EQ(members.leader_for(Node(0), Rank(5)), Rank(0));
    EXPECT_FALSE(members.is_leader_for(Rank(4)));
    EXPECT_TRUE(members.is_leader_for(Rank(1)));
}

TEST(Members, WhatAMessageCrossesIsTheHighestThingBetweenTwo) {
    const std::array<std::string, 6> hosts{"a", "a", "b", "c", "d", "e"};
    const auto from_the_first = [&hosts](std::vector<topology::Site> sites) {
        const Members members(Rank(0), topology::Nodes::by_host(std::span<const std::string>(hosts)), std::move(sites));
        std::vector<Crossing> found;
        for (std::uint32_t rank = 1; rank < 6; ++rank)
            found.push_back(members.crossing_to(Rank(rank)));
        return found;
    };
    using enum Crossing;
    EXPECT_THAT(from_the_first({{0, 0}, {0, 0}, {0, 1}, {1, 2}, {0, 1}}), ElementsAre(host, leaf, pod, network, pod));
    EXPECT_THAT(from_the_first({{0, 0}, {0, 0}, {0, 1}, {0, 2}, {0, 1}}),
                ElementsAre(host, leaf, network, network, network))
        << "one pod is none";
    EXPECT_THAT(from_the_first({}), ElementsAre(host, network, network, network, network));
}

TEST(Members, TheNextLiveRankStandsInForADeadLeader) {
    Members members = six_ranks_on_three_hosts(1);
    EXPECT_FALSE(members.is_leader());
    EXPECT_TRUE(members.fail(Rank(0)));
    EXPECT_TRUE(members.is_leader());
    EXPECT_EQ(members.leader_for(Node(0), Rank(5)), Rank(1));
    EXPECT_TRUE(members.fail(Rank(4)));
    EXPECT_EQ(members.leader_for(Node(0), Rank(4)), Rank(1)) << "a dead root speaks no more";
}

TEST(Members, AHostHasFailedOnceAllItsRanksHave) {
    Members members = six_ranks_on_three_hosts(0);
    EXPECT_TRUE(members.fail(Rank(2)));
    EXPECT_FALSE(members.failed_nodes().contains(1));
    EXPECT_TRUE(members.fail(Rank(3)));
    EXPECT_TRUE(members.failed_nodes().contains(1));
    EXPECT_EQ(members.leader(Node(1)), std::nullopt);
}

TEST(Members, ADeathCountsOnce) {
    Members members = six_ranks_on_three_hosts(0);
    EXPECT_TRUE(members.fail(Rank(3)));
    EXPECT_FALSE(members.fail(Rank(3)));
    EXPECT_TRUE(members.fail(Rank(1)));
    EXPECT_THAT(members.failed_ranks(), ElementsAre(Rank(1), Rank(3)));
}

TEST(Members, PositionsRotateToTheRootsHostAndBack) {
    const Members members = six_ranks_on_three_hosts(0);
    for (std::uint32_t root = 0; root < members.ranks(); ++root) {
        EXPECT_EQ(members.position_of(members.node_of(Rank(root)), Rank(root)), Position(0));
        for (std::uint32_t node = 0; node < members.nodes(); ++node) {
            EXPECT_EQ(members.node_at(members.position_of(Node(node), Rank(root)), Rank(root)), Node(node));
        }
    }
}

}  // namespace
}  // namespace coppice::engine
