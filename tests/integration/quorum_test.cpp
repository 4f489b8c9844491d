// Which ranks may go on without the others (COPPICE_QUORUM), among real processes that are really killed.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "integration/lineage.hpp"

namespace coppice::testing {
namespace {

struct Case {
    const char* name;
    std::uint32_t ranks;
    std::uint32_t hosts;
    const char* transport;
    const char* quorum;
    std::vector<std::uint32_t> victims;
    bool goes_on;
    friend void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }
};

class WhoGoesOn : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Quorum, WhoGoesOn,
    ::testing::Values(Case{"any_of_five", 5, 1, "auto", "any", {0, 1, 2, 3}, true},
                      Case{"majority_of_five", 5, 1, "auto", "majority", {0, 1}, true},
                      Case{"less_than_a_majority", 5, 1, "auto", "majority", {0, 1, 2}, false},
                      Case{"half_with_the_lowest", 4, 1, "tcp", "majority", {2, 3}, true},
                      Case{"half_without_the_lowest", 4, 1, "tcp", "majority", {0, 1}, false},
                      Case{"deaths_that_a_host_has_seen", 5, 1, "auto", "certain", {0, 1, 2, 3}, true},
                      Case{"deaths_on_both_of_two_hosts", 6, 2, "auto", "certain", {0, 1, 3, 4}, true},
                      Case{"deaths_that_nobody_has_seen", 5, 1, "tcp", "certain", {0, 1, 2}, false},
                      Case{"a_host_is_lost_and_nobody_is_left_to_see_it", 4, 2, "auto", "certain", {0, 1}, false},
                      Case{"a_host_is_lost_without_the_lowest", 4, 2, "auto", "certain", {2, 3}, true}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_P(WhoGoesOn, AfterDeaths) {
    const Case& given = GetParam();
    JobOptions options;
    options.ranks = given.ranks;
    options.hosts = given.hosts;
    options.environment["COPPICE_QUORUM"] = given.quorum;
    options.environment["COPPICE_TRANSPORT"] = given.transport;
    const auto is_victim = [&given](std::uint32_t rank) { return std::ranges::count(given.victims, rank) > 0; };
    Job job(options, [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        Lineage lineage = Lineage::begin(member);
        work(lineage, member);
        member.notes[0].fetch_add(1);
        if (is_victim(member.rank)) {
            while (true)
                pause();
        }
        member.await_failed(given.victims.size());
        if (given.goes_on) {
            lineage = shrink_until_gone(lineage, member, given.victims);
            work(lineage, member);
            return leave(member, lineage);
        }
        // The others are told, though each death may be noticed at another time; and again.
        coppice_group_t* next = nullptr;
        for (int again = 0; again < 2; ++again) {
            COPPICE_CHECK(coppice_group_shrink(member.group, &next, kTimeout) == COPPICE_ERR_NO_QUORUM);
            COPPICE_CHECK(next == nullptr);
            const char* const error = coppice_last_error();
            COPPICE_CHECK(std::strstr(error, "can't be reached") != nullptr);
            COPPICE_CHECK(std::strstr(error, "COPPICE_QUORUM=any") != nullptr);
            for (const std::uint32_t victim : given.victims)
                COPPICE_CHECK(std::strstr(error, std::to_string(victim).c_str()) != nullptr);
        }
        member.leave();
    });
    ASSERT_TRUE(job.await_note(0, given.ranks));
    for (const std::uint32_t victim : given.victims)
        job.kill(victim, true);
    EXPECT_EQ(job.finish(is_victim), "");
}

}  // namespace
}  // namespace coppice::testing
