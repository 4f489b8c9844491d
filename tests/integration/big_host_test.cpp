// Contributions that are published in two levels, because the ranks know which of them share a cache. Real processes, really killed:
// speakers of caches among them. (256 of them: big_host_run_test.py.)
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <set>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;
constexpr std::size_t kBytes = 32;  // a bit for each rank
using Bits = std::array<unsigned char, kBytes>;

JobOptions on_caches(std::uint32_t ranks, std::uint32_t of_a_cache) {
    JobOptions options;
    options.ranks = ranks;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
        options.of_rank[rank]["COPPICE_WITHIN"] = "numa0/l3-" + std::to_string(rank / of_a_cache);
    return options;
}

void insert(Bits& bits, std::uint32_t rank) {
    bits[rank / 8] = static_cast<unsigned char>(bits[rank / 8] | 1U << rank % 8);
}

bool contains(const Bits& bits, std::uint32_t rank) {
    return (bits[rank / 8] >> rank % 8 & 1) != 0;
}

std::uint64_t hash(const void* bytes, std::size_t count, std::uint64_t seed) {
    std::uint64_t sum = seed ^ 0xcbf29ce484222325U;
    for (std::size_t i = 0; i < count; ++i)
        sum = (sum ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3U;
    return sum | 1;
}

const coppice_agree_options_t kOr = [] {
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = COPPICE_OR;
    return options;
}();

// What one agreement says, as one word. Whose contribution is missing is dead, and this rank's is not.
std::uint64_t agree(coppice_group_t* group, std::uint32_t rank, std::uint32_t ranks) {
    Bits value{};
    insert(value, rank);
    const coppice_status_t status = coppice_agree(group, value.data(), value.size(), &kOr, kTimeout);
    COPPICE_CHECK(status == COPPICE_OK || status == COPPICE_ERR_PEER_FAILED);
    std::vector<std::uint32_t> dead(ranks);
    std::size_t count = 0;
    COPPICE_CHECK(coppice_group_agreed(group, dead.data(), dead.size(), &count) == COPPICE_OK);
    Bits known = value;
    for (std::size_t i = 0; i < count; ++i)
        insert(known, dead[i]);
    for (std::uint32_t each = 0; each < ranks; ++each)
        COPPICE_CHECK(contains(known, each));
    COPPICE_CHECK(contains(value, rank));
    const std::uint64_t word = hash(value.data(), value.size(), static_cast<std::uint64_t>(status));
    return hash(dead.data(), count * sizeof dead[0], word);
}

// Agreements until `count`, victims die before their n-th; then a group of the survivors, which agrees, too.
struct Deaths {
    std::uint64_t count = 6;
    std::set<std::uint32_t> victims;
    std::uint64_t at = 3;
    bool shrinks = false;
};

void expect_agreement(const JobOptions& options, const Deaths& deaths) {
    const std::uint64_t words = deaths.count + 1;
    Job job(
        options,
        [&](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            std::atomic<std::uint64_t>* const notes = member.notes + member.rank * words;
            for (std::uint64_t number = 0; number < deaths.count; ++number) {
                if (number == deaths.at && deaths.victims.contains(member.rank)) raise(SIGKILL);
                notes[number] = agree(member.group, member.rank, member.ranks);
            }
            if (deaths.shrinks) {
                coppice_group_t* next = nullptr;
                COPPICE_CHECK(coppice_group_shrink(member.group, &next, kTimeout) == COPPICE_OK);
                coppice_group_info_t info{};
                info.struct_size = sizeof info;
                COPPICE_CHECK(coppice_group_query(next, &info) == COPPICE_OK);
                COPPICE_CHECK(info.size == member.ranks - deaths.victims.size());
                for (int again = 0; again < 3; ++again)
                    notes[deaths.count] = agree(next, info.rank, info.size);
                COPPICE_CHECK(coppice_group_destroy(next, kTimeout) == COPPICE_OK);
            }
            member.leave();
        },
        options.ranks * words);
    ASSERT_EQ(job.finish([&](std::uint32_t rank) { return deaths.victims.contains(rank); }), "");
    for (std::uint64_t number = 0; number < words; ++number) {
        std::set<std::uint64_t> said;
        for (std::uint32_t rank = 0; rank < options.ranks; ++rank)
            if (!deaths.victims.contains(rank)) said.insert(job.note(rank * words + number));
        EXPECT_EQ(said.size(), 1U) << "survivors differ about agreement " << number;
    }
}

TEST(BigHost, WhoeverSpeaksForACacheMayDie) {
    const std::vector<std::set<std::uint32_t>> deaths{
        {}, {0}, {6}, {6, 7}, {5}, {0, 6, 12, 18}, {12, 13, 14, 15, 16, 17}};
    for (const std::set<std::uint32_t>& victims : deaths)
        expect_agreement(on_caches(24, 6), {.victims = victims, .shrinks = true});
}

// From outside, wherever they are just then, in a stream of agreements without a pause.
TEST(BigHost, SpeakersMayDieAtAnyInstruction) {
    constexpr std::uint64_t kRounds = 400;
    const std::vector<std::uint32_t> victims{6, 0, 7};
    const JobOptions options = on_caches(24, 6);
    Job job(
        options,
        [&](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            for (std::uint64_t round = 0; round < kRounds; ++round) {
                const std::uint64_t word = agree(member.group, member.rank, member.ranks);
                std::atomic<std::uint64_t>& first = member.notes[1 + round];
                std::uint64_t nobody = 0;
                COPPICE_CHECK(first.compare_exchange_strong(nobody, word) || nobody == word);
                if (member.rank == 1) member.notes[0] = round + 1;
            }
            member.leave();
        },
        1 + kRounds);
    std::uint64_t round = 50;
    for (const std::uint32_t victim : victims) {
        ASSERT_TRUE(job.await_note(0, round));
        job.kill(victim, true);
        round += 100;
    }
    EXPECT_EQ(job.finish([&](std::uint32_t rank) { return std::ranges::count(victims, rank) > 0; }), "");
}

// It owes the others no call: what they wait for happens while it is elsewhere.
TEST(BigHost, ASpeakerThatIsElsewhereHoldsNobodyUp) {
    constexpr std::uint32_t kSpeaker = 6;
    Job job(on_caches(24, 6), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const std::uint64_t others = member.ranks - 1;
        for (std::uint64_t round = 1; round <= 5; ++round) {
            if (member.rank != kSpeaker) {
                member.await_note(0, round);
                agree(member.group, member.rank, member.ranks);
                member.notes[1].fetch_add(1);
                continue;
            }
            Bits value{};
            insert(value, member.rank);
            coppice_request_t* request = nullptr;
            COPPICE_CHECK(coppice_agree_nb(member.group, value.data(), value.size(), &kOr, &request) == COPPICE_OK);
            member.notes[0] = round;
            member.await_note(1, round * others);
            COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// Of another operation than the others', wherever it is.
TEST(BigHost, ARankThatDiffersIsNamedAcrossCaches) {
    for (const std::uint32_t odd : {0U, 8U, 23U}) {
        Job job(on_caches(24, 6), [odd](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
            options.operation = member.rank == odd ? COPPICE_AND : COPPICE_OR;
            std::uint64_t value = 1;
            COPPICE_CHECK(coppice_agree(member.group, &value, sizeof value, &options, kTimeout) ==
                          COPPICE_ERR_MISMATCH);
            const std::string names = "rank " + std::to_string(odd) + " contributes";
            if (member.rank / 6 != odd / 6) COPPICE_CHECK(std::strstr(coppice_last_error(), names.c_str()) != nullptr);
            member.leave();
        });
        EXPECT_EQ(job.finish(), "") << odd;
    }
}

}  // namespace
}  // namespace coppice::testing
