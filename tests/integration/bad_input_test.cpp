// What real processes are told when their peers, their surroundings or their settings are wrong.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

using Piece = std::vector<char>;

// Joining must fail with `status`, and the sentence must have all of `words` in it.
void expect_refusal(Member& member, coppice_status_t status, std::initializer_list<std::string_view> words) {
    const coppice_status_t got = member.join();
    const std::string sentence = coppice_last_error();
    if (got != status) throw CheckFailed("joining said " + std::to_string(got) + ": " + sentence);
    for (const std::string_view word : words) {
        if (sentence.find(word) == std::string::npos)
            throw CheckFailed("no \"" + std::string(word) + "\" in: " + sentence);
    }
    COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
}

void replace_in(Piece& piece, std::string_view from, std::string_view to) {
    const auto at = std::search(piece.begin(), piece.end(), from.begin(), from.end());
    if (at != piece.end()) std::ranges::copy(to, at);
}

TEST(BadInput, APeerOfAnotherVersionIsNamed) {
    JobOptions options{.ranks = 3};
    options.tamper = [](std::uint32_t rank, Piece& piece) {
        if (rank == 2) replace_in(piece, "coppice 1 64-bit", "coppice 9 64-bit");
    };
    Job job(options, [](Member& member) {
        if (member.rank == 2) {
            COPPICE_CHECK(member.join() == COPPICE_ERR_MISMATCH);
        } else {
            expect_refusal(member, COPPICE_ERR_MISMATCH, {"rank 2", "coppice 9", "install one version"});
        }
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(BadInput, APeerOfAnotherWordSizeIsNamed) {
    JobOptions options{.ranks = 2};
    options.tamper = [](std::uint32_t rank, Piece& piece) {
        if (rank == 1) replace_in(piece, "64-bit little", "32-bit little");
    };
    Job job(options, [](Member& member) {
        if (member.rank == 0) {
            expect_refusal(member, COPPICE_ERR_MISMATCH, {"rank 1", "32-bit"});
        } else {
            COPPICE_CHECK(member.join() == COPPICE_ERR_MISMATCH);
        }
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(BadInput, AGreetingOfGarbageIsNoGreeting) {
    JobOptions options{.ranks = 2};
    options.tamper = [](std::uint32_t rank, Piece& piece) {
        if (rank == 1 && piece.size() > 64) std::ranges::fill(piece, 'x');
    };
    Job job(options, [](Member& member) {
        if (member.rank == 0) {
            expect_refusal(member, COPPICE_ERR_MISMATCH, {"rank 1", "no greeting"});
        } else {
            COPPICE_CHECK(member.join() == COPPICE_ERR_MISMATCH);
        }
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(BadInput, RanksWithDifferentSettingsAreNamedWithBoth) {
    JobOptions options{.ranks = 3};
    options.of_rank[1]["COPPICE_CORRECTION"] = "checked";
    Job job(options, [](Member& member) {
        if (member.rank == 1) {
            expect_refusal(member, COPPICE_ERR_MISMATCH, {"rank 0", "checked", "opportunistic:1"});
        } else {
            expect_refusal(member, COPPICE_ERR_MISMATCH, {"rank 1", "checked", "opportunistic:1"});
        }
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(BadInput, RanksThatNoAllowedTransportReachesAreNamedWithTheRemedy) {
    JobOptions options{.ranks = 2, .hosts = 2, .environment = {{"COPPICE_TRANSPORT", "shm"}}};
    Job job(options, [](Member& member) {
        expect_refusal(member, COPPICE_ERR_NO_TRANSPORT, {member.rank == 0 ? "rank 1" : "rank 0", "COPPICE_TRANSPORT"});
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(BadInput, TooFewDescriptorsAreNamedWithTheLimit) {
    for (const char* transport : {"shm", "ucx"}) {
        Job job({.ranks = 1, .environment = {{"COPPICE_TRANSPORT", transport}}}, [](Member& member) {
            // Two ranks in the eyes of this one: the other is a copy of itself that never gets to run.
            const rlimit few{4, 4};
            COPPICE_CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
            coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
            options.size = 2;
            options.exchange = [](void*, const void* mine, size_t bytes, void* all) {
                for (int r = 0; r < 2; ++r)
                    std::copy_n(static_cast<const char*>(mine), bytes, static_cast<char*>(all) + r * bytes);
                auto* second = reinterpret_cast<std::uint32_t*>(static_cast<char*>(all) + bytes);
                if (bytes == 32) second[3] = 1;  // the piece's header says whose it is
                return 0;
            };
            COPPICE_CHECK(coppice_context_create(nullptr, &member.context) == COPPICE_OK);
            const coppice_status_t status = coppice_group_create(member.context, &options, &member.group);
            const std::string sentence = coppice_last_error();
            if (status != COPPICE_ERR_NO_RESOURCES || sentence.find("descriptors") == std::string::npos) {
                throw CheckFailed(std::to_string(status) + ": " + sentence);
            }
        });
        EXPECT_EQ(job.finish(), "") << transport;
    }
}

TEST(BadInput, RanksThatNameDifferentRootsAreToldAndGoOn) {
    Job job({.ranks = 3, .hosts = 3}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t payload = member.rank;
        const std::uint32_t root = member.rank == 2 ? 1 : 0;
        const coppice_status_t status =
            coppice_broadcast(member.group, &payload, sizeof payload, root, nullptr, kDeadlineNs);
        if (member.rank == 2) {
            COPPICE_CHECK(status == COPPICE_ERR_MISMATCH);
            const std::string sentence = coppice_last_error();
            COPPICE_CHECK(sentence.find("root 1") != std::string::npos && sentence.find("root 0") != std::string::npos);
        } else {
            COPPICE_CHECK(status == COPPICE_OK);
        }
        payload = member.rank == 1 ? 9 : 0;
        COPPICE_CHECK(coppice_broadcast(member.group, &payload, sizeof payload, 1, nullptr, kDeadlineNs) == COPPICE_OK);
        COPPICE_CHECK(payload == 9);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(BadInput, AddressesOfGarbageAreRefused) {
    for (const std::uint32_t hosts : {1U, 2U}) {
        JobOptions options{.ranks = 2, .hosts = hosts};
        options.tamper = [](std::uint32_t rank, Piece& piece) {
            const std::string_view shm = "shm\n";
            const std::string_view ucx = "ucx\n";
            const bool is_address = std::ranges::equal(std::string_view(piece.data(), 4), shm) ||
                                    std::ranges::equal(std::string_view(piece.data(), 4), ucx);
            if (rank == 1 && piece.size() > 40 && is_address) std::fill(piece.begin() + 8, piece.end(), '\x5a');
        };
        Job job(options, [](Member& member) {
            const coppice_status_t status = member.join();
            if (member.rank == 1) {
                while (true)
                    pause();  // its own join may go either way once rank 0 has gone
            }
            COPPICE_CHECK(status == COPPICE_ERR_MISMATCH || status == COPPICE_ERR_NO_TRANSPORT);
            COPPICE_CHECK(std::string(coppice_last_error()).find("rank 1") != std::string::npos);
            member.notes[0] = 1;
        });
        EXPECT_TRUE(job.await_note(0, 1)) << hosts << " hosts";
        job.kill(1, true);
        EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "") << hosts << " hosts";
    }
}

}  // namespace
}  // namespace coppice::testing
