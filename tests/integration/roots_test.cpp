// Programs whose ranks do not agree upon the root of a broadcast.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;

// One broadcast of 8 bytes: how it ended.
coppice_status_t broadcast(Member& member, std::uint64_t value, std::uint32_t root) {
    return coppice_broadcast(member.group, &value, sizeof value, root, nullptr, kTimeout);
}

// Of a broadcast before the one that has two roots, ranks 1 and 2: another rank may come to it so late that they have been found
// meanwhile, and the group has been revoked.
bool may_end_so(const Member& member, coppice_status_t status) {
    const bool is_one_of_the_roots = member.rank == 1 || member.rank == 2;
    return status == COPPICE_OK || (status == COPPICE_ERR_MISMATCH && !is_one_of_the_roots);
}

void expect_named(const std::string& broadcast, const std::string& ranks = "ranks 1 and 2") {
    const std::string said = coppice_last_error();
    for (const std::string& part : {"broadcast " + broadcast + ":", ranks})
        if (said.find(part) == std::string::npos) throw CheckFailed("not said: " + part + ", but: " + said);
}

JobOptions on_one_host(const char* window) {
    JobOptions options;
    options.ranks = 4;
    options.environment = {{"COPPICE_WINDOW", window}};
    return options;
}

class SeveralRoots : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Windows, SeveralRoots, ::testing::Values("2", "32", "1024"),
                         [](const auto& window) { return std::string("window_") + window.param; });

// Broadcast 5 of ranks 1 and 2, which both have returned before anybody could know: every rank is told by destroying
// the group.
TEST_P(SeveralRoots, AreToldOfByDestroy) {
    Job job(on_one_host(GetParam()), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        for (std::uint64_t number = 0; number < 5; ++number)
            COPPICE_CHECK(may_end_so(member, broadcast(member, number, 0)));
        const std::uint32_t root = member.rank == 2 ? 2 : 1;
        const coppice_status_t status = broadcast(member, member.rank, root);
        COPPICE_CHECK(status == COPPICE_OK || status == COPPICE_ERR_MISMATCH);
        COPPICE_CHECK(coppice_group_destroy(member.group, kTimeout) == COPPICE_ERR_MISMATCH);
        expect_named("5");
        COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
    });
    EXPECT_EQ(job.finish(), "");
}

// The same, and the program goes on: no rank gets further than 32 broadcasts beyond what the window lets it be ahead.
TEST_P(SeveralRoots, AreToldOfByTheNextCalls) {
    const std::uint64_t most = std::stoul(GetParam()) + 32;
    Job job(on_one_host(GetParam()), [most](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        for (std::uint64_t number = 0; number < 37; ++number)
            COPPICE_CHECK(may_end_so(member, broadcast(member, number, number % 4)));
        (void)broadcast(member, member.rank, member.rank == 2 ? 2 : 1);
        std::uint64_t more = 0;
        coppice_status_t status = COPPICE_OK;
        while (status == COPPICE_OK && more <= most)
            status = broadcast(member, more++, 0);
        COPPICE_CHECK(status == COPPICE_ERR_MISMATCH);
        expect_named("37");
        std::uint64_t value = 0;
        COPPICE_CHECK(coppice_agree(member.group, &value, sizeof value, nullptr, kTimeout) == COPPICE_ERR_MISMATCH);
        expect_named("37");
        // A rank that can put that right goes on in a group of its own.
        coppice_group_t* again = nullptr;
        COPPICE_CHECK(coppice_group_shrink(member.group, &again, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(coppice_group_destroy(member.group, kTimeout) == COPPICE_ERR_MISMATCH);
        member.group = again;
        COPPICE_CHECK(broadcast(member, 7, 3) == COPPICE_OK);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// Roots are compared for hours without a finding.
TEST_P(SeveralRoots, AreNotSeenWhereThereIsOne) {
    Job job(on_one_host(GetParam()), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        for (std::uint64_t number = 0; number < 9000; ++number)
            COPPICE_CHECK(broadcast(member, number, number / 100 % 4) == COPPICE_OK);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// Two ranks of one host, and another host, whose ranks may be told first.
TEST(SeveralRootsOnOneOfTwoHosts, AreTold) {
    JobOptions options;
    options.ranks = 5;
    options.hosts = 2;
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const coppice_status_t first = broadcast(member, member.rank, member.rank == 2 ? 2 : 1);
        const coppice_status_t status = coppice_group_destroy(member.group, kTimeout);
        if (member.rank < 3) {
            COPPICE_CHECK(status == COPPICE_ERR_MISMATCH);
            expect_named("0");
        } else {
            COPPICE_CHECK(first == COPPICE_OK || first == COPPICE_ERR_MISMATCH || first == COPPICE_ERR_REVOKED);
            // A rank to which both payloads were sent knows it by itself.
            COPPICE_CHECK(status == COPPICE_OK || status == COPPICE_ERR_MISMATCH);
            if (status != COPPICE_OK) expect_named("0");
        }
        COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
    });
    EXPECT_EQ(job.finish(), "");
}

struct BetweenHosts {
    const char* name;
    std::uint32_t ranks;
    std::uint32_t hosts;
    std::uint32_t second;  // root, besides rank 1
    const char* hierarchy;

    JobOptions job() const {
        JobOptions options;
        options.ranks = ranks;
        options.hosts = hosts;
        options.environment = {{"COPPICE_HIERARCHY", hierarchy}};
        return options;
    }
    std::string roots() const {
        return "ranks " + std::to_string(std::min(1U, second)) + " and " + std::to_string(std::max(1U, second));
    }
    bool has_root(const Member& member) const { return member.rank == 1 || member.rank == second; }
    coppice_status_t broadcast_from(Member& member) const {
        return broadcast(member, member.rank, member.rank == second ? second : 1);
    }
};

class RootsBetweenHosts : public ::testing::TestWithParam<BetweenHosts> {};
INSTANTIATE_TEST_SUITE_P(Jobs, RootsBetweenHosts,
                         ::testing::Values(BetweenHosts{"two_ranks", 2, 2, 0, "host"},
                                           BetweenHosts{"a_rank_each", 3, 3, 2, "host"},
                                           BetweenHosts{"the_leader_of_the_other", 4, 2, 2, "host"},
                                           BetweenHosts{"no_leaders", 4, 2, 3, "host"},
                                           BetweenHosts{"by_messages", 4, 1, 2, "flat"}),
                         [](const auto& job) { return job.param.name; });

// Whether both roots' calls have returned OK: ranks have been given different payloads then. Else one was told by its call.
bool payloads_differ(const Member& member, bool is_root, coppice_status_t status) {
    if (is_root) member.notes[status == COPPICE_OK ? 0 : 1] += 1;
    member.await("the roots have called", [&] { return member.notes[0] + member.notes[1] == 2; });
    return member.notes[0] == 2;
}

// After a broadcast that ended so. The rank that finds two roots tells the others that the group is revoked.
void go_on_until_told(Member& member, const BetweenHosts& param, coppice_status_t first) {
    if (payloads_differ(member, param.has_root(member), first)) {
        coppice_status_t status = COPPICE_OK;
        member.await("the other root is found", [&] {
            std::uint64_t value = 0;
            status = coppice_agree(member.group, &value, sizeof value, nullptr, kTimeout);
            return status != COPPICE_OK;
        });
        COPPICE_CHECK(status == COPPICE_ERR_MISMATCH || status == COPPICE_ERR_REVOKED);
        if (status == COPPICE_ERR_MISMATCH) expect_named("0", param.roots());
    }
    (void)coppice_group_destroy(member.group, kTimeout);
    COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
}

TEST_P(RootsBetweenHosts, AreToldOfByTheNextCalls) {
    const BetweenHosts& param = GetParam();
    Job job(param.job(), [&param](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        go_on_until_told(member, param, param.broadcast_from(member));
    });
    EXPECT_EQ(job.finish(), "");
}

// Rank 3 comes to it when all others have had the payload of rank 1: rank 0, to which it sends its own, from a line.
TEST(ARootThatComesLate, IsToldOfByTheNextCalls) {
    constexpr std::size_t kServed = 3;
    const BetweenHosts param{"no_leaders", 4, 2, 3, "host"};
    Job job(param.job(), [&param](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        if (member.rank == 3) member.await_note(kServed, 3);
        const coppice_status_t first = param.broadcast_from(member);
        member.notes[kServed] += 1;
        go_on_until_told(member, param, first);
    });
    EXPECT_EQ(job.finish(), "");
}

// Nobody calls again. Between two ranks the other's payload comes before the news that it may leave.
TEST(RootsOfTwoRanks, AreToldOfByDestroy) {
    const BetweenHosts param{"two_ranks", 2, 2, 0, "host"};
    Job job(param.job(), [&param](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const coppice_status_t first = param.broadcast_from(member);
        const bool differ = payloads_differ(member, param.has_root(member), first);
        const coppice_status_t status = coppice_group_destroy(member.group, kTimeout);
        COPPICE_CHECK(status == COPPICE_OK || status == COPPICE_ERR_MISMATCH);
        if (status == COPPICE_ERR_MISMATCH) expect_named("0", param.roots());
        if (!differ || status == COPPICE_ERR_MISMATCH) member.notes[2] += 1;
        COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
    });
    EXPECT_EQ(job.finish(), "");
    EXPECT_GT(job.note(2), 0U) << "nobody was told";
}

}  // namespace
}  // namespace coppice::testing
