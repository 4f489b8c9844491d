// Groups that have room for more members than they begin with, among real processes: all that a group can do, it does as without.
#include <gtest/gtest.h>

#include <csignal>

#include "integration/lineage.hpp"

namespace coppice::testing {
namespace {

const std::vector<Layout> kTogether{
    {"one_host", 4, 1, {{"COPPICE_CAPACITY", "9"}, {"COPPICE_JOIN", "host"}}},
    {"one_host_any", 4, 1, {{"COPPICE_CAPACITY", "9"}, {"COPPICE_JOIN", "any"}, {"COPPICE_TRANSPORT", "shm,tcp"}}},
    {"flat", 4, 1, {{"COPPICE_CAPACITY", "9"}, {"COPPICE_JOIN", "host"}, {"COPPICE_HIERARCHY", "flat"}}},
    {"two_hosts", 5, 2, {{"COPPICE_CAPACITY", "64"}, {"COPPICE_JOIN", "any"}}},
    {"a_rank_a_host", 3, 3, {{"COPPICE_CAPACITY", "4"}, {"COPPICE_JOIN", "any"}}},
    {"tcp", 3, 1, {{"COPPICE_CAPACITY", "300"}, {"COPPICE_JOIN", "any"}, {"COPPICE_TRANSPORT", "tcp"}}},
    {"ucx", 3, 1, {{"COPPICE_CAPACITY", "8"}, {"COPPICE_JOIN", "any"}, {"COPPICE_TRANSPORT", "ucx"}}},
    {"no_more_seats", 4, 1, {{"COPPICE_CAPACITY", "4"}, {"COPPICE_JOIN", "none"}}},
};

const std::vector<Layout> kAlone{{"alone", 1, 1, {{"COPPICE_CAPACITY", "4"}, {"COPPICE_JOIN", "any"}}}};

std::string name_of(const ::testing::TestParamInfo<Layout>& layout) {
    return std::string(layout.param.name);
}

class Roomy : public ::testing::TestWithParam<Layout> {};
class RoomyTogether : public Roomy {};  // with ranks that can outlive one another
INSTANTIATE_TEST_SUITE_P(Growth, Roomy, ::testing::ValuesIn(kTogether), name_of);
INSTANTIATE_TEST_SUITE_P(GrowthAlone, Roomy, ::testing::ValuesIn(kAlone), name_of);
INSTANTIATE_TEST_SUITE_P(Growth, RoomyTogether, ::testing::ValuesIn(kTogether), name_of);

TEST_P(Roomy, WorksShrinksAndLeavesAsOneThatIsFull) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage old = Lineage::begin(member);
        work(old, member);
        const Lineage next = old.shrink();
        next.check(member);
        COPPICE_CHECK(next.first.size() == member.ranks);
        for (std::uint64_t round = 0; round < 5; ++round)
            work(next, member, round);
        COPPICE_CHECK(info_of(next.group).garbage == 0);
        COPPICE_CHECK(coppice_group_destroy(old.group, kTimeout) == COPPICE_OK);
        leave(member, next);
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(RoomyTogether, SurvivesADeath) {
    const Layout& layout = GetParam();
    Job job(layout.job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        Lineage lineage = Lineage::begin(member);
        work(lineage, member);
        member.notes[0].fetch_add(1);
        if (member.rank == 1) {
            while (true)
                pause();
        }
        lineage = shrink_until_gone(lineage, member, {1});
        for (std::uint64_t round = 0; round < 5; ++round)
            work(lineage, member, 10 * round);
        leave(member, lineage);
    });
    ASSERT_TRUE(job.await_note(0, layout.ranks));
    job.kill(1, true);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "");
}

TEST(Capacity, OfFewerThanTheGroupBeginsWithIsRefused) {
    Job job({.ranks = 3, .environment = {{"COPPICE_CAPACITY", "2"}}}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_ERR_CONFIG);
        const std::string error = coppice_last_error();
        COPPICE_CHECK(error.find("COPPICE_CAPACITY = 2") != std::string::npos);
        COPPICE_CHECK(error.find("3 ranks") != std::string::npos);
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Capacity, ThatDiffersIsNamedAtBothRanks) {
    Job job({.ranks = 2, .of_rank = {{1, {{"COPPICE_CAPACITY", "5"}}}}}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_ERR_MISMATCH);
        COPPICE_CHECK(std::string(coppice_last_error()).find("capacity 5") != std::string::npos);
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
