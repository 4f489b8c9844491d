// Destroying a group in which one rank stays: each of the others is told which rank it has waited for in vain.
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;
// How long those that leave wait. Names come within 0.1 s, but on a machine that has no time for its ranks; and a rank that begins
// to wait later than others is told of those that have given up.
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kPatiences[] = {3 * kSecond,  3 * kSecond,  6 * kSecond, 12 * kSecond,
                                        12 * kSecond, 24 * kSecond, 48 * kSecond};

// What the ranks have done together before.
enum class Past : std::uint8_t { broadcasts, agreement, both };

const char* to_string(Past past) {
    return past == Past::broadcasts ? "broadcasts" : past == Past::agreement ? "an agreement" : "both";
}

void do_together(Member& member, Past past, std::uint32_t absent) {
    if (past != Past::broadcasts) {
        COPPICE_CHECK(coppice_agree(member.group, nullptr, 0, nullptr, kTimeout) == COPPICE_OK);
    }
    if (past == Past::agreement || member.rank == absent) return;
    const std::uint32_t root = absent == 0 ? 1 : 0;
    for (int i = 0; i < 3; ++i) {
        char byte = 0;
        COPPICE_CHECK(coppice_broadcast(member.group, &byte, 1, root, nullptr, kTimeout) == COPPICE_OK);
    }
}

void leave_without(Member& member, std::uint32_t absent, Past past, std::uint64_t patience) {
    COPPICE_CHECK(member.join() == COPPICE_OK);
    do_together(member, past, absent);
    if (member.rank == absent) {
        member.await("the others to leave", [&] { return member.notes[0].load() == member.ranks - 1; });
        COPPICE_CHECK(coppice_group_destroy(member.group, 0) == COPPICE_OK);
        return;
    }
    const coppice_status_t status = coppice_group_destroy(member.group, patience);
    const std::string said = coppice_last_error();
    member.notes[0].fetch_add(1);
    COPPICE_CHECK(status == COPPICE_ERR_TIMEOUT);
    const std::string name = "rank " + std::to_string(absent);
    if (said.find(name + " ") == std::string::npos && !said.ends_with(name))
        throw CheckFailed("rank " + std::to_string(member.rank) + " is told: " + said);
}

struct Case {
    JobOptions options;
    std::uint32_t absent;
    Past past;

    std::string name() const {
        return std::to_string(options.ranks) + " ranks on " + std::to_string(options.hosts) + " hosts, without rank " +
               std::to_string(absent) + (options.of_rank.contains(absent) ? ", where nothing moves it" : "") +
               ", after " + to_string(past);
    }
};

// All of these at once: most of their time is waiting. Those that went wrong.
std::vector<Case> run(const std::vector<Case>& cases, std::uint64_t patience) {
    std::vector<std::unique_ptr<Job>> jobs;
    for (const Case& one : cases) {
        jobs.push_back(std::make_unique<Job>(
            one.options, [&one, patience](Member& member) { leave_without(member, one.absent, one.past, patience); }));
    }
    std::vector<Case> wrong;
    for (std::size_t i = 0; i < cases.size(); ++i)
        if (jobs[i]->finish() != "") wrong.push_back(cases[i]);
    return wrong;
}

void expect_names(std::vector<Case> cases) {
    for (const std::uint64_t patience : kPatiences)
        if (!cases.empty()) cases = run(cases, patience);
    for (const Case& one : cases)
        ADD_FAILURE() << one.name();
}

class Leaving : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Hosts, Leaving, ::testing::Values(1, 2, 3),
                         [](const auto& hosts) { return "hosts_" + std::to_string(hosts.param); });

TEST_P(Leaving, ATimeoutNamesTheRankThatStays) {
    const std::uint32_t hosts = GetParam();
    for (std::uint32_t ranks = std::max(2U, hosts); ranks <= 6; ++ranks) {
        std::vector<Case> cases;
        for (const std::uint32_t absent : {ranks - 1, 0U})
            for (const Past past : {Past::broadcasts, Past::agreement, Past::both})
                cases.push_back({{.ranks = ranks, .hosts = hosts}, absent, past});
        expect_names(std::move(cases));
    }
}

// It answers no question.
TEST_P(Leaving, AlsoWhereNothingMovesThatOne) {
    const std::uint32_t hosts = GetParam();
    for (std::uint32_t ranks = std::max(2U, hosts); ranks <= 6; ++ranks) {
        JobOptions options{.ranks = ranks, .hosts = hosts};
        options.of_rank[ranks - 1] = {{"COPPICE_PROGRESS_THREAD", "0"}};
        expect_names({{options, ranks - 1, Past::broadcasts}, {options, ranks - 1, Past::agreement}});
    }
}

// By mistake the others begin one more broadcast of its: they are told, and do not wait for ever.
TEST_P(Leaving, ABroadcastWhoseRootHasLeftInPeaceFails) {
    Job job({.ranks = 4, .hosts = GetParam()}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        char byte = 0;
        COPPICE_CHECK(coppice_broadcast(member.group, &byte, 1, 0, nullptr, kTimeout) == COPPICE_OK);
        if (member.rank == 0) {
            COPPICE_CHECK(coppice_group_destroy(member.group, kTimeout) == COPPICE_OK);
            member.notes[0].fetch_add(1);
            return;
        }
        member.await("the root to leave", [&] { return member.notes[0].load() == 1; });
        COPPICE_CHECK(coppice_broadcast(member.group, &byte, 1, 0, nullptr, kTimeout) == COPPICE_ERR_ROOT_FAILED);
        COPPICE_CHECK(coppice_group_destroy(member.group, kTimeout) == COPPICE_OK);
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
