// Broadcasts that end without a payload, and what a rank knows by then.
#include <gtest/gtest.h>
#include <signal.h>

#include <vector>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

// The dead rank stands between the root, rank 2, and the host of ranks 0 and 1. Rank 0 finds that out; rank 1, which is
// not connected with all of them, reads it on the board, in its first call since.
TEST(Verdict, ARankThatReadsThatARankFailedFindsItAmongTheFailed) {
    for (const std::uint32_t dead : {3U, 4U, 5U, 6U, 7U}) {
        SCOPED_TRACE(dead);
        JobOptions options{.ranks = 8, .hosts = 7};
        options.environment = {{"COPPICE_CORRECTION", "none"}, {"COPPICE_TREE", "chain"}, {"COPPICE_WINDOW", "4"}};
        options.of_rank[1] = {{"COPPICE_PROGRESS_THREAD", "0"}};
        Job job(options, [dead](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            std::uint64_t value = 0;
            const auto broadcast = [&] {
                return coppice_broadcast(member.group, &value, sizeof value, 2, nullptr, kDeadlineNs);
            };
            COPPICE_CHECK(broadcast() == COPPICE_OK);
            coppice_request_t* request = nullptr;
            if (member.rank == 1) {
                COPPICE_CHECK(coppice_broadcast_nb(member.group, &value, sizeof value, 2, &request) == COPPICE_OK);
                for (int i = 0; i < 100; ++i)
                    COPPICE_CHECK(coppice_request_test(request, nullptr) == COPPICE_IN_PROGRESS);
            }
            member.notes[0].fetch_add(1);
            member.await_note(0, member.ranks);
            if (member.rank == dead) ::raise(SIGKILL);
            if (member.rank == 1) {
                member.await_note(1, 1);
                COPPICE_CHECK(coppice_request_test(request, nullptr) == COPPICE_ERR_PEER_FAILED);
                COPPICE_CHECK(member.failed() == std::vector<std::uint32_t>{dead});
                COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
                member.notes[2] = 1;
            } else {
                member.await_failed(1);
                const coppice_status_t status = broadcast();
                if (member.rank == 0) {
                    COPPICE_CHECK(status == COPPICE_ERR_PEER_FAILED);
                    member.notes[1] = 1;
                }
            }
            member.await_note(2, 1);
            COPPICE_CHECK(coppice_group_destroy(member.group, 0) == COPPICE_OK);
        });
        EXPECT_EQ(job.finish([dead](std::uint32_t rank) { return rank == dead; }), "");
    }
}

}  // namespace
}  // namespace coppice::testing
