// The nodes of a group that takes newcomers in: they follow from what all members were told, and from nothing else.
#include "engine/collectives/shrink/heirs.hpp"

#include <gmock/gmock.h>

#include <array>
#include <string>

namespace coppice::engine {
namespace {

using ::testing::ElementsAre;

const std::array<std::string, 4> kHosts{"a", "a", "b", "b"};

Lineage lineage_of_four() {
    std::vector<Origin> origins;
    for (std::uint32_t rank = 0; rank < kHosts.size(); ++rank)
        origins.push_back({.seat = Seat(rank), .host = host_number(kHosts[rank])});
    return Lineage(std::move(origins));
}

std::vector<std::uint32_t> nodes_of(const Members& members, std::span<const Heritage::Heir> heirs, bool by_host,
                                    const std::string& hosts_of_newcomers) {
    const auto host_of = [&](std::uint32_t number, std::uint32_t incarnation) {
        return NewcomersHost{host_number(std::string(1, hosts_of_newcomers.at(number - 4 + incarnation)))};
    };
    std::vector<std::uint32_t> nodes;
    for (const Birth::Member& one : heirs_of(members, lineage_of_four(), heirs, Epoch(7), by_host, host_of).members)
        nodes.push_back(one.node);
    return nodes;
}

const std::vector<Heritage::Heir> kTwoOldTwoNew{
    {.before = Rank(1)}, {.before = {}, .number = 4}, {.before = Rank(2)}, {.before = {}, .number = 5}};

TEST(Heirs, ANewcomerIsOnTheNodeOfItsHost) {
    const Members members(Rank(1), topology::Nodes::by_host(std::span<const std::string>(kHosts)));
    EXPECT_THAT(nodes_of(members, kTwoOldTwoNew, true, "ba"), ElementsAre(0, 1, 1, 0));
}

TEST(Heirs, NewcomersOfAHostThatIsNewAreOneNode) {
    const Members members(Rank(1), topology::Nodes::by_host(std::span<const std::string>(kHosts)));
    EXPECT_THAT(nodes_of(members, kTwoOldTwoNew, true, "cc"), ElementsAre(0, 2, 1, 2));
    EXPECT_THAT(nodes_of(members, kTwoOldTwoNew, true, "cd"), ElementsAre(0, 2, 1, 3));
}

// Ranks learn of a death at different times; those that make the group before and after that must make the same one.
TEST(Heirs, NoDeathThatThisRankKnowsOfChangesTheNodes) {
    Members members(Rank(1), topology::Nodes::by_host(std::span<const std::string>(kHosts)));
    const auto before = nodes_of(members, kTwoOldTwoNew, true, "ba");
    EXPECT_TRUE(members.fail(Rank(2)));
    EXPECT_TRUE(members.fail(Rank(3)));
    EXPECT_EQ(nodes_of(members, kTwoOldTwoNew, true, "ba"), before);
}

TEST(Heirs, WithoutHostsEachNewcomerIsANodeOfItsOwn) {
    const Members members(Rank(1), topology::Nodes::flat(4));
    EXPECT_THAT(nodes_of(members, kTwoOldTwoNew, false, "bb"), ElementsAre(1, 4, 2, 5));
}

TEST(Heirs, SeatsAndHostsAreHandedOn) {
    const Members members(Rank(1), topology::Nodes::by_host(std::span<const std::string>(kHosts)));
    const auto host_of = [](std::uint32_t, std::uint32_t) { return NewcomersHost{host_number("b")}; };
    const auto heirs = heirs_of(members, lineage_of_four(), kTwoOldTwoNew, Epoch(7), true, host_of).members;
    EXPECT_EQ(heirs[0].origin, (Origin{.seat = Seat(1), .before = 1, .host = host_number("a")}));
    EXPECT_EQ(heirs[1].origin, (Origin{.seat = Seat(4), .since = 7, .host = host_number("b")}));
    const Birth birth{.id = {0xfeed, Epoch(7)}, .panel = 3, .most = 9, .members = heirs};
    const auto read = Birth::parse(birth.bytes());
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->members, heirs);
    const Bytes whole = birth.bytes();
    for (std::size_t length = 0; length < whole.size(); ++length)
        EXPECT_FALSE(Birth::parse(std::span(whole).first(length)).has_value()) << length;
}

// Number 4 comes from a host that is new, 5 from one of the members', of which it says something else.
const HostOfNewcomer kOneOfEach = [](std::uint32_t number, std::uint32_t) {
    return number == 4 ? NewcomersHost{host_number("c"), "pod1/leaf7"} : NewcomersHost{host_number("b"), "pod9/leaf9"};
};

TEST(Heirs, ANodeHasTheSwitchesThatItsFirstRankHasNamed) {
    const Members members(Rank(1), topology::Nodes::by_host(std::span<const std::string>(kHosts)), {}, {},
                          {"pod0/leaf1", "pod0/leaf2"});
    const Heirs heirs = heirs_of(members, lineage_of_four(), kTwoOldTwoNew, Epoch(7), true, kOneOfEach);
    EXPECT_THAT(heirs.switches, ElementsAre("pod0/leaf1", "pod0/leaf2", "pod1/leaf7"));
    const Birth birth{
        .id = {0xfeed, Epoch(7)}, .panel = 3, .most = 9, .members = heirs.members, .switches = heirs.switches};
    std::vector<std::uint64_t> nodes;
    for (const Birth::Member& one : birth.members)
        nodes.push_back(one.node);
    EXPECT_THAT(birth.switches_by_node(topology::Nodes::by_host(nodes)),
                ElementsAre("pod0/leaf1", "pod1/leaf7", "pod0/leaf2"));
}

TEST(Heirs, WhereSwitchesWereNotKeptNoNewcomerBringsAny) {
    const Members members(Rank(1), topology::Nodes::by_host(std::span<const std::string>(kHosts)));
    const Heirs heirs = heirs_of(members, lineage_of_four(), kTwoOldTwoNew, Epoch(7), true, kOneOfEach);
    EXPECT_THAT(heirs.switches, ElementsAre());
    EXPECT_TRUE((Birth{.id = {}, .members = heirs.members}).switches_by_node(topology::Nodes::flat(4)).empty());
}

}  // namespace
}  // namespace coppice::engine
