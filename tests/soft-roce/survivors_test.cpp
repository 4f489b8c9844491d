// Agreement, detection and shrinking among hosts with RDMA devices of their own, over verbs. In the guest.
#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <set>

#include "base/clock.hpp"
#include "hosts.hpp"

namespace coppice::testing {
namespace {

// Notes.
constexpr std::size_t kBegun = 0;  // ranks that have agreed a few times
constexpr std::size_t kDone = 1;   // ranks that have done what was asked
constexpr std::size_t kGo = 2;
constexpr std::size_t kProbes = 8;      // by rank: reads of others' memory
constexpr std::size_t kOutcomes = 8;    // by rank and number: what was agreed on
constexpr std::uint64_t kNoted = 4000;  // agreements of a rank

struct Way {
    const char* name;
    std::map<std::string, std::string> environment;
    friend void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
};

class Survivors : public ::testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, Survivors,
                         ::testing::Values(Way{"shm_and_verbs", {{"COPPICE_TRANSPORT", "shm,verbs"}}},
                                           Way{"verbs_everywhere",
                                               {{"COPPICE_TRANSPORT", "verbs"}, {"COPPICE_HIERARCHY", "flat"}}}),
                         [](const auto& way) { return std::string(way.param.name); });

// An agreement under OR of a bit for each rank of the first group.
struct Outcome {
    std::uint64_t contributors = 0;
    std::uint64_t failed = 0;
};

Outcome agree(coppice_group_t* group, std::uint32_t bit, std::uint64_t timeout_ns = kDeadlineNs) {
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = COPPICE_OR;
    Outcome outcome{.contributors = std::uint64_t{1} << bit};
    const coppice_status_t status =
        coppice_agree(group, &outcome.contributors, sizeof outcome.contributors, &options, timeout_ns);
    if (status != COPPICE_OK && status != COPPICE_ERR_PEER_FAILED) throw CheckFailed(coppice_last_error());
    std::vector<std::uint32_t> ranks(kRanks);
    std::size_t count = 0;
    COPPICE_CHECK(coppice_group_agreed(group, ranks.data(), ranks.size(), &count) == COPPICE_OK);
    for (std::size_t at = 0; at < count; ++at)
        outcome.failed |= std::uint64_t{1} << ranks[at];
    return outcome;
}

// The root is killed from outside, at no particular moment. The others agree on that, all alike, and go on as a group
// of their own.
TEST_P(Survivors, AgreeOnARootThatWasKilledAndGoOnAsAGroupOfTheirOwn) {
    Job job(
        job_on_devices(GetParam().environment),
        [](Member& member) {
            if (member.join() != COPPICE_OK) throw CheckFailed(coppice_last_error());
            Outcome outcome;
            for (std::uint64_t number = 0; outcome.failed == 0; ++number) {
                COPPICE_CHECK(number < kNoted);
                outcome = agree(member.group, member.rank);
                member.notes[kOutcomes + member.rank * kNoted + number] =
                    std::uint64_t{1} << 63 | outcome.contributors << 16 | outcome.failed;
                if (number == 5) member.notes[kBegun].fetch_add(1);
                if (number == 5) member.await_note(kBegun, kRanks);
            }
            COPPICE_CHECK(outcome.failed == 1);
            coppice_group_t* shrunk = nullptr;
            if (coppice_group_shrink(member.group, &shrunk, kDeadlineNs) != COPPICE_OK)
                throw CheckFailed(coppice_last_error());
            coppice_group_info_t info{};
            info.struct_size = sizeof info;
            COPPICE_CHECK(coppice_group_query(shrunk, &info) == COPPICE_OK);
            COPPICE_CHECK(info.size == kRanks - 1 && info.rank == member.rank - 1);
            COPPICE_CHECK(coppice_group_destroy(member.group, kDeadlineNs) == COPPICE_OK);
            for (std::uint64_t number = 0; number < 70; ++number) {
                const auto root = static_cast<std::uint32_t>(number % (kRanks - 1));
                const std::vector<unsigned char> sent = payload_of(number, root, number % 2 == 0 ? 64 : 3000);
                std::vector<unsigned char> buffer = info.rank == root ? sent : std::vector<unsigned char>(sent.size());
                COPPICE_CHECK(coppice_broadcast(shrunk, buffer.data(), buffer.size(), root, nullptr, kDeadlineNs) ==
                              COPPICE_OK);
                COPPICE_CHECK(buffer == sent);
            }
            const Outcome last = agree(shrunk, member.rank);
            COPPICE_CHECK(last.failed == 0 && last.contributors == (1U << kRanks) - 2);
            COPPICE_CHECK(coppice_group_destroy(shrunk, kDeadlineNs) == COPPICE_OK);
            COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
        },
        kOutcomes + kRanks * kNoted);
    ASSERT_TRUE(job.await_note(kBegun, kRanks));
    job.kill(0, false);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 0; }), "");
    for (std::uint64_t number = 0; number < kNoted; ++number) {
        std::set<std::uint64_t> words;
        for (std::uint32_t rank = 0; rank < kRanks; ++rank)
            words.insert(job.note(kOutcomes + rank * kNoted + number));
        words.erase(0);  // not begun, or not ended
        ASSERT_LE(words.size(), 1U) << "agreement " << number;
    }
}

// One rank is silent for longer than the bound: stopped. Its device answers the ranks that look. (The bound is such
// that a busy machine has set up all connections within it: before that there is nobody to ask.)
TEST(Detection, DoesNotSuspectARankThatIsStoppedAndFindsItWhenItIsKilled) {
    constexpr std::uint32_t kVictim = 5;
    constexpr std::uint64_t kBoundNs = 20'000'000'000;
    std::map<std::string, std::string> environment{{"COPPICE_TRANSPORT", "shm,verbs"}};
    environment["COPPICE_DETECTION_BOUND"] = "20s";
    environment["COPPICE_VERBS_PROBE"] = "0";  // so that it is the detector that looks
    Job job(job_on_devices(environment), [](Member& member) {
        if (member.join() != COPPICE_OK) throw CheckFailed(coppice_last_error());
        for (std::uint64_t number = 0; number < 3; ++number)
            COPPICE_CHECK(agree(member.group, member.rank).failed == 0);
        member.notes[kBegun].fetch_add(1);
        member.await("the go-ahead", [&] {
            COPPICE_CHECK(member.failed().empty());
            member.notes[kProbes + member.rank] = member.counts().probes;
            return member.notes[kGo] != 0;
        });
        COPPICE_CHECK(member.rank != kVictim);
        member.notes[kDone].fetch_add(1);
        member.await_failed(1);
        COPPICE_CHECK(member.failed() == std::vector<std::uint32_t>{kVictim});
        const Outcome outcome = agree(member.group, member.rank);
        COPPICE_CHECK(outcome.failed == std::uint64_t{1} << kVictim);
        member.leave();
    });
    ASSERT_TRUE(job.await_note(kBegun, kRanks));
    ::kill(job.processes().pid(kVictim), SIGSTOP);
    const auto probes = [&] {
        std::uint64_t all = 0;
        for (std::uint32_t rank = 0; rank < kRanks; ++rank)
            all += job.note(kProbes + rank);
        return all;
    };
    const std::uint64_t before = probes(), since = now_ns();
    while (now_ns() - since < kBoundNs * 3 / 2 || probes() < before + 3) {
        ASSERT_LT(now_ns() - since, kDeadlineNs);
        usleep(10'000);
    }
    job.note(kGo) = 1;
    ASSERT_TRUE(job.await_note(kDone, kRanks - 1));
    job.kill(kVictim, false);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == kVictim; }), "");
}

// The others want to connect to a rank that has joined and then computes, for longer than a kernel waits for a host
// that says nothing (66 s): its own kernel says that it has their requests.
TEST(Detection, WaitsForARankThatComputesWhileOthersConnectToIt) {
    constexpr std::uint32_t kBusy = 1;  // two ranks send to it, one waits for it
    constexpr std::uint64_t kComputesNs = 75'000'000'000;
    Job job(job_on_devices({{"COPPICE_TRANSPORT", "verbs"}, {"COPPICE_HIERARCHY", "flat"}}), [](Member& member) {
        if (member.join() != COPPICE_OK) throw CheckFailed(coppice_last_error());
        const std::uint64_t since = now_ns();
        while (member.rank == kBusy && now_ns() - since < kComputesNs)
            usleep(10'000);
        const Outcome outcome = agree(member.group, member.rank, kComputesNs + kDeadlineNs);
        COPPICE_CHECK(outcome.failed == 0 && outcome.contributors == (1U << kRanks) - 1);
        member.notes[kDone].fetch_add(1);
        member.leave();
    });
    ASSERT_TRUE(becomes([&] { return job.note(kDone) == kRanks; }, kComputesNs + kDeadlineNs));
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
