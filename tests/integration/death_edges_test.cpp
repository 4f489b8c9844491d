// Around deaths: keepers, deaths during start-up, and what a failure callback may do.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "bootstrap/process_tree.hpp"
#include "integration/job.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;

// Whether a keeper stands by this process, and nobody else (docs/detection.md). It takes its name a moment after it has
// begun.
bool has_keeper() {
    const auto children = bootstrap::descendants_of(getpid());
    if (children.empty()) return false;
    COPPICE_CHECK(children.size() == 1);
    COPPICE_CHECK(becomes([&] {
        std::string name;
        std::getline(std::ifstream("/proc/" + std::to_string(children.front()) + "/comm"), name);
        return name == "coppice-keep";
    }));
    return true;
}

// The first `count` cores that the test may use, all of them but the first `but`.
cpu_set_t cores(int count, int but = 0) {
    cpu_set_t all;
    cpu_set_t some;
    CPU_ZERO(&all);
    CPU_ZERO(&some);
    COPPICE_CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&some) < count; ++core)
        if (CPU_ISSET(core, &all) && but-- <= 0) CPU_SET(core, &some);
    return some;
}

struct OfRank {
    cpu_set_t cores;
    bool has_keeper;
};

void expect_keepers(const char* setting, const std::vector<OfRank>& of_rank) {
    const auto ranks = static_cast<std::uint32_t>(of_rank.size());
    Job job({.ranks = ranks, .environment = {{"COPPICE_KEEPER", setting}}}, [&](Member& member) {
        const OfRank& mine = of_rank[member.rank];
        COPPICE_CHECK(sched_setaffinity(0, sizeof mine.cores, &mine.cores) == 0);
        // All have the cores that they will have before one looks.
        member.notes[0].fetch_add(1);
        member.await_note(0, ranks);
        COPPICE_CHECK(member.join() == COPPICE_OK);
        COPPICE_CHECK(has_keeper() == mine.has_keeper);
        // Nobody goes before all have looked.
        member.notes[1].fetch_add(1);
        member.await_note(1, ranks);
        member.leave();
        COPPICE_CHECK(!has_keeper());
    });
    EXPECT_EQ(job.finish(), "") << setting;
}

TEST(Death, AKeeperStandsByRanksThatShareACoreAndWhereItIsWanted) {
    const cpu_set_t one = cores(1);
    expect_keepers("auto", {{one, true}, {one, true}});
    expect_keepers("off", {{one, false}, {one, false}});
    expect_keepers("on", {{one, true}, {one, true}});
}

TEST(Death, NoKeeperStandsByRanksThatHaveACoreEach) {
    const cpu_set_t two = cores(2);
    if (CPU_COUNT(&two) < 2) GTEST_SKIP() << "SKIP: two cores are wanted, and this test may run on one only";
    const cpu_set_t one = cores(1);
    const cpu_set_t other = cores(1, 1);
    expect_keepers("auto", {{two, false}, {two, false}});
    expect_keepers("auto", {{two, true}, {two, true}, {two, true}});
    expect_keepers("auto", {{one, false}, {other, false}});  // each bound to its own
    expect_keepers("auto", {{one, true}, {other, false}, {one, true}});
    expect_keepers("on", {{two, true}, {two, true}});
}

// An exchange of the user's that knows of a death fills the dead rank's place with zeros, in whichever of its calls
// that is.
TEST(StartUp, ARankThatDiesBeforeAnyCallOfTheExchangeIsAFailedMember) {
    constexpr std::uint32_t kVictim = 2;
    struct Case {
        const char* name;
        std::uint32_t hosts;
        int calls;
        std::map<std::string, std::string> environment;
    };
    const std::vector<Case> cases{{"one host", 1, 3, {}},
                                  {"two hosts", 2, 3, {}},
                                  {"flat", 1, 2, {{"COPPICE_HIERARCHY", "flat"}}},
                                  {"ucx", 1, 2, {{"COPPICE_TRANSPORT", "ucx"}}}};
    for (const Case& one : cases) {
        for (int last = 1; last <= one.calls; ++last) {
            SCOPED_TRACE(std::string(one.name) + ", dies before call " + std::to_string(last));
            JobOptions options{.ranks = 4, .hosts = one.hosts, .environment = one.environment};
            int calls = 0;  // in each rank's own memory
            options.tamper = [&calls, last](std::uint32_t rank, std::vector<char>& /*piece*/) {
                if (++calls == last && rank == kVictim) raise(SIGKILL);
            };
            Job job(options, [&](Member& member) {
                const coppice_status_t joined = member.join();
                if (joined != COPPICE_OK) throw CheckFailed(coppice_last_error());
                COPPICE_CHECK(calls == one.calls);
                member.await_failed(1);
                COPPICE_CHECK(member.failed() == std::vector<std::uint32_t>{kVictim});
                for (std::uint64_t number = 0; number < 40; ++number) {
                    const std::uint32_t root = number % 3 == 2 ? 3 : static_cast<std::uint32_t>(number % 3);
                    std::uint64_t value = member.rank == root ? number + 1 : 0;
                    COPPICE_CHECK(coppice_broadcast(member.group, &value, sizeof value, root, nullptr, kTimeout) ==
                                  COPPICE_OK);
                    COPPICE_CHECK(value == number + 1);
                }
                std::uint32_t bits = ~(1U << member.rank);
                COPPICE_CHECK(coppice_agree(member.group, &bits, sizeof bits, nullptr, kTimeout) ==
                              COPPICE_ERR_PEER_FAILED);
                COPPICE_CHECK((~bits & 0b1011U) == 0b1011U);
                member.leave();
            });
            ASSERT_TRUE(job.processes().await_zombie(kVictim));
            job.kill(kVictim, true);
            EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == kVictim; }), "");
        }
    }
}

// What a callback tried, and how it ended.
struct Tried {
    coppice_context_t* context = nullptr;
    std::vector<coppice_status_t> refused;
    std::atomic<coppice_status_t> asked = COPPICE_ERR_INTERNAL;  // last
    std::uint32_t dead = UINT32_MAX;
};

void try_everything(void* argument, coppice_group_t* group, std::uint32_t /*rank*/) {
    Tried& tried = *static_cast<Tried*>(argument);
    coppice_request_t* request = nullptr;
    coppice_group_t* shrunk = nullptr;
    char byte = 0;
    tried.refused = {coppice_progress(tried.context),
                     coppice_broadcast(group, &byte, 1, 0, nullptr, 1'000'000),
                     coppice_broadcast_nb(group, &byte, 1, 0, &request),
                     coppice_agree(group, &byte, 1, nullptr, 1'000'000),
                     coppice_group_ack_failed(group, nullptr, 0),
                     coppice_group_revoke(group),
                     coppice_group_shrink(group, &shrunk, 1'000'000),
                     coppice_group_destroy(group, 1'000'000),
                     coppice_group_destroy(group, 0),
                     coppice_context_destroy(tried.context)};
    std::size_t count = 0;
    tried.asked = coppice_group_failed(group, &tried.dead, 1, &count);
}

TEST(FailureCallback, MayAskWhichRanksHaveFailedAndNothingElse) {
    for (const char* thread : {"0", "1"}) {
        for (const std::uint32_t hosts : {1U, 2U}) {
            JobOptions options{.ranks = 4, .hosts = hosts};
            options.environment["COPPICE_PROGRESS_THREAD"] = thread;
            Job job(options, [](Member& member) {
                Tried tried;
                coppice_group_options_t group_options = COPPICE_GROUP_OPTIONS_INIT;
                group_options.on_failure = try_everything;
                group_options.on_failure_argument = &tried;
                COPPICE_CHECK(member.join(group_options) == COPPICE_OK);
                tried.context = member.context;
                member.notes[0].fetch_add(1);
                if (member.rank == 3) {
                    while (true)
                        member.await("being killed", [] { return false; });
                }
                member.await_failed(1);
                std::uint32_t bits = 7;
                COPPICE_CHECK(coppice_agree(member.group, &bits, sizeof bits, nullptr, kTimeout) ==
                              COPPICE_ERR_PEER_FAILED);
                member.await_call("the callback", [&] { return tried.asked == COPPICE_OK; });
                for (const coppice_status_t status : tried.refused)
                    COPPICE_CHECK(status == COPPICE_ERR_BUSY);
                COPPICE_CHECK(tried.refused.size() == 10 && tried.dead == 3);
                member.leave();
            });
            ASSERT_TRUE(job.await_note(0, 4));
            job.kill(3, true);
            EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 3; }), "")
                << hosts << " hosts, progress thread " << thread;
        }
    }
}

// Rank 0 observes rank 1. It is stopped when that one dies, and looks for the rank behind it when all others have left. True
// when it was so: they leave without rank 0 where those that saw the death had connections to rank 1.
bool leave_behind_a_stopped_rank(int seconds) {
    constexpr std::size_t kJoined = 0;
    constexpr std::size_t kLeft = 1;
    Job job({.ranks = 4, .hosts = 4}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        member.notes[kJoined].fetch_add(1);
        member.await_failed(1);
        // Time for rank 0 to find what it would find.
        for (int calls = 0; member.rank == 0 && calls < 200; ++calls) {
            COPPICE_CHECK(coppice_progress(member.context) == COPPICE_OK);
            usleep(1000);
        }
        COPPICE_CHECK(member.failed() == std::vector<std::uint32_t>{1});
        member.leave();
        member.notes[kLeft].fetch_add(1);
    });
    EXPECT_TRUE(job.await_note(kJoined, 4));
    usleep(100'000);
    job.processes().signal(0, SIGSTOP);
    job.kill(1, true);
    for (int looks = 0; looks < seconds * 1000 && job.note(kLeft) < 2; ++looks)
        usleep(1000);
    const bool all_left = job.note(kLeft) == 2;
    if (all_left) {
        for (const std::uint32_t rank : {2U, 3U})
            EXPECT_TRUE(job.processes().await_zombie(rank)) << "rank " << rank;
    }
    job.processes().signal(0, SIGCONT);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "");
    return all_left;
}

TEST(Deaths, ARankThatHasLeftIsNotTakenForDeadByOneThatWasStoppedMeanwhile) {
    int as_meant = 0;
    // A try proves nothing where the others take longer; on a machine that has no time for them the next one waits longer.
    for (int tries = 0; tries < 8 && as_meant < 3 && !HasFailure(); ++tries)
        as_meant += leave_behind_a_stopped_rank(3 + 5 * tries) ? 1 : 0;
    EXPECT_GT(as_meant, 0);
}

}  // namespace
}  // namespace coppice::testing
