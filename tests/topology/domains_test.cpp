// Which ranks of a host publish in two levels, and by which count.
#include "topology/domains.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace coppice::topology {
namespace {

std::vector<std::uint64_t> blocks(std::uint64_t ranks, std::uint64_t of_a_domain) {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t rank = 0; rank < ranks; ++rank)
        keys.push_back(rank / of_a_domain);
    return keys;
}

bool are_better(std::uint64_t ranks, std::uint64_t of_a_domain) {
    return domains_of(blocks(ranks, of_a_domain)).has_value();
}

TEST(Domains, ArePlacesWithoutTheCore) {
    EXPECT_EQ(domain_in("numa1/l3-9/core75"), "numa1/l3-9");
    EXPECT_EQ(domain_in("numa1/l3-9"), "numa1/l3-9");
    EXPECT_EQ(domain_in("l2-4/core7"), "l2-4");
    EXPECT_EQ(domain_in("core7"), "");
    EXPECT_EQ(domain_in(""), "");
}

TEST(Domains, AreCounted) {
    const Nodes domains = Nodes::by_host(blocks(192, 8));
    EXPECT_EQ(count_one_level(domains).between, 4416U);
    EXPECT_EQ(count_one_level(domains).fetched, 191U);
    EXPECT_EQ(count_two_levels(domains).between, 552U);
    EXPECT_EQ(count_two_levels(domains).fetched, 30U);
}

TEST(Domains, AreOfUseWhereRanksAreManyAndDomainsFew) {
    EXPECT_TRUE(are_better(192, 8));
    EXPECT_TRUE(are_better(512, 64));
    EXPECT_TRUE(are_better(17, 8));
    EXPECT_FALSE(are_better(16, 8)) << "few";
    EXPECT_FALSE(are_better(256, 256)) << "one domain";
    EXPECT_FALSE(are_better(64, 1)) << "each its own";
    EXPECT_TRUE(are_better(64, 2));
}

TEST(Domains, AreNoneWhereOneRankKnowsNothing) {
    std::vector<std::string> places;
    for (int rank = 0; rank < 32; ++rank)
        places.push_back("numa" + std::to_string(rank / 16) + "/core" + std::to_string(rank));
    const auto domains = domains_of(places);
    ASSERT_TRUE(domains);
    EXPECT_EQ(domains->count(), 2U);
    EXPECT_EQ(domains->node_of(Rank(16)), 1U);
    for (const char* nowhere : {"", "core31"}) {
        places.back() = nowhere;
        EXPECT_FALSE(domains_of(places)) << nowhere;
    }
    EXPECT_FALSE(domains_of(std::vector<std::string>()));
}

}  // namespace
}  // namespace coppice::topology
