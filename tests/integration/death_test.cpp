// Deaths among real processes: SIGKILL at every point of a small broadcast, before it, during start-up and tear-down.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/process_tree.hpp"
#include "integration/job.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;

const std::vector<Layout>& layouts() {
    static const std::vector<Layout> all{
        {"one_host", 5, 1, {}},
        {"flat_star", 5, 1, {{"COPPICE_HIERARCHY", "flat"}}},
        {"flat_opportunistic", 5, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_TREE", "binomial"}}},
        {"flat_one_directional",
         5,
         1,
         {{"COPPICE_TREE", "binomial"},
          {"COPPICE_HIERARCHY", "flat"},
          {"COPPICE_CORRECTION", "opportunistic:1:one-directional"}}},
        {"flat_optimized",
         6,
         1,
         {{"COPPICE_TREE", "binomial"}, {"COPPICE_HIERARCHY", "flat"}, {"COPPICE_CORRECTION", "optimized:3"}}},
        {"flat_checked",
         5,
         1,
         {{"COPPICE_TREE", "binomial"}, {"COPPICE_HIERARCHY", "flat"}, {"COPPICE_CORRECTION", "checked"}}},
        {"ucx", 4, 1, {{"COPPICE_TRANSPORT", "ucx"}}},
        {"tcp", 4, 1, {{"COPPICE_TRANSPORT", "tcp"}}},
        {"ucx_checked",
         4,
         1,
         {{"COPPICE_TREE", "binomial"}, {"COPPICE_TRANSPORT", "ucx"}, {"COPPICE_CORRECTION", "checked"}}},
        {"two_hosts", 5, 2, {}},
        {"hosts_in_a_chain", 7, 4, {{"COPPICE_TREE", "chain"}}},
        {"flat_checked_synchronized",
         5,
         1,
         {{"COPPICE_TREE", "binomial"}, {"COPPICE_HIERARCHY", "flat"}, {"COPPICE_CORRECTION", "checked:synchronized"}}},
        {"flat_delayed",
         5,
         1,
         {{"COPPICE_TREE", "binomial"}, {"COPPICE_HIERARCHY", "flat"}, {"COPPICE_CORRECTION", "delayed:100000"}}},
        {"flat_failure_proof",
         5,
         1,
         {{"COPPICE_TREE", "binomial"}, {"COPPICE_HIERARCHY", "flat"}, {"COPPICE_CORRECTION", "failure-proof:1"}}},
        {"two_hosts_failure_proof", 5, 2, {{"COPPICE_CORRECTION", "failure-proof:1"}}},
        {"flat_opportunistic_gossip", 5, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_ALGORITHM", "ocg"}}},
        {"flat_checked_gossip", 5, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_ALGORITHM", "ccg"}}},
        {"flat_failure_proof_gossip", 5, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_ALGORITHM", "fcg:1"}}},
        {"flat_buntinas", 5, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_ALGORITHM", "bfb"}}},
        {"three_hosts_buntinas", 6, 3, {{"COPPICE_ALGORITHM", "bfb"}}},
        {"flat_binomial_graph", 5, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_ALGORITHM", "big"}}},
        {"three_hosts_binomial_graph", 6, 3, {{"COPPICE_ALGORITHM", "big"}}},
        {"three_hosts_checked", 6, 3, {{"COPPICE_TREE", "binomial"}, {"COPPICE_CORRECTION", "checked"}}},
    };
    return all;
}

class EveryLayout : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, EveryLayout, ::testing::ValuesIn(layouts()),
                         [](const auto& layout) { return std::string(layout.param.name); });

// Does `count` broadcasts, roots by `root_of`; notes the outcome of each: notes[rank * count + number] = 1 for OK, 2
// for ROOT_FAILED. Everything else, or a wrong byte, ends the rank with an error.
void sing(Member& member, std::uint64_t count, const std::function<std::uint32_t(std::uint64_t)>& root_of,
          std::size_t bytes) {
    std::vector<unsigned char> buffer(bytes);
    for (std::uint64_t number = 0; number < count; ++number) {
        const std::uint32_t root = root_of(number);
        const auto expected = payload_of(number, root, bytes);
        if (member.rank == root) {
            buffer = expected;
        } else {
            std::ranges::fill(buffer, 0);
        }
        const coppice_status_t status = coppice_broadcast(member.group, buffer.data(), bytes, root, nullptr, kTimeout);
        if (status == COPPICE_OK) {
            COPPICE_CHECK(buffer == expected);
        } else if (status != COPPICE_ERR_ROOT_FAILED) {
            throw CheckFailed(coppice_last_error());
        } else {
            // A rank that is told so knows which rank has failed.
            COPPICE_CHECK(std::ranges::count(member.failed(), root) == 1);
        }
        member.notes[member.rank * count + number] = status == COPPICE_OK ? 1 : 2;
    }
}

// What every rank that lived noted: the same at all of them, and OK for every broadcast of a live root. Buntinas'
// broadcast and the binomial graph promise nothing about a dead root's but that it ends.
void expect_uniform(Job& job, const Layout& layout, std::uint64_t count, const std::set<std::uint32_t>& dead,
                    const std::function<std::uint32_t(std::uint64_t)>& root_of, const std::string& where) {
    for (std::uint64_t number = 0; number < count; ++number) {
        std::set<std::uint64_t> outcomes;
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (!dead.contains(rank)) outcomes.insert(job.note(rank * count + number));
        }
        const bool reaches_all = !layout.uses("COPPICE_ALGORITHM", "bfb") && !layout.uses("COPPICE_ALGORITHM", "big");
        if (dead.contains(root_of(number)) && !reaches_all) continue;
        ASSERT_EQ(outcomes.size(), 1U) << where << ": survivors differ about broadcast " << number;
        if (!dead.contains(root_of(number))) {
            ASSERT_EQ(*outcomes.begin(), 1U) << where << ": broadcast " << number << " of a live root was lost";
        }
    }
}

// SIGKILL before and after each message that the victim would send, until it sends no more: nothing is lost, nobody
// waits.
void kill_at_every_message(const Layout& layout, std::uint32_t victim,
                           const std::function<std::uint32_t(std::uint64_t)>& root_of, std::size_t bytes) {
    constexpr std::uint64_t kCount = 4;
    for (const char* moment : {"kill-before", "kill-after"}) {
        bool killed = true;
        for (int message = 1; killed; ++message) {
            ASSERT_LT(message, 200) << "a broadcast among " << layout.ranks << " ranks does not take so many messages";
            JobOptions options = layout.job();
            const std::string fault = faults_at(moment, message, {victim});
            options.environment["COPPICE_FAULTS"] = fault;
            Job job(
                options,
                [&](Member& member) {
                    COPPICE_CHECK(member.join() == COPPICE_OK);
                    sing(member, kCount, root_of, bytes);
                    member.leave();
                },
                layout.ranks * kCount);
            ASSERT_EQ(job.finish([&](std::uint32_t rank) { return rank == victim; }), "") << fault;
            killed = job.ending(victim).killed_by(SIGKILL);
            expect_uniform(job, layout, kCount, killed ? std::set{victim} : std::set<std::uint32_t>{}, root_of, fault);
        }
    }
}

TEST_P(EveryLayout, ARootMayDieAtEveryMessage) {
    kill_at_every_message(
        GetParam(), 0, [](std::uint64_t) { return 0U; }, 8);
}

TEST_P(EveryLayout, ARankBetweenMayDieAtEveryMessage) {
    kill_at_every_message(
        GetParam(), 1, [](std::uint64_t) { return 0U; }, 600);
}

TEST_P(EveryLayout, ALastRankMayDieAtEveryMessageWhileRootsTakeTurns) {
    const std::uint32_t ranks = GetParam().ranks;
    kill_at_every_message(
        GetParam(), ranks - 1,
        [ranks](std::uint64_t number) { return static_cast<std::uint32_t>((number * 2 + 1) % ranks); }, 64);
}

// A job that broadcasts until rank 0 has seen all the dead, and 100 more.
void go_on_without(const Layout& layout, const std::vector<std::uint32_t>& victims, bool reap) {
    constexpr std::size_t kStarted = 0;
    constexpr std::size_t kStop = 1;
    Job job(layout.job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        for (std::uint64_t number = 0;; ++number) {
            // The root says in the payload whether this is the last one.
            std::uint64_t payload[2] = {number, 0};
            if (member.rank == 0) payload[1] = member.failed().size() == victims.size() && member.notes[kStop] != 0;
            COPPICE_CHECK(coppice_broadcast(member.group, payload, sizeof payload, 0, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(payload[0] == number);
            if (number == 50) member.notes[kStarted].fetch_add(1);
            if (payload[1] != 0) break;
        }
        for (std::uint64_t number = 0; number < 100; ++number) {
            std::uint64_t payload = number;
            COPPICE_CHECK(coppice_broadcast(member.group, &payload, sizeof payload, 0, nullptr, kTimeout) ==
                          COPPICE_OK);
            COPPICE_CHECK(payload == number);
        }
        // Every survivor learns of every death, and of no other.
        member.await_failed(victims.size());
        COPPICE_CHECK(member.failed() == victims);
        member.leave();
    });
    ASSERT_TRUE(job.await_note(kStarted, layout.ranks));
    for (const std::uint32_t victim : victims)
        job.kill(victim, reap);
    job.note(kStop) = 1;
    EXPECT_EQ(job.finish([&](std::uint32_t rank) { return std::ranges::count(victims, rank) > 0; }), "");
}

TEST_P(EveryLayout, SurvivorsGoOnWhenAVictimIsReaped) {
    go_on_without(GetParam(), {1}, true);
}
TEST_P(EveryLayout, SurvivorsGoOnWhenAVictimStaysAZombie) {
    go_on_without(GetParam(), {2}, false);
}

TEST_P(EveryLayout, EveryRankButTheRootMayBeDead) {
    std::vector<std::uint32_t> victims;
    for (std::uint32_t rank = 1; rank < GetParam().ranks; ++rank)
        victims.push_back(rank);
    go_on_without(GetParam(), victims, true);
}

TEST_P(EveryLayout, ARankMayDieBeforeItHasJoined) {
    constexpr std::size_t kAlive = 0;
    Job job(
        GetParam().job(),
        [](Member& member) {
            member.notes[kAlive].fetch_add(1);
            if (member.rank == 1) {
                while (true)
                    pause();
            }
            COPPICE_CHECK(member.join() == COPPICE_OK);
            COPPICE_CHECK(member.failed() == std::vector<std::uint32_t>{1});
            sing(
                member, 50, [](std::uint64_t) { return 0U; }, 32);
            member.leave();
        },
        64 * 8);
    ASSERT_TRUE(job.await_note(kAlive, GetParam().ranks));
    job.kill(1, true);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "");
}

TEST_P(EveryLayout, ARankMayDieWhileTheOthersLeave) {
    constexpr std::size_t kDone = 0;
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t payload = 3;
        COPPICE_CHECK(coppice_broadcast(member.group, &payload, sizeof payload, 0, nullptr, kTimeout) == COPPICE_OK);
        member.notes[kDone].fetch_add(1);
        if (member.rank == 2) {
            member.await_note(kDone, member.ranks);  // where others wait for its acknowledgement, that has to leave yet
            while (true)
                pause();
        }
        member.leave();
    });
    ASSERT_TRUE(job.await_note(kDone, GetParam().ranks));
    job.kill(2, false);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 2; }), "");
}

// Ranks 3, 4 and 5 share a host, 3 is its leader. It publishes, 4 reads, 3 dies; 5 comes only then, to a host whose new
// leader has had the payload for long and from a line that is not its own.
TEST(Death, ALateRankFindsWhatADeadLeaderHasPublished) {
    constexpr std::size_t kRead = 0;
    constexpr std::size_t kDead = 1;
    Job job({.ranks = 6, .hosts = 2}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        if (member.rank == 5) {
            member.await_note(kDead, 1);
            member.await_failed(1);
        }
        std::uint64_t payload = member.rank == 0 ? 77 : 0;
        COPPICE_CHECK(coppice_broadcast(member.group, &payload, sizeof payload, 0, nullptr, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(payload == 77);
        member.notes[kRead].fetch_add(1);
        if (member.rank == 4) {
            member.await_failed(1);
        }
        if (member.rank == 3) {
            while (true)
                pause();
        }
        member.leave();
    });
    ASSERT_TRUE(job.await_note(kRead, 5));
    job.kill(3, true);
    job.note(kDead) = 1;
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 3; }), "");
}

// The root is not the leader of its host. It publishes and dies having told one other host at most, while the leader
// makes progress without taking part yet: the third host gets the payload all the same.
TEST(Death, ALeaderServesWhatADeadRootHasPublishedBeforeItTakesPartItself) {
    constexpr std::size_t kDone = 0;
    for (const char* fault : {"kill-after:1@1", "kill-after:2@1"}) {
        Job job({.ranks = 6, .hosts = 3, .environment = {{"COPPICE_FAULTS", fault}}}, [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            if (member.rank == 0) member.await_note(kDone, 4);  // the two ranks of each other host
            std::uint64_t payload = member.rank == 1 ? 55 : 0;
            COPPICE_CHECK(coppice_broadcast(member.group, &payload, sizeof payload, 1, nullptr, kTimeout) ==
                          COPPICE_OK);
            COPPICE_CHECK(payload == 55);
            member.notes[kDone].fetch_add(1);
            member.leave();
        });
        EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "") << fault;
        EXPECT_TRUE(job.ending(1).killed_by(SIGKILL)) << fault;
    }
}

TEST_P(EveryLayout, TheFailureCallbackHearsOfEachDeathOnce) {
    constexpr std::size_t kStarted = 0;
    constexpr std::size_t kHeard = 600;  // behind what sing() notes
    Job job(
        GetParam().job(),
        [](Member& member) {
            coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
            options.on_failure_argument = &member;
            options.on_failure = [](void* argument, coppice_group_t* group, uint32_t rank) {
                const Member& self = *static_cast<Member*>(argument);
                std::size_t count = 0;
                if (coppice_group_failed(group, nullptr, 0, &count) != COPPICE_OK || count == 0) _exit(3);
                if (rank != 1) _exit(4);
                self.notes[kHeard + self.rank].fetch_add(1);
            };
            COPPICE_CHECK(member.join(options) == COPPICE_OK);
            member.notes[kStarted].fetch_add(1);
            if (member.rank == 1) {
                while (true)
                    pause();
            }
            member.await_call("the callback", [&] { return member.notes[kHeard + member.rank] == 1; });
            sing(
                member, 20, [](std::uint64_t) { return 0U; }, 8);
            COPPICE_CHECK(member.notes[kHeard + member.rank] == 1);
            member.leave();
        },
        64 * 20);
    ASSERT_TRUE(job.await_note(kStarted, GetParam().ranks));
    job.kill(1, true);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "");
}

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
    const std::vector<Case> cases{{"one host", 1, 6, {}},
                                  {"two hosts", 2, 6, {}},
                                  {"flat", 1, 4, {{"COPPICE_HIERARCHY", "flat"}}},
                                  {"ucx", 1, 4, {{"COPPICE_TRANSPORT", "ucx"}}}};
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

}  // namespace
}  // namespace coppice::testing
