// Groups whose ranks know which switches are above their hosts, among real processes: broadcasts go by leaf switches, whichever leaf
// dies, and so do those of the group that is shrunk from it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "integration/lineage.hpp"

namespace coppice::testing {
namespace {

// Two ranks a host; hosts 0 and 4 on leaf 0, 1 and 5 on leaf 1, and so on.
JobOptions on_leaves(std::uint32_t hosts, std::uint32_t leaves) {
    JobOptions options{.ranks = 2 * hosts, .hosts = hosts};
    for (std::uint32_t rank = 0; rank < options.ranks; ++rank)
        options.of_rank[rank]["COPPICE_SWITCHES"] = "pod/leaf" + std::to_string(rank / 2 % leaves);
    return options;
}

TEST(Placed, BroadcastsFromEveryRootReachAll) {
    for (const char* correction : {"optimized:2", "opportunistic:1"}) {
        JobOptions options = on_leaves(6, 3);
        options.environment["COPPICE_CORRECTION"] = correction;
        Job job(options, [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            const Lineage lineage = Lineage::begin(member);
            COPPICE_CHECK(info_of(member.group).leaves == 3);
            work(lineage, member);
            COPPICE_CHECK(info_of(member.group).garbage == 0);
            leave(member, lineage);
        });
        EXPECT_EQ(job.finish(), "") << correction;
    }
}

TEST(Placed, HostsMayHaveOneRankOrMany) {
    // Of six hosts, on three leaves.
    constexpr std::array<std::uint32_t, 6> kRanksOf{1, 5, 2, 1, 3, 1};
    JobOptions options{.ranks = 13, .hosts = 6};
    std::uint32_t rank = 0;
    for (std::uint32_t host = 0; host < kRanksOf.size(); ++host) {
        for (std::uint32_t i = 0; i < kRanksOf[host]; ++i, ++rank)
            options.of_rank[rank] = {{"COPPICE_HOST", "host" + std::to_string(host)},
                                     {"COPPICE_SWITCHES", "leaf" + std::to_string(host % 3)}};
    }
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage lineage = Lineage::begin(member);
        const coppice_group_info_t info = info_of(member.group);
        COPPICE_CHECK(info.hosts == 6 && info.leaves == 3);
        work(lineage, member);
        leave(member, lineage);
    });
    EXPECT_EQ(job.finish(), "");
}

// Hosts that are where they say they are not: messages take longer ways, and all arrive.
TEST(Placed, PathsThatAreNotTrueCostTimeAlone) {
    for (std::uint32_t lie = 1; lie <= 3; ++lie) {
        JobOptions options{.ranks = 12, .hosts = 6};
        for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
            const std::uint32_t lot = (rank / 2 * 7 + lie * 5) % 11;
            options.of_rank[rank]["COPPICE_SWITCHES"] =
                lot % 2 == 0 ? "spine/leaf" + std::to_string(lot % 3) : "core/spine/leaf" + std::to_string(lot % lie);
        }
        Job job(options, [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            const Lineage lineage = Lineage::begin(member);
            work(lineage, member);
            COPPICE_CHECK(info_of(member.group).garbage == 0);
            leave(member, lineage);
        });
        EXPECT_EQ(job.finish(), "") << lie;
    }
}

TEST(Placed, OtherCorrectionsGoByTheOrderOfRanks) {
    JobOptions options = on_leaves(4, 2);
    options.environment["COPPICE_CORRECTION"] = "checked";
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        COPPICE_CHECK(info_of(member.group).leaves == 0);
        work(Lineage::begin(member), member);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Placed, ARankThatKnowsNothingLeavesAllInTheOrderOfRanks) {
    JobOptions options = on_leaves(4, 2);
    for (const std::uint32_t rank : {6U, 7U})
        options.of_rank[rank].clear();
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        COPPICE_CHECK(info_of(member.group).leaves == 0);
        work(Lineage::begin(member), member);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Placed, WhatTheCallerSaysComesBeforeTheEnvironment) {
    JobOptions options = on_leaves(4, 1);
    Job job(options, [](Member& member) {
        coppice_group_options_t wanted = COPPICE_GROUP_OPTIONS_INIT;
        wanted.switches = "pod/leaf 0";
        COPPICE_CHECK(member.join(wanted) == COPPICE_ERR_CONFIG);
        COPPICE_CHECK(std::strstr(coppice_last_error(), "pod/leaf 0") != nullptr);
        COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
        const std::string path = "pod/leaf" + std::to_string(member.rank / 2 % 2);
        wanted.switches = path.c_str();
        COPPICE_CHECK(member.join(wanted) == COPPICE_OK);
        const Lineage lineage = Lineage::begin(member);
        COPPICE_CHECK(info_of(member.group).leaves == 2);
        work(lineage, member);
        leave(member, lineage);
    });
    EXPECT_EQ(job.finish(), "");
}

// Three pods of two leaves, each with one host; pod 1 holds ranks 2, 3, 8 and 9.
TEST(Placed, APodDiesWhereEachLeafHasOneHost) {
    const std::vector<std::uint32_t> victims{2, 3, 8, 9};
    JobOptions options{.ranks = 12, .hosts = 6};
    for (std::uint32_t rank = 0; rank < options.ranks; ++rank)
        options.of_rank[rank]["COPPICE_SWITCHES"] =
            "pod" + std::to_string(rank / 2 % 3) + "/leaf" + std::to_string(rank / 6);
    Job job(options, [&victims](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage lineage = Lineage::begin(member);
        COPPICE_CHECK(info_of(member.group).leaves == 6);
        work(lineage, member);
        member.notes[0].fetch_add(1);
        member.await_note(0, member.ranks);
        if (std::ranges::count(victims, member.rank) > 0) ::raise(SIGKILL);
        const Lineage next = shrink_until_gone(lineage, member, victims);
        COPPICE_CHECK(info_of(next.group).leaves == 4);
        work(next, member, 5);
        leave(member, next);
    });
    EXPECT_EQ(job.finish([&victims](std::uint32_t rank) { return std::ranges::count(victims, rank) > 0; }), "");
}

// Leaf 1 holds ranks 2, 3, 8 and 9. Its ranks kill themselves one after the other, in the midst of broadcasts.
TEST(Placed, ALeafDiesAndTheOthersGoOnAndShrink) {
    const std::vector<std::uint32_t> victims{2, 3, 8, 9};
    Job job(on_leaves(6, 3), [&victims](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const bool dies = std::ranges::count(victims, member.rank) > 0;
        const Lineage lineage = Lineage::begin(member);
        for (std::uint32_t round = 0; round < 60; ++round) {
            if (dies && round == 20) ::raise(SIGKILL);
            const std::uint32_t root = round % 2 == 0 ? 0 : 11;
            const auto expected = payload_of(round, root, 200);
            std::vector<unsigned char> buffer = member.rank == root ? expected : std::vector<unsigned char>(200);
            COPPICE_CHECK(coppice_broadcast(member.group, buffer.data(), buffer.size(), root, nullptr, kTimeout) ==
                          COPPICE_OK);
            COPPICE_CHECK(buffer == expected);
        }
        const Lineage next = shrink_until_gone(lineage, member, victims);
        const coppice_group_info_t info = info_of(next.group);
        COPPICE_CHECK(info.size == 8 && info.hosts == 4 && info.leaves == 2);
        work(next, member, 5);
        leave(member, next);
    });
    EXPECT_EQ(job.finish([&victims](std::uint32_t rank) { return std::ranges::count(victims, rank) > 0; }), "");
}

// The root dies before anybody else has its payload, or after: all survivors get it, or all are told.
TEST(Placed, TheRootDiesWithItsLeaf) {
    const std::vector<std::uint32_t> victims{0, 1, 6, 7};
    Job job(on_leaves(6, 3), [&victims](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const bool dies = std::ranges::count(victims, member.rank) > 0;
        std::uint32_t received = 0;
        bool told = false;
        for (std::uint32_t round = 0; round < 20 && !told; ++round) {
            if (dies && round == (member.rank == 0 ? 11U : 10U)) ::raise(SIGKILL);
            const auto expected = payload_of(round, 0, 200);
            std::vector<unsigned char> buffer = member.rank == 0 ? expected : std::vector<unsigned char>(200);
            const coppice_status_t status =
                coppice_broadcast(member.group, buffer.data(), buffer.size(), 0, nullptr, kTimeout);
            told = status == COPPICE_ERR_ROOT_FAILED;
            COPPICE_CHECK(told || (status == COPPICE_OK && buffer == expected));
            received += told ? 0 : 1;
        }
        if (dies) ::raise(SIGKILL);  // told before its turn came
        COPPICE_CHECK(told);
        member.notes[member.rank] = received + 1;
        for (std::uint32_t rank = 0; rank < member.ranks; ++rank) {
            if (std::ranges::count(victims, rank) > 0) continue;
            member.await_note(rank, 1);
            COPPICE_CHECK(member.notes[rank] == received + 1);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish([&victims](std::uint32_t rank) { return std::ranges::count(victims, rank) > 0; }), "");
}

TEST(Placed, RanksOfAHostThatContradictEachOtherAreNamed) {
    JobOptions options = on_leaves(4, 2);
    options.of_rank[5]["COPPICE_SWITCHES"] = "pod/leaf1";
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_ERR_MISMATCH);
        const std::string said = coppice_last_error();
        for (const char* word : {"ranks 4 and 5", "pod/leaf0", "pod/leaf1"})
            COPPICE_CHECK(said.find(word) != std::string::npos);
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Placed, AFileThatIsWrongIsNamedWithItsLine) {
    const std::string path = ::testing::TempDir() + "coppice_placed_" + std::to_string(::getpid());
    {
        std::ofstream file(path);
        file << "host0 leaf0\nhost0 leaf1\n";
    }
    // One rank alone has it, and does not get as far as the exchange.
    JobOptions options{.ranks = 2};
    options.of_rank[1]["COPPICE_TOPOLOGY"] = path;
    Job job(options, [&path](Member& member) {
        if (member.rank == 0) return;
        COPPICE_CHECK(member.join() == COPPICE_ERR_CONFIG);
        const std::string said = coppice_last_error();
        COPPICE_CHECK(said.starts_with("rank 1: ") && said.find(path + ":2") != std::string::npos);
    });
    EXPECT_EQ(job.finish(), "");
    std::filesystem::remove(path);
}

}  // namespace
}  // namespace coppice::testing
