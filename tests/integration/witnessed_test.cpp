// What ranks do until a witness has spoken, and when it stays silent: here the test is the launcher, and speaks when it wants to.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "bootstrap/witness_keeper.hpp"
#include "integration/lineage.hpp"

namespace coppice::testing {
namespace {

// How often coppice-run looks.
constexpr auto kLook = std::chrono::milliseconds(20);

JobOptions witnessed(const bootstrap::WitnessKeeper& keeper, std::uint32_t ranks, std::uint32_t hosts) {
    JobOptions options;
    options.ranks = ranks;
    options.hosts = hosts;
    options.is_witnessed = false;  // the test's own keeper does that
    options.environment = {{"COPPICE_QUORUM", "certain"},
                           {"COPPICE_WITNESS", keeper.path()},
                           {"COPPICE_LAUNCHER", "/nowhere"},
                           {"COPPICE_SIZE", std::to_string(ranks)}};
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
        options.of_rank[rank]["COPPICE_RANK"] = std::to_string(rank);
    return options;
}

// Ranks begin when the witness knows them.
void begin(Member& member) {
    member.await_note(0, 1);
    COPPICE_CHECK(member.join() == COPPICE_OK);
    work(Lineage::begin(member), member);
    member.notes[1].fetch_add(1);
}

void introduce(Job& job, bootstrap::WitnessKeeper& keeper) {
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank)
        keeper.arrived(rank, job.processes().pid(rank));
    job.note(0) = 1;
    EXPECT_TRUE(job.await_note(1, job.ranks()));
}

// An agreement in the old group ends without the quorum's error; then those that are left go on.
void go_on(Member& member, const std::vector<std::uint32_t>& victims) {
    std::uint64_t value = 0;
    while (member.failed().size() < victims.size()) {
        const coppice_status_t status = coppice_agree(member.group, &value, sizeof value, nullptr, kTimeout);
        if (status == COPPICE_ERR_NO_QUORUM) throw CheckFailed(coppice_last_error());
    }
    Lineage lineage = shrink_until_gone(Lineage::begin(member), member, victims);
    work(lineage, member);
    leave(member, lineage);
}

void end_without_quorum(const Member& member) {
    coppice_group_t* next = nullptr;
    COPPICE_CHECK(coppice_group_shrink(member.group, &next, kTimeout) == COPPICE_ERR_NO_QUORUM);
    COPPICE_CHECK(coppice_group_destroy(member.group, kTimeout) == COPPICE_OK);
    COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
}

void agree_and_stop(Member& member) {
    begin(member);
    coppice_group_t* next = nullptr;
    if (member.rank > 0) {
        coppice_request_t* request = nullptr;
        COPPICE_CHECK(coppice_group_shrink_nb(member.group, &next, &request) == COPPICE_OK);
        member.notes[2].fetch_add(1);
        while (true)
            pause();
    }
    member.await_note(2, member.ranks - 1);
    const Lineage lineage = Lineage::begin(member).shrink();
    COPPICE_CHECK(info_of(lineage.group).size == member.ranks);
    member.notes[3].store(1);
    const Lineage last = shrink_until_gone(lineage, member, {1, 2, 3});
    work(last, member);
    COPPICE_CHECK(coppice_group_destroy(member.group, kTimeout) == COPPICE_OK);
    leave(member, last);
}

struct Case {
    const char* name;
    std::uint32_t ranks;
    std::uint32_t hosts;
    std::vector<std::uint32_t> victims;
    friend void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }
};

class Witnessed : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Quorum, Witnessed,
                         ::testing::Values(Case{"one_of_two", 2, 2, {0}},
                                           Case{"two_of_three_hosts", 6, 3, {0, 1, 2, 3}},
                                           Case{"all_but_one", 4, 4, {0, 1, 2}}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(Witnessed, HostsThatAreLostCostNoQuorum) {
    const Case& given = GetParam();
    const auto keeper = bootstrap::WitnessKeeper::create(given.ranks);
    const auto is_victim = [&given](std::uint32_t rank) { return std::ranges::count(given.victims, rank) > 0; };
    Job job(witnessed(*keeper, given.ranks, given.hosts), [&](Member& member) {
        begin(member);
        while (is_victim(member.rank))
            pause();
        go_on(member, given.victims);
    });
    introduce(job, *keeper);
    std::jthread witness([&](const std::stop_token& stop) {
        for (; !stop.stop_requested(); std::this_thread::sleep_for(kLook))
            keeper->look();
    });
    for (const std::uint32_t victim : given.victims)
        job.kill(victim, true);
    EXPECT_EQ(job.finish(is_victim), "");
}

// All but rank 0 have agreed to the next group, and end before they have it.
TEST(Witnesses, WhoEndsBeforeItHasTheNextGroupCostsNoQuorum) {
    constexpr std::uint32_t kRanks = 4;
    const auto keeper = bootstrap::WitnessKeeper::create(kRanks);
    JobOptions options = witnessed(*keeper, kRanks, kRanks);
    options.context.progress_thread = -1;
    Job job(options, agree_and_stop);
    introduce(job, *keeper);
    std::jthread witness([&](const std::stop_token& stop) {
        for (; !stop.stop_requested(); std::this_thread::sleep_for(kLook))
            keeper->look();
    });
    EXPECT_TRUE(job.await_note(3, 1));
    for (std::uint32_t rank = 1; rank < kRanks; ++rank)
        job.kill(rank, true);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank > 0; }), "");
}

TEST(Witnesses, OneThatIsSilentIsNotWaitedForForLong) {
    const auto keeper = bootstrap::WitnessKeeper::create(2);
    Job job(witnessed(*keeper, 2, 2), [&](Member& member) {
        begin(member);
        while (member.rank == 0)
            pause();
        std::uint64_t value = 0;
        coppice_status_t status = COPPICE_OK;
        while (status == COPPICE_OK)
            status = coppice_agree(member.group, &value, sizeof value, nullptr, kTimeout / 2);
        COPPICE_CHECK(status == COPPICE_ERR_NO_QUORUM);
        COPPICE_CHECK(std::strstr(coppice_last_error(), "COPPICE_QUORUM=any") != nullptr);
        end_without_quorum(member);
    });
    introduce(job, *keeper);
    job.kill(0, true);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 0; }), "");
}

// That a process has ended is no proof that it was the one of which the group knows.
TEST(Witnesses, ARankThatTheWitnessDoesNotKnowHasNone) {
    const auto keeper = bootstrap::WitnessKeeper::create(2);
    Job job(witnessed(*keeper, 2, 2), [&](Member& member) {
        begin(member);
        while (member.rank == 0)
            pause();
        member.await_failed(1);
        end_without_quorum(member);
    });
    keeper->arrived(1, job.processes().pid(1));
    Processes others;
    keeper->arrived(0, others.pid(others.start([] { return 0; })));
    job.note(0) = 1;
    EXPECT_TRUE(job.await_note(1, 2));
    others.clear();
    job.kill(0, true);
    keeper->look();
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 0; }), "");
}

}  // namespace
}  // namespace coppice::testing
