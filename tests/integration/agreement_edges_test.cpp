// Agreements at their edges: a rank that comes when all others are dead, one that leaves without a word, every tree
// that can be chosen, and calls that make no sense.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;

coppice_status_t agree_or(Member& member, std::uint64_t& value) {
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = COPPICE_OR;
    return coppice_agree(member.group, &value, sizeof value, &options, kTimeout);
}

std::vector<std::uint32_t> agreed(const Member& member) {
    std::vector<std::uint32_t> ranks(member.ranks);
    std::size_t count = 0;
    COPPICE_CHECK(coppice_group_agreed(member.group, ranks.data(), ranks.size(), &count) == COPPICE_OK);
    ranks.resize(count);
    return ranks;
}

const std::vector<Layout>& layouts() {
    static const std::vector<Layout> all{
        {"one_host", 4, 1, {}},
        {"flat", 4, 1, {{"COPPICE_HIERARCHY", "flat"}}},
        {"two_hosts", 4, 2, {}},
    };
    return all;
}

class Edges : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Agreement, Edges, ::testing::ValuesIn(layouts()),
                         [](const auto& layout) { return std::string(layout.param.name); });

// All but one have contributed, and some of them may have had the result of the first agreement; then they die, and
// only after that the last one calls.
TEST_P(Edges, ARankThatComesWhenAllOthersAreDeadGetsAResult) {
    constexpr std::size_t kWaiting = 0;
    constexpr std::size_t kDead = 1;
    const std::uint32_t late = GetParam().ranks - 1;
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t value = std::uint64_t{1} << member.rank;
        COPPICE_CHECK(agree_or(member, value) == COPPICE_OK);
        if (member.rank == late) member.notes[kWaiting].fetch_add(1);
        value = std::uint64_t{1} << member.rank;
        if (member.rank != late) {
            coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
            options.operation = COPPICE_OR;
            coppice_request_t* request = nullptr;
            COPPICE_CHECK(coppice_agree_nb(member.group, &value, sizeof value, &options, &request) == COPPICE_OK);
            for (int i = 0; i < 1000; ++i)
                COPPICE_CHECK(coppice_progress(member.context) == COPPICE_OK);
            member.notes[kWaiting].fetch_add(1);
            COPPICE_CHECK(coppice_request_wait(request, nullptr, COPPICE_NO_TIMEOUT) == COPPICE_OK);
        }
        while (member.notes[kDead] == 0)
            usleep(1000);  // in no call of the library
        // What the dead have published is still there: then nothing is missing, and nobody need have failed.
        const coppice_status_t status = agree_or(member, value);
        const std::uint64_t all = (std::uint64_t{1} << member.ranks) - 1;
        if (status == COPPICE_OK) {
            COPPICE_CHECK(value == all && agreed(member).empty());
        } else {
            COPPICE_CHECK(status == COPPICE_ERR_PEER_FAILED);
            // Its progress thread may have come to terms with those that died last about those that died first.
            const auto dead = agreed(member);
            COPPICE_CHECK(!dead.empty() && dead.size() <= late);
            for (std::uint32_t rank = 0; rank < member.ranks; ++rank) {
                if (std::ranges::find(dead, rank) == dead.end()) COPPICE_CHECK((value >> rank & 1) != 0);
            }
        }
        value = 5;
        const coppice_status_t after = agree_or(member, value);
        COPPICE_CHECK(after == COPPICE_ERR_PEER_FAILED && value == 5 && agreed(member).size() == late);
        COPPICE_CHECK(coppice_group_ack_failed(member.group, nullptr, 0) == COPPICE_OK);
        value = 7;
        COPPICE_CHECK(agree_or(member, value) == COPPICE_OK && value == 7);
        member.leave();
    });
    ASSERT_TRUE(job.await_note(kWaiting, GetParam().ranks));
    for (std::uint32_t rank = 0; rank < late; ++rank)
        job.kill(rank, true);
    job.note(kDead) = 1;
    EXPECT_EQ(job.finish([&](std::uint32_t rank) { return rank != late; }), "");
}

// On one host everybody publishes until then; the leader, the rank that stands in for it, and the others are connected
// all the same.
void expect_connections_suffice_without(std::uint32_t victim) {
    Job job({.ranks = 5}, [victim](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const auto connections = [&] {
            coppice_group_info_t info{};
            info.struct_size = sizeof info;
            COPPICE_CHECK(coppice_group_query(member.group, &info) == COPPICE_OK);
            return info.connections;
        };
        const std::uint32_t before = connections();
        COPPICE_CHECK(before == (member.rank < 2 ? member.ranks - 1 : 2));
        std::uint64_t value = 1;
        COPPICE_CHECK(agree_or(member, value) == COPPICE_OK);
        if (member.rank == victim) raise(SIGKILL);
        while (agree_or(member, value) == COPPICE_OK)
            continue;
        COPPICE_CHECK(agreed(member) == std::vector<std::uint32_t>{victim});
        COPPICE_CHECK(connections() == before);
        member.leave();
    });
    EXPECT_EQ(job.finish([victim](std::uint32_t rank) { return rank == victim; }), "") << "victim " << victim;
}

TEST(Agreement, TheFirstOneAfterADeathOnAHostConnectsNobody) {
    expect_connections_suffice_without(3);
    expect_connections_suffice_without(0);
    expect_connections_suffice_without(1);
}

TEST_P(Edges, ARankThatLeavesWithoutWaitingIsAmongTheFailed) {
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t value = std::uint64_t{1} << member.rank;
        COPPICE_CHECK(agree_or(member, value) == COPPICE_OK);
        if (member.rank == 1) {
            COPPICE_CHECK(coppice_group_destroy(member.group, 0) == COPPICE_OK);
            member.group = nullptr;
            return;
        }
        value = std::uint64_t{1} << member.rank;
        COPPICE_CHECK(agree_or(member, value) == COPPICE_ERR_PEER_FAILED);
        COPPICE_CHECK(agreed(member) == std::vector<std::uint32_t>{1});
        COPPICE_CHECK((value | 2U) == (std::uint64_t{1} << member.ranks) - 1);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

class EveryTree : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Agreement, EveryTree,
                         ::testing::Values("binary", "heap", "binomial", "kary:3", "star", "chain", "bin/star",
                                           "bin/bin", "bin/star/chain", "bin/bin/bin/bin"),
                         [](const auto& tree) {
                             std::string name = tree.param;
                             for (char& c : name)
                                 c = c == ':' || c == '/' ? '_' : c;
                             return name;
                         });

// Contributions travel along the chosen tree, also where ranks could publish, and a death in its middle is got over.
TEST_P(EveryTree, CanBeChosen) {
    constexpr std::size_t kStarted = 0;
    for (const std::uint32_t hosts : {1U, 2U}) {
        JobOptions options;
        options.ranks = 6;
        options.hosts = hosts;
        options.environment["COPPICE_AGREEMENT_TREE"] = GetParam();
        Job job(options, [&](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            std::uint64_t value = 0;
            for (int i = 0; i < 50; ++i) {
                value = std::uint64_t{1} << member.rank;
                COPPICE_CHECK(agree_or(member, value) == COPPICE_OK);
                COPPICE_CHECK(value == (std::uint64_t{1} << member.ranks) - 1);
            }
            COPPICE_CHECK(member.counts().sends >= 50);
            member.notes[kStarted].fetch_add(1);
            while (agreed(member).empty()) {
                value = std::uint64_t{1} << member.rank;
                const coppice_status_t status = agree_or(member, value);
                COPPICE_CHECK(status == COPPICE_OK || status == COPPICE_ERR_PEER_FAILED);
            }
            COPPICE_CHECK(agreed(member) == std::vector<std::uint32_t>{1});
            member.leave();
        });
        ASSERT_TRUE(job.await_note(kStarted, options.ranks));
        job.kill(1, true);
        EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "") << hosts << " hosts";
    }
}

// Seven ranks in a binary tree in order, 0 - {1 - {2, 3}, 4 - {5, 6}}, of which 1 dies: repaired, 0 has three children; anew, two.
TEST(Agreement, TreesAreMadeAnewAsTheSettingSays) {
    constexpr int kAgreements = 50;
    for (const char* rebalance : {"never", "when-degenerated", "always"}) {
        const std::uint64_t children = std::strcmp(rebalance, "always") == 0 ? 2 : 3;
        JobOptions options;
        options.ranks = 7;
        options.environment["COPPICE_AGREEMENT_TREE"] = "binary";
        options.environment["COPPICE_AGREEMENT_REBALANCE"] = rebalance;
        Job job(options, [&](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            if (member.rank == 1) std::raise(SIGKILL);
            std::uint64_t value = 0;
            const auto agree_often = [&] {
                for (int i = 0; i < kAgreements; ++i) {
                    value = std::uint64_t{1} << member.rank;
                    const coppice_status_t status = agree_or(member, value);
                    COPPICE_CHECK(status == COPPICE_OK || status == COPPICE_ERR_PEER_FAILED);
                }
            };
            agree_often();
            COPPICE_CHECK(agreed(member) == std::vector<std::uint32_t>{1});
            const std::uint64_t before = member.counts().sends;
            agree_often();
            const std::uint64_t after = member.counts().sends;
            // Some of the last decisions before may be sent after, and other things are sent, too.
            if (member.rank == 0) COPPICE_CHECK((after - before + kAgreements / 2) / kAgreements == children);
            member.leave();
        });
        EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "") << rebalance;
    }
}

// Eight hosts, every other one on one of two leaf switches. Rank 0 has two children among the hosts of its leaf, and the first of the
// other leaf; where switches don't count, two in all. Then the other leaf's first dies.
TEST(Agreement, GoesByLeafSwitchesWhereTheyAreKnown) {
    constexpr int kAgreements = 50;
    constexpr std::size_t kStarted = 0;
    for (const char* tree : {"auto", "bin/bin/star", "bin/bin/bin/bin", "bin/star"}) {
        const std::uint64_t children = std::strcmp(tree, "bin/star") == 0 ? 2 : 3;
        JobOptions options;
        options.ranks = 8;
        options.hosts = 8;
        options.environment["COPPICE_AGREEMENT_TREE"] = tree;
        for (std::uint32_t rank = 0; rank < options.ranks; ++rank)
            options.of_rank[rank]["COPPICE_SWITCHES"] = "pod/leaf" + std::to_string(rank % 2);
        Job job(options, [&](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            const std::uint64_t before = member.counts().sends;
            for (int i = 0; i < kAgreements; ++i) {
                std::uint64_t value = std::uint64_t{1} << member.rank;
                COPPICE_CHECK(agree_or(member, value) == COPPICE_OK);
                COPPICE_CHECK(value == 0xff);
            }
            if (member.rank == 0)
                COPPICE_CHECK((member.counts().sends - before + kAgreements / 2) / kAgreements == children);
            member.notes[kStarted].fetch_add(1);
            while (agreed(member).empty()) {
                std::uint64_t value = std::uint64_t{1} << member.rank;
                const coppice_status_t status = agree_or(member, value);
                COPPICE_CHECK(status == COPPICE_OK || status == COPPICE_ERR_PEER_FAILED);
            }
            COPPICE_CHECK(agreed(member) == std::vector<std::uint32_t>{1});
            member.leave();
        });
        ASSERT_TRUE(job.await_note(kStarted, options.ranks));
        job.kill(1, true);
        EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "") << tree;
    }
}

TEST(Agreement, DifferentTreesAreAMismatch) {
    JobOptions options;
    options.ranks = 2;
    options.of_rank[1]["COPPICE_AGREEMENT_TREE"] = "chain";
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_ERR_MISMATCH);
        COPPICE_CHECK(std::strstr(coppice_last_error(), "chain") != nullptr);
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Agreement, OperationsThatDoNotExistAreRefused) {
    Job job({.ranks = 1}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
        const unsigned sum = 5;  // one that is not idempotent can't be named
        static_assert(sizeof sum == sizeof options.operation);
        std::memcpy(&options.operation, &sum, sizeof sum);
        std::uint64_t value = 1;
        COPPICE_CHECK(coppice_agree(member.group, &value, 8, &options, kTimeout) == COPPICE_ERR_INVALID_ARGUMENT);
        COPPICE_CHECK(std::strstr(coppice_last_error(), "operation") != nullptr);
        options = COPPICE_AGREE_OPTIONS_INIT;
        options.operation = COPPICE_MIN;
        const unsigned type = 8;
        static_assert(sizeof type == sizeof options.type);
        std::memcpy(&options.type, &type, sizeof type);
        COPPICE_CHECK(coppice_agree(member.group, &value, 8, &options, kTimeout) == COPPICE_ERR_INVALID_ARGUMENT);
        COPPICE_CHECK(std::strstr(coppice_last_error(), "type") != nullptr);
        COPPICE_CHECK(value == 1);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// A call that only asks about a group makes progress, too: contributions go up and decisions down through ranks that do
// nothing but ask.
TEST_P(Edges, QuestionsMoveThingsToo) {
    using Question = coppice_status_t (*)(coppice_group_t*);
    const std::vector<Question> questions{
        [](coppice_group_t* group) {
            std::size_t count = 0;
            return coppice_group_failed(group, nullptr, 0, &count);
        },
        [](coppice_group_t* group) {
            std::size_t count = 0;
            return coppice_group_agreed(group, nullptr, 0, &count);
        },
        [](coppice_group_t* group) {
            coppice_group_info_t info{};
            info.struct_size = sizeof info;
            return coppice_group_query(group, &info);
        },
        [](coppice_group_t* group) { return coppice_group_ack_failed(group, nullptr, 0); },
    };
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        for (std::size_t round = 0; round < questions.size(); ++round) {
            coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
            options.operation = COPPICE_OR;
            std::uint64_t value = std::uint64_t{1} << member.rank;
            coppice_request_t* request = nullptr;
            COPPICE_CHECK(coppice_agree_nb(member.group, &value, sizeof value, &options, &request) == COPPICE_OK);
            while (member.rank != 0 && member.notes[round] == 0)
                COPPICE_CHECK(questions[round](member.group) == COPPICE_OK);
            COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
            member.notes[round] = 1;
            COPPICE_CHECK(value == (std::uint64_t{1} << member.ranks) - 1);
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// A group can't be destroyed under an agreement, so none is ever made on a destroyed one by a request that was open.
TEST(Agreement, AGroupWithOnesUnderWayIsBusy) {
    constexpr std::size_t kTried = 0;
    Job job({.ranks = 2}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t value = member.rank;
        coppice_request_t* request = nullptr;
        if (member.rank == 1) member.await_note(kTried, 1);
        COPPICE_CHECK(coppice_agree_nb(member.group, &value, 8, nullptr, &request) == COPPICE_OK);
        if (member.rank == 0) {
            COPPICE_CHECK(coppice_group_destroy(member.group, kTimeout) == COPPICE_ERR_BUSY);
            member.notes[kTried] = 1;
        }
        COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
