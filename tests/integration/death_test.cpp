// Deaths among real processes: SIGKILL at every point of a small broadcast, before it, and during tear-down.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <string>
#include <vector>

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

// What every rank that lived noted: the same at all of them, and OK for every broadcast of a live root.
void expect_uniform(Job& job, std::uint64_t count, const std::set<std::uint32_t>& dead,
                    const std::function<std::uint32_t(std::uint64_t)>& root_of, const std::string& where) {
    for (std::uint64_t number = 0; number < count; ++number) {
        std::set<std::uint64_t> outcomes;
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (!dead.contains(rank)) outcomes.insert(job.note(rank * count + number));
        }
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
            expect_uniform(job, kCount, killed ? std::set{victim} : std::set<std::uint32_t>{}, root_of, fault);
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

}  // namespace
}  // namespace coppice::testing
