// What callbacks of a program do that they should not.
#include <gtest/gtest.h>

#include <array>
#include <stdexcept>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;

struct Tried {
    coppice_group_t* group = nullptr;
    std::array<coppice_status_t, 4> refused{};
    bool was_called = false;
};

void combine_and_try(void* argument, void* into, const void* from, std::size_t /*bytes*/) {
    Tried& tried = *static_cast<Tried*>(argument);
    char byte = 0;
    tried.refused = {coppice_group_destroy(tried.group, 0), coppice_group_destroy(tried.group, kTimeout),
                     coppice_broadcast(tried.group, &byte, 1, 0, nullptr, kTimeout), coppice_group_revoke(tried.group)};
    tried.was_called = true;
    *static_cast<std::uint64_t*>(into) |= *static_cast<const std::uint64_t*>(from);
}

TEST(CombineFunction, MayCallNothing) {
    for (const std::uint32_t hosts : {1U, 2U}) {
        Job job({.ranks = 2, .hosts = hosts}, [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            Tried tried{.group = member.group};
            coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
            options.operation = COPPICE_COMBINE;
            options.combine = combine_and_try;
            options.combine_argument = &tried;
            std::uint64_t value = std::uint64_t{1} << member.rank;
            COPPICE_CHECK(coppice_agree(member.group, &value, sizeof value, &options, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(value == 3);
            if (tried.was_called) {
                member.notes[0] += 1;
                for (const coppice_status_t status : tried.refused)
                    COPPICE_CHECK(status == COPPICE_ERR_BUSY);
            }
            member.leave();
        });
        EXPECT_EQ(job.finish(), "");
        EXPECT_GT(job.note(0), 0U) << "nobody has combined on " << hosts << " hosts";
    }
}

// On the progress thread nobody could catch it.
TEST(FailureCallback, MayThrowOnTheProgressThread) {
    constexpr std::uint32_t kVictim = 2;
    JobOptions options{.ranks = 3, .hosts = 3};
    options.environment["COPPICE_PROGRESS_THREAD"] = "1";
    Job job(options, [](Member& member) {
        coppice_group_options_t group_options = COPPICE_GROUP_OPTIONS_INIT;
        group_options.on_failure_argument = &member.notes[1];
        group_options.on_failure = [](void* argument, coppice_group_t*, std::uint32_t) {
            *static_cast<std::atomic<std::uint64_t>*>(argument) += 1;
            throw std::runtime_error("thrown by a callback");
        };
        COPPICE_CHECK(member.join(group_options) == COPPICE_OK);
        member.notes[0] += 1;
        while (member.rank == kVictim)
            member.await("being killed", [] { return false; });
        member.await("the callbacks of two ranks", [&] { return member.notes[1] >= 2; });
        COPPICE_CHECK(member.notes[1] == 2);
        std::uint64_t value = 7;
        COPPICE_CHECK(coppice_broadcast(member.group, &value, sizeof value, 0, nullptr, kTimeout) == COPPICE_OK);
        member.leave();
    });
    ASSERT_TRUE(job.await_note(0, 3));
    job.kill(kVictim, true);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == kVictim; }), "");
}

}  // namespace
}  // namespace coppice::testing
