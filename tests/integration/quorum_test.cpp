// Which ranks may go on without the others (COPPICE_QUORUM), among real processes that are really killed.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

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
    options.is_witnessed = false;
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

struct Operation {
    const char* name;
    coppice_status_t (*begin)(Member& member, std::uint32_t root, std::uint64_t& value, coppice_request_t** request);
};

constexpr Operation kOperations[] = {
    {"broadcast",
     [](Member& member, std::uint32_t root, std::uint64_t& value, coppice_request_t** request) {
         return coppice_broadcast_nb(member.group, &value, sizeof value, root, request);
     }},
    {"agreement",
     [](Member& member, std::uint32_t, std::uint64_t& value, coppice_request_t** request) {
         return coppice_agree_nb(member.group, &value, sizeof value, nullptr, request);
     }},
    {"barrier", [](Member& member, std::uint32_t, std::uint64_t&,
                   coppice_request_t** request) { return coppice_barrier_nb(member.group, request); }},
};

struct Loss {
    const char* name;
    std::uint32_t ranks;
    std::uint32_t hosts;
    const char* transport;
    const char* quorum;
    std::vector<std::uint32_t> first;  // there is a quorum without these
    std::vector<std::uint32_t> then;   // but none without these, too
    friend void PrintTo(const Loss& one, std::ostream* out) { *out << one.name; }
};

class WithoutQuorum : public ::testing::TestWithParam<std::tuple<Loss, Operation>> {};
INSTANTIATE_TEST_SUITE_P(
    Quorum, WithoutQuorum,
    ::testing::Combine(::testing::Values(Loss{"majority_of_a_host", 5, 1, "auto", "majority", {0, 1}, {2}},
                                         Loss{"majority_over_tcp", 5, 1, "tcp", "majority", {0, 1}, {2}},
                                         Loss{"majority_of_three_hosts", 6, 3, "auto", "majority", {2, 3}, {0}},
                                         Loss{"deaths_that_nobody_has_seen", 5, 1, "tcp", "certain", {0, 1}, {2}},
                                         Loss{"a_host_whose_last_rank_dies", 4, 2, "auto", "certain", {1}, {0}},
                                         Loss{"all_others", 2, 1, "tcp", "majority", {}, {0}}),
                       ::testing::ValuesIn(kOperations)),
    [](const auto& one) { return std::string(std::get<0>(one.param).name) + "_" + std::get<1>(one.param).name; });

// Also one that is under way, and its error says which ranks can't be reached and what to do.
TEST_P(WithoutQuorum, EveryOperationEnds) {
    const auto& [given, operation] = GetParam();
    JobOptions options;
    options.ranks = given.ranks;
    options.hosts = given.hosts;
    options.is_witnessed = false;
    options.environment["COPPICE_QUORUM"] = given.quorum;
    options.environment["COPPICE_TRANSPORT"] = given.transport;
    const auto dies_first = [&given](std::uint32_t rank) { return std::ranges::count(given.first, rank) > 0; };
    const auto is_victim = [&](std::uint32_t rank) { return dies_first(rank) || std::ranges::count(given.then, rank); };
    Job job(options, [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage lineage = Lineage::begin(member);
        work(lineage, member);
        member.notes[0].fetch_add(1);
        while (is_victim(member.rank))
            pause();
        const auto check = [&given](coppice_status_t status) {
            if (status != COPPICE_ERR_NO_QUORUM) throw CheckFailed(coppice_status_string(status));
            const std::string error = coppice_last_error();
            for (const auto& victims : {given.first, given.then})
                for (const std::uint32_t victim : victims)
                    COPPICE_CHECK(error.find(std::to_string(victim)) != std::string::npos);
            COPPICE_CHECK(error.find("can't be reached") != std::string::npos);
            COPPICE_CHECK(error.find("COPPICE_QUORUM=any") != std::string::npos);
        };
        const std::uint32_t root = given.then.front();
        std::uint64_t value = 0;
        coppice_request_t* request = nullptr;
        COPPICE_CHECK(operation.begin(member, root, value, &request) == COPPICE_OK);
        member.await_failed(given.first.size());
        COPPICE_CHECK(coppice_request_test(request, nullptr) == COPPICE_IN_PROGRESS);
        member.notes[1].fetch_add(1);
        check(coppice_request_wait(request, nullptr, kTimeout));
        COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        for (const Operation& one : kOperations)
            check(one.begin(member, member.rank, value, &request));
        coppice_group_t* next = nullptr;
        check(coppice_group_shrink(member.group, &next, kTimeout));
        COPPICE_CHECK(coppice_group_destroy(member.group, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
    });
    ASSERT_TRUE(job.await_note(0, given.ranks));
    for (const std::uint32_t victim : given.first)
        job.kill(victim, true);
    ASSERT_TRUE(job.await_note(1, given.ranks - given.first.size() - given.then.size()));
    for (const std::uint32_t victim : given.then)
        job.kill(victim, true);
    EXPECT_EQ(job.finish(is_victim), "");
}

// It had met the others, but missed a later exchange: it had no part in the group, and so no vote. No rank of its host is left, and there is no
// witness. With the next death two of three are left.
TEST(Quorum, WhoDiedWhileTheGroupWasMadeCostsNone) {
    JobOptions options;
    options.ranks = 4;
    options.hosts = 4;
    options.is_witnessed = false;
    options.environment["COPPICE_QUORUM"] = "certain";
    options.tamper = [](std::uint32_t rank, std::vector<char>&) {
        constexpr int kBehindTheGreetings = 3;
        static int calls = 0;
        if (rank == 0 && ++calls == kBehindTheGreetings) raise(SIGKILL);
    };
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t value = 0;
        COPPICE_CHECK(coppice_agree(member.group, &value, sizeof value, nullptr, kTimeout) == COPPICE_ERR_PEER_FAILED);
        member.notes[0].fetch_add(1);
        while (member.rank == 3)
            pause();
        coppice_status_t status = COPPICE_OK;
        while (member.failed().size() < 2)
            status = coppice_agree(member.group, &value, sizeof value, nullptr, kTimeout);
        COPPICE_CHECK(status != COPPICE_ERR_NO_QUORUM);
        const Lineage lineage = shrink_until_gone(Lineage::begin(member), member, {0, 3});
        leave(member, lineage);
    });
    job.processes().await_zombie(0);
    job.kill(0, true);
    EXPECT_TRUE(job.await_note(0, 3));
    job.kill(3, true);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 0 || rank == 3; }), "");
}

// Deaths that are certain, however many, cost no quorum: operations of the old group go on among those that are left.
TEST(Quorum, OperationsGoOnAfterDeathsThatOthersOfTheHostHaveSeen) {
    JobOptions options;
    options.ranks = 6;
    options.hosts = 2;
    options.is_witnessed = false;
    options.environment["COPPICE_QUORUM"] = "certain";
    const auto lives = [](std::uint32_t rank) { return rank == 2 || rank == 5; };
    Job job(options, [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        work(Lineage::begin(member), member);
        member.notes[0].fetch_add(1);
        while (!lives(member.rank))
            pause();
        member.await_failed(4);
        COPPICE_CHECK(coppice_group_ack_failed(member.group, member.failed().data(), 4) == COPPICE_OK);
        coppice_agree_options_t how = COPPICE_AGREE_OPTIONS_INIT;
        how.operation = COPPICE_OR;
        for (int round = 0; round < 3; ++round) {
            std::uint64_t value = std::uint64_t{1} << member.rank;
            const auto status = coppice_agree(member.group, &value, sizeof value, &how, kTimeout);
            if (status != COPPICE_OK) throw CheckFailed(coppice_last_error());
            COPPICE_CHECK(value == (1U << 2 | 1U << 5));
        }
        member.leave();
    });
    ASSERT_TRUE(job.await_note(0, 6));
    for (const std::uint32_t victim : {0U, 1U, 3U, 4U})
        job.kill(victim, true);
    EXPECT_EQ(job.finish([&](std::uint32_t rank) { return !lives(rank); }), "");
}

// A rank that leaves says whether it has voted for a next group: where it has not, it is no vote against those that go on, though no rank of its
// host is left and there is no witness.
struct Leaver {
    const char* name;
    bool transports_stay;  // it has another group
    bool has_voted;
    bool is_late;  // the other one shrinks already
    friend void PrintTo(const Leaver& one, std::ostream* out) { *out << one.name; }
};
class WithoutALeaver : public ::testing::TestWithParam<Leaver> {};
INSTANTIATE_TEST_SUITE_P(Quorum, WithoutALeaver,
                         ::testing::Values(Leaver{"whose_connections_end", false, false, false},
                                           Leaver{"that_stays_in_touch", true, false, false},
                                           Leaver{"that_leaves_late", true, false, true},
                                           Leaver{"that_has_voted", true, true, false}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(WithoutALeaver, TheOthersGoOn) {
    const Leaver& given = GetParam();
    JobOptions options;
    options.ranks = 2;
    options.hosts = 2;
    options.is_witnessed = false;
    options.environment["COPPICE_QUORUM"] = "certain";
    if (!given.transports_stay) options.context.progress_thread = -1;
    Job job(options, [&given](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        Lineage first = Lineage::begin(member);
        Lineage second = given.transports_stay ? first.shrink() : first;
        work(second, member);
        member.notes[2].fetch_add(1);
        member.await_call("both to have done that", [&member] { return member.notes[2].load() == 2; });
        if (given.has_voted) std::swap(first, second);
        // Else who has done something in a group leaves it with the others.
        COPPICE_CHECK(coppice_group_revoke(second.group) == COPPICE_OK);
        // The second one is left by rank 0, and made anew by rank 1.
        if (member.rank == 0) {
            if (given.is_late) member.await_note(1, 1);
            if (coppice_group_destroy(second.group, kTimeout) != COPPICE_OK) throw CheckFailed(coppice_last_error());
            member.notes[0].store(1);
        } else {
            coppice_group_t* next = nullptr;
            coppice_request_t* request = nullptr;
            const auto shrink = [&] {
                COPPICE_CHECK(coppice_group_shrink_nb(second.group, &next, &request) == COPPICE_OK);
            };
            if (given.is_late) shrink();
            member.notes[1].store(1);
            // Where it hears nothing before, all that it is told comes with the connection's end.
            if (given.transports_stay)
                member.await_call("rank 0 to leave", [&member] { return member.notes[0].load() == 1; });
            else
                member.await_note(0, 1);
            if (!given.is_late) shrink();
            const coppice_status_t status = coppice_request_wait(request, nullptr, kTimeout);
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
            if (status != (given.has_voted ? COPPICE_ERR_NO_QUORUM : COPPICE_OK))
                throw CheckFailed(coppice_last_error());
            COPPICE_CHECK(next == nullptr || info_of(next).size == 1);
            COPPICE_CHECK(coppice_group_destroy(next, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(coppice_group_destroy(second.group, kTimeout) == COPPICE_OK);
        }
        if (given.transports_stay) COPPICE_CHECK(coppice_group_destroy(first.group, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
