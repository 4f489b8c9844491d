// Revocation among real processes: whatever is pending ends, everywhere, whichever rank dies.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <set>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;

class EveryLayout : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Revoke, EveryLayout, ::testing::ValuesIn(ways_to_be_connected(5)),
                         [](const auto& layout) { return std::string(layout.param.name); });

bool is_revoked(coppice_status_t status, std::uint32_t by) {
    return status == COPPICE_ERR_REVOKED &&
           std::strstr(coppice_last_error(), std::string("rank ").append(std::to_string(by)).c_str()) != nullptr;
}

// Ends when it has ended everywhere: what comes next disturbs none of it.
void work(Member& member) {
    constexpr std::size_t kWorked = 63;
    std::uint64_t value = 7;
    COPPICE_CHECK(coppice_agree(member.group, &value, sizeof value, nullptr, kTimeout) == COPPICE_OK);
    for (std::uint32_t root = 0; root < member.ranks; ++root) {
        std::uint64_t payload = member.rank == root ? root + 11 : 0;
        COPPICE_CHECK(coppice_broadcast(member.group, &payload, sizeof payload, root, nullptr, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(payload == root + 11);
    }
    member.notes[kWorked].fetch_add(1);
    member.await_note(kWorked, member.ranks);
}

TEST_P(EveryLayout, WhatIsPendingEndsAndWhatComesLaterToo) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        work(member);
        const std::uint32_t revoker = member.ranks - 1;
        std::uint64_t value = 7;
        std::uint64_t payload = 0;
        if (member.rank == revoker) {
            // It has one of its own under way, too.
            coppice_request_t* request = nullptr;
            COPPICE_CHECK(coppice_agree_nb(member.group, &value, sizeof value, nullptr, &request) == COPPICE_OK);
            member.await_note(0, member.ranks - 1);
            COPPICE_CHECK(coppice_group_revoke(member.group) == COPPICE_OK);
            const coppice_status_t status = coppice_request_test(request, nullptr);
            COPPICE_CHECK(is_revoked(status, revoker) || status == COPPICE_OK);  // all have contributed to it
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        } else {
            coppice_request_t* requests[6];
            for (std::size_t i = 0; i < 4; ++i) {
                COPPICE_CHECK(coppice_broadcast_nb(member.group, &payload, sizeof payload, revoker, &requests[i]) ==
                              COPPICE_OK);
            }
            COPPICE_CHECK(coppice_broadcast_view_nb(member.group, nullptr, 0, revoker, &requests[4]) == COPPICE_OK);
            COPPICE_CHECK(coppice_agree_nb(member.group, &value, sizeof value, nullptr, &requests[5]) == COPPICE_OK);
            member.notes[0].fetch_add(1);
            // The agreement may have all contributions before the news is here.
            std::uint64_t another = 7;
            coppice_status_t status = COPPICE_OK;
            while (status == COPPICE_OK) {
                status = coppice_agree(member.group, &another, sizeof another, nullptr, kTimeout);
            }
            COPPICE_CHECK(is_revoked(status, revoker));
            for (std::size_t i = 0; i < 6; ++i) {
                status = coppice_request_wait(requests[i], nullptr, kTimeout);
                COPPICE_CHECK(is_revoked(status, revoker) || (i == 5 && status == COPPICE_OK));
                COPPICE_CHECK(coppice_request_free(requests[i]) == COPPICE_OK);
            }
        }
        for (int i = 0; i < 3; ++i) {
            COPPICE_CHECK(is_revoked(coppice_agree(member.group, &value, sizeof value, nullptr, kTimeout), revoker));
            COPPICE_CHECK(is_revoked(
                coppice_broadcast(member.group, &payload, sizeof payload, member.rank, nullptr, kTimeout), revoker));
            COPPICE_CHECK(is_revoked(coppice_broadcast(member.group, &payload, sizeof payload,
                                                       (member.rank + 1) % member.ranks, nullptr, kTimeout),
                                     revoker));
            COPPICE_CHECK(coppice_group_revoke(member.group) == COPPICE_OK);
        }
        COPPICE_CHECK(member.failed().empty());
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(EveryLayout, ARankThatIsWaitingForNobodyInParticularLearnsOfIt) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        work(member);
        if (member.rank == 0) {
            // Blocking, as a root whose payload goes nowhere would: the window fills up.
            std::uint64_t payload = 3;
            coppice_status_t status = COPPICE_OK;
            while (status == COPPICE_OK)
                status = coppice_broadcast(member.group, &payload, sizeof payload, 0, nullptr, kTimeout);
            COPPICE_CHECK(is_revoked(status, 1));
        } else if (member.rank == 1) {
            COPPICE_CHECK(coppice_group_revoke(member.group) == COPPICE_OK);
        } else {
            std::uint64_t payload = 0;
            coppice_status_t status = COPPICE_OK;
            while (status == COPPICE_OK)
                status = coppice_broadcast(member.group, &payload, sizeof payload, 1, nullptr, kTimeout);
            COPPICE_CHECK(is_revoked(status, 1) || status == COPPICE_ERR_MISMATCH);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(EveryLayout, AllMayRevokeAtOnce) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        work(member);
        COPPICE_CHECK(coppice_group_revoke(member.group) == COPPICE_OK);
        COPPICE_CHECK(coppice_group_revoke(member.group) == COPPICE_OK);
        std::uint64_t value = 1;
        COPPICE_CHECK(coppice_agree(member.group, &value, sizeof value, nullptr, kTimeout) == COPPICE_ERR_REVOKED);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// Agreements until the group is revoked, but not for ever, because the news may have died with the revoker. Notes in
// notes[rank] how many there were.
void agree_until_revoked(Member& member) {
    constexpr std::uint64_t kMost = 30;
    std::uint64_t number = 0;
    for (; number < kMost; ++number) {
        std::uint64_t value = 1;
        const coppice_status_t status = coppice_agree(member.group, &value, sizeof value, nullptr, kTimeout);
        if (status == COPPICE_ERR_REVOKED) break;
        COPPICE_CHECK(status == COPPICE_OK || status == COPPICE_ERR_PEER_FAILED);
    }
    member.notes[member.rank] = number;
}

// Nobody can finish an agreement to which one that knows has not contributed. So either all survivors hear of it, or
// none.
void expect_all_or_none(Job& job, const std::set<std::uint32_t>& dead, const std::string& where) {
    std::uint64_t least = UINT64_MAX;
    std::uint64_t most = 0;
    std::string counts;
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
        if (dead.contains(rank)) continue;
        counts.append(" ").append(std::to_string(job.note(rank).load()));
        least = std::min(least, job.note(rank).load());
        most = std::max(most, job.note(rank).load());
    }
    EXPECT_LE(most - least, 1U) << where << ": some have never heard of the revocation; agreements were" << counts;
}

void kill_at_every_message(const Layout& layout, std::uint32_t revoker, const std::vector<std::uint32_t>& victims) {
    for (const char* moment : {"kill-before", "kill-after"}) {
        bool killed = true;
        for (int message = 1; killed; ++message) {
            ASSERT_LT(message, 200) << "a revocation among " << layout.ranks << " ranks does not take so many messages";
            JobOptions options = layout.job();
            const std::string faults = faults_at(moment, message, victims);
            options.environment["COPPICE_FAULTS"] = faults;
            Job job(options, [&](Member& member) {
                COPPICE_CHECK(member.join() == COPPICE_OK);
                if (member.rank == revoker) {
                    COPPICE_CHECK(coppice_group_revoke(member.group) == COPPICE_OK);
                } else {
                    agree_until_revoked(member);
                }
                member.leave();
            });
            const auto is_victim = [&](std::uint32_t rank) { return std::ranges::count(victims, rank) > 0; };
            ASSERT_EQ(job.finish(is_victim), "") << faults;
            std::set<std::uint32_t> dead{revoker};
            killed = false;
            for (const std::uint32_t victim : victims) {
                if (!job.ending(victim).killed_by(SIGKILL)) continue;
                dead.insert(victim);
                killed = true;
            }
            expect_all_or_none(job, dead, faults);
        }
    }
}

TEST_P(EveryLayout, TheRevokerMayDieAtEveryMessage) {
    kill_at_every_message(GetParam(), 1, {1});
}
TEST_P(EveryLayout, TheLeaderOfAHostMayRevokeAndDieAtEveryMessage) {
    kill_at_every_message(GetParam(), 0, {0});
}
TEST_P(EveryLayout, ARankThatPassesItOnMayDieAtEveryMessageToo) {
    kill_at_every_message(GetParam(), GetParam().ranks - 1, {0, GetParam().ranks - 1});
}

// On one host one store is enough, and it outlives the revoker.
TEST(Revoke, OnOneHostItIsThereWhenTheCallHasReturnedThoughTheRevokerDies) {
    for (const bool reap : {true, false}) {
        Job job({.ranks = 4}, [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            work(member);
            if (member.rank == 3) {
                COPPICE_CHECK(coppice_group_revoke(member.group) == COPPICE_OK);
                member.notes[0].fetch_add(1);
                while (true)
                    pause();
            }
            std::uint64_t value = 1;
            COPPICE_CHECK(is_revoked(coppice_agree(member.group, &value, sizeof value, nullptr, kTimeout), 3));
            std::uint64_t payload = 0;
            COPPICE_CHECK(
                is_revoked(coppice_broadcast(member.group, &payload, sizeof payload, 3, nullptr, kTimeout), 3));
            member.leave();
        });
        ASSERT_TRUE(job.await_note(0, 1));
        job.kill(3, reap);
        EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 3; }), "");
    }
}

TEST(Revoke, ViewsStayGoodAndRegisteredMemoryIsGivenBack) {
    Job job({.ranks = 2, .environment = {{"COPPICE_TRANSPORT", "ucx"}}}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::vector<unsigned char> memory = payload_of(1, 0, 4096);
        COPPICE_CHECK(coppice_memory_register(member.group, memory.data(), memory.size()) == COPPICE_OK);
        coppice_request_t* view = nullptr;
        COPPICE_CHECK(coppice_broadcast_view_nb(member.group, memory.data(), memory.size(), 0, &view) == COPPICE_OK);
        COPPICE_CHECK(coppice_request_wait(view, nullptr, kTimeout) == COPPICE_OK);
        member.notes[0].fetch_add(1);
        member.await_note(0, 2);
        coppice_request_t* open = nullptr;
        COPPICE_CHECK(coppice_broadcast_nb(member.group, memory.data(), memory.size(), 0, &open) == COPPICE_OK);
        member.notes[1].fetch_add(1);
        member.await_note(1, 2);
        COPPICE_CHECK(coppice_group_revoke(member.group) == COPPICE_OK);
        const coppice_status_t ended = coppice_request_wait(open, nullptr, kTimeout);
        COPPICE_CHECK(ended == COPPICE_OK || ended == COPPICE_ERR_REVOKED);
        const void* payload = nullptr;
        std::size_t bytes = 0;
        COPPICE_CHECK(coppice_request_view(view, &payload, &bytes) == COPPICE_OK && bytes == 4096);
        COPPICE_CHECK(std::memcmp(payload, payload_of(1, 0, 4096).data(), bytes) == 0);
        COPPICE_CHECK(coppice_group_destroy(member.group, kTimeout) == COPPICE_ERR_BUSY);
        COPPICE_CHECK(coppice_request_free(view) == COPPICE_OK && coppice_request_free(open) == COPPICE_OK);
        coppice_status_t given_back = COPPICE_ERR_BUSY;
        member.await("its memory back", [&] {
            given_back = coppice_memory_deregister(member.group, memory.data());
            return given_back != COPPICE_ERR_BUSY;
        });
        COPPICE_CHECK(given_back == COPPICE_OK);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Revoke, AProgressThreadHearsOfItToo) {
    JobOptions options{.ranks = 4, .hosts = 2};
    options.context.progress_thread = 1;
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t payload = 0;
        if (member.rank == 0) {
            COPPICE_CHECK(coppice_group_revoke(member.group) == COPPICE_OK);
        } else {
            const coppice_status_t status =
                coppice_broadcast(member.group, &payload, sizeof payload, 0, nullptr, kTimeout);
            COPPICE_CHECK(is_revoked(status, 0));
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Revoke, NoGroupIsRefused) {
    EXPECT_EQ(coppice_group_revoke(nullptr), COPPICE_ERR_INVALID_ARGUMENT);
    EXPECT_NE(std::strstr(coppice_last_error(), "group"), nullptr);
}

}  // namespace
}  // namespace coppice::testing
