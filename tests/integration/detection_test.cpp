// Silence as evidence: ranks that are really stopped, and go on; ranks that compute; a host of which nothing is heard.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <set>
#include <string>

#include "base/clock.hpp"
#include "integration/job.hpp"
#include "support/stopped.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;

constexpr std::uint64_t kSecond = 1'000'000'000;
// A living rank that is kept from its core for longer than the bound is taken for dead, and the test has shown nothing: on a
// busy machine a second or two may be. It is tried again with the next one.
constexpr std::uint64_t kBounds[] = {5 * kSecond, 20 * kSecond};

const std::vector<Layout>& layouts() {
    static const std::vector<Layout> all{
        {"one_host", 4, 1, {}},
        {"flat", 4, 1, {{"COPPICE_HIERARCHY", "flat"}}},
        {"ucx", 3, 1, {{"COPPICE_TRANSPORT", "ucx"}}},
        {"tcp", 3, 1, {{"COPPICE_TRANSPORT", "tcp"}}},
        {"two_hosts", 5, 2, {}},
    };
    return all;
}

class EveryLayout : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Detection, EveryLayout, ::testing::ValuesIn(layouts()),
                         [](const auto& layout) { return std::string(layout.param.name); });

JobOptions with_bound(const Layout& layout, std::uint64_t bound_ns) {
    JobOptions options = layout.job();
    options.environment["COPPICE_DETECTION_BOUND"] = std::to_string(bound_ns / kSecond) + "s";
    return options;
}

// Notes: [0] ranks that have begun, [1] survivors that hold all victims to be dead, [3] a bit for each rank that was taken for
// dead; from kOutcomes on, by rank and number, what agreements said.
constexpr std::size_t kBegun = 0;
constexpr std::size_t kFound = 1;
constexpr std::size_t kLongestSearch = 2;
constexpr std::size_t kTakenForDead = 3;

// One agreement under OR of a bit per rank: its status, and value and agreed failed ranks as one word.
struct Outcome {
    coppice_status_t status = COPPICE_OK;
    std::uint64_t contributors = 0;
    std::uint64_t failed = 0;

    std::uint64_t word() const { return std::uint64_t{1} << 63 | contributors << 16 | failed; }
};

Outcome agree(Member& member) {
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = COPPICE_OR;
    Outcome outcome{.contributors = std::uint64_t{1} << member.rank};
    outcome.status =
        coppice_agree(member.group, &outcome.contributors, sizeof outcome.contributors, &options, kTimeout);
    std::vector<std::uint32_t> ranks(64);
    std::size_t count = 0;
    COPPICE_CHECK(coppice_group_agreed(member.group, ranks.data(), ranks.size(), &count) == COPPICE_OK);
    for (std::size_t i = 0; i < count; ++i)
        outcome.failed |= std::uint64_t{1} << ranks[i];
    const bool fenced = outcome.status == COPPICE_ERR_FENCED;
    member.notes[kTakenForDead].fetch_or(outcome.failed | std::uint64_t{fenced} << member.rank);
    return outcome;
}
constexpr std::size_t kOutcomes = 8;
constexpr std::uint64_t kNoted = 1000;

// Ends a job whose victims were stopped; they go on when so many others have noted what the test waits for.
std::string end_with(Job& job, const std::set<std::uint32_t>& victims, std::size_t note) {
    const bool noted = job.await_note(note, job.ranks() - victims.size());
    for (const std::uint32_t victim : victims) {
        EXPECT_TRUE(await_stopped(job.processes(), victim));
        job.processes().signal(victim, SIGCONT);
    }
    return (noted ? "" : "some waited in vain\n") + job.finish();
}

// Makes jobs with one bound after the other, until one shows something.
void try_bounds(const std::set<std::uint32_t>& victims,
                const std::function<std::string(std::uint64_t bound_ns, std::uint64_t& taken_for_dead)>& wrong_with) {
    std::uint64_t dead = 0;
    for (const std::uint32_t victim : victims)
        dead |= std::uint64_t{1} << victim;
    std::string wrong;
    for (const std::uint64_t bound_ns : kBounds) {
        std::uint64_t taken_for_dead = 0;
        wrong = wrong_with(bound_ns, taken_for_dead);
        if (wrong.empty() || (taken_for_dead & ~dead) == 0) break;
    }
    EXPECT_EQ(wrong, "");
}

// It ended as it should, and was not one of too many.
void check_ended(const Outcome& outcome, std::uint64_t number) {
    if (outcome.status != COPPICE_OK && outcome.status != COPPICE_ERR_PEER_FAILED) {
        throw CheckFailed("agreement " + std::to_string(number) + ": " + coppice_status_string(outcome.status) + ": " +
                          coppice_last_error());
    }
    COPPICE_CHECK(number < kNoted);
}

std::atomic<std::uint64_t>& outcome_note(Member& member, std::uint64_t number) {
    return member.notes[kOutcomes + member.rank * kNoted + number];
}

void expect_nobody_differs(Job& job) {
    for (std::uint64_t number = 0; number < kNoted; ++number) {
        std::set<std::uint64_t> words;
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank)
            words.insert(job.note(kOutcomes + rank * kNoted + number));
        words.erase(0);  // not begun, or not ended well
        ASSERT_LE(words.size(), 1U) << "agreement " << number;
    }
}

// The victims are stopped between two calls until all others hold them to be dead, and then go on.
std::string stop_and_go_on(const Layout& layout, const std::set<std::uint32_t>& victims, std::uint64_t bound_ns,
                           std::uint64_t& taken_for_dead) {
    std::uint64_t dead = 0;
    for (const std::uint32_t victim : victims)
        dead |= std::uint64_t{1} << victim;
    Job job(
        with_bound(layout, bound_ns),
        [&](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            std::uint64_t number = 0;
            for (; number < 10; ++number) {
                const Outcome outcome = agree(member);
                COPPICE_CHECK(outcome.status == COPPICE_OK && outcome.failed == 0);
                outcome_note(member, number) = outcome.word();
            }
            member.notes[kBegun].fetch_add(1);
            if (victims.contains(member.rank)) {
                raise(SIGSTOP);
                std::uint64_t value = 0;
                COPPICE_CHECK(coppice_agree(member.group, &value, sizeof value, nullptr, kTimeout) ==
                              COPPICE_ERR_FENCED);
                COPPICE_CHECK(coppice_broadcast(member.group, &value, sizeof value, member.rank, nullptr, kTimeout) ==
                              COPPICE_ERR_FENCED);
                member.leave();
                return;
            }
            const std::uint64_t since = now_ns();
            for (Outcome outcome; outcome.failed != dead; ++number) {
                outcome = agree(member);
                check_ended(outcome, number);
                outcome_note(member, number) = outcome.word();
            }
            std::uint64_t longest = member.notes[kLongestSearch];
            while (now_ns() - since > longest &&
                   !member.notes[kLongestSearch].compare_exchange_weak(longest, now_ns() - since)) {
            }
            member.notes[kFound].fetch_add(1);
            member.leave();
        },
        kOutcomes + layout.ranks * kNoted);
    const std::string wrong = end_with(job, victims, kFound);
    expect_nobody_differs(job);
    taken_for_dead = job.note(kTakenForDead);
    if (wrong.empty()) {
        std::printf("found after %.0f ms, with a bound of %ju s\n", static_cast<double>(job.note(kLongestSearch)) / 1e6,
                    std::uintmax_t{bound_ns / kSecond});
        EXPECT_GE(job.note(kLongestSearch), bound_ns / 2);
    }
    return wrong;
}

void expect_fenced(const Layout& layout, const std::set<std::uint32_t>& victims) {
    try_bounds(victims, [&](std::uint64_t bound_ns, std::uint64_t& taken_for_dead) {
        return stop_and_go_on(layout, victims, bound_ns, taken_for_dead);
    });
}

TEST_P(EveryLayout, ARankThatIsStoppedForLongerThanTheBoundIsFencedAndToldSo) {
    expect_fenced(GetParam(), {1});
}

TEST(Detection, TheLowestRankIsNoException) {
    expect_fenced({"two_hosts", 5, 2, {}}, {0});
}

// Nothing breaks on any connection: the host is just not heard of any more.
TEST(Detection, AHostOfWhichNothingIsHeardIsFoundAsAWhole) {
    expect_fenced({"three_hosts", 6, 3, {}}, {2, 3});
}

// Stopped while it holds a view: the others use its memory again, and it can find that out.
std::string stop_with_a_view(std::uint64_t bound_ns, std::uint64_t& taken_for_dead) {
    constexpr std::uint32_t kVictim = 1;
    Job job(with_bound({"two_hosts", 4, 2, {}}, bound_ns), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t value = 7;
        coppice_request_t* request = nullptr;
        COPPICE_CHECK(coppice_broadcast_view_nb(member.group, &value, sizeof value, 0, &request) == COPPICE_OK);
        COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
        const void* payload = nullptr;
        std::size_t bytes = 0;
        COPPICE_CHECK(coppice_request_view(request, &payload, &bytes) == COPPICE_OK && bytes == sizeof value);
        COPPICE_CHECK(*static_cast<const std::uint64_t*>(payload) == 7);
        if (member.rank == kVictim) {
            raise(SIGSTOP);
            coppice_progress(member.context);
            COPPICE_CHECK(coppice_request_view(request, &payload, &bytes) == COPPICE_ERR_FENCED);
            COPPICE_CHECK(std::string(coppice_last_error()).find("view") != std::string::npos);
        } else {
            std::vector<std::uint32_t> failed;
            for (; std::ranges::count(failed, kVictim) == 0; failed = member.failed()) {
                for (const std::uint32_t rank : failed)
                    member.notes[kTakenForDead].fetch_or(std::uint64_t{1} << rank);
            }
            COPPICE_CHECK(failed.size() == 1);
            COPPICE_CHECK(coppice_request_view(request, &payload, &bytes) == COPPICE_OK);
            member.notes[kFound].fetch_add(1);
        }
        coppice_request_free(request);
        member.leave();
    });
    const std::string wrong = end_with(job, {kVictim}, kFound);
    taken_for_dead = job.note(kTakenForDead);
    return wrong;
}

TEST(Detection, ARankThatIsStoppedWithAViewIsToldThatItsMemoryMayBeInUse) {
    try_bounds({1}, stop_with_a_view);
}

// Stopped while it waits: whatever it returns when it goes on is what the others have, or says that it is fenced.
std::string stop_in_its_call(const Layout& layout, std::uint64_t bound_ns, std::uint64_t& taken_for_dead) {
    constexpr std::uint32_t kVictim = 1;
    Job job(
        with_bound(layout, bound_ns),
        [&](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            COPPICE_CHECK(agree(member).status == COPPICE_OK);
            if (member.rank == 0) {
                // The victim waits for this one's contribution when it is stopped.
                member.await_note(kBegun, member.ranks - 1);
                member.await_note(kFound, 1);
            } else {
                member.notes[kBegun].fetch_add(1);
            }
            std::uint64_t number = 0;
            for (Outcome outcome; outcome.failed == 0; ++number) {
                outcome = agree(member);
                if (outcome.status == COPPICE_ERR_FENCED && member.rank == kVictim) break;
                check_ended(outcome, number);
                outcome_note(member, number) = outcome.word();
            }
            member.notes[kLongestSearch].fetch_add(1);
            member.leave();
        },
        kOutcomes + layout.ranks * kNoted);
    EXPECT_TRUE(job.await_note(kBegun, layout.ranks - 1));
    usleep(50'000);  // it is in its call by now, most probably: any moment will do
    job.processes().signal(kVictim, SIGSTOP);
    job.note(kFound) = 1;
    const std::string wrong = end_with(job, {kVictim}, kLongestSearch);
    expect_nobody_differs(job);
    taken_for_dead = job.note(kTakenForDead);
    return wrong;
}

TEST_P(EveryLayout, ARankThatIsStoppedInItsCallReturnsWhatTheOthersDoOrThatItIsFenced) {
    try_bounds({1}, [](std::uint64_t bound_ns, std::uint64_t& taken_for_dead) {
        return stop_in_its_call(GetParam(), bound_ns, taken_for_dead);
    });
}

// By default nothing is concluded from silence, however long: the others wait, and all return the same.
void stop_for_ten_seconds(const Layout& layout) {
    constexpr std::uint32_t kVictim = 1;
    constexpr std::uint64_t kStopped = 10'000'000'000;
    constexpr std::uint64_t kAgreements = 50;
    Job job(
        layout.job(),
        [&](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            for (std::uint64_t number = 0; number < kAgreements; ++number) {
                if (number == kAgreements / 2) {
                    // The others are in their calls while it is stopped, or about to make them.
                    member.notes[kBegun].fetch_add(1);
                    if (member.rank == kVictim) raise(SIGSTOP);
                }
                const Outcome outcome = agree(member);
                outcome_note(member, number) = outcome.word();
                COPPICE_CHECK(outcome.status == COPPICE_OK && outcome.failed == 0);
                COPPICE_CHECK(outcome.contributors == (std::uint64_t{1} << member.ranks) - 1);
                std::uint64_t payload = member.rank == number % member.ranks ? number : 0;
                COPPICE_CHECK(coppice_broadcast(member.group, &payload, sizeof payload,
                                                static_cast<std::uint32_t>(number % member.ranks), nullptr,
                                                kTimeout) == COPPICE_OK);
                COPPICE_CHECK(payload == number);
            }
            COPPICE_CHECK(member.failed().empty());
            member.leave();
        },
        kOutcomes + layout.ranks * kNoted);
    ASSERT_TRUE(job.await_note(kBegun, layout.ranks));
    siginfo_t stopped{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(job.processes().pid(kVictim)), &stopped, WSTOPPED | WNOWAIT), 0);
    ASSERT_EQ(stopped.si_code, CLD_STOPPED);
    for (const std::uint64_t end = now_ns() + kStopped; now_ns() < end;)
        usleep(100'000);
    // Nobody has gone on without it.
    for (std::uint32_t rank = 0; rank < layout.ranks; ++rank)
        EXPECT_EQ(job.note(kOutcomes + rank * kNoted + kAgreements / 2), 0U) << rank;
    job.processes().signal(kVictim, SIGCONT);
    EXPECT_EQ(job.finish(), "");
    expect_nobody_differs(job);
}

TEST(Detection, ARankThatIsStoppedForTenSecondsGoesOnWhereNoBoundIsSet) {
    stop_for_ten_seconds({"one_host", 4, 1, {}});
}

TEST(Detection, NorIsOneOfAnotherHostSuspected) {
    stop_for_ten_seconds({"two_hosts", 5, 2, {}});
}

std::string compute_for_longer_than(std::uint64_t bound_ns, std::uint64_t& taken_for_dead) {
    JobOptions options = with_bound({"two_hosts", 5, 2, {}}, bound_ns);
    options.of_rank[4]["COPPICE_PROGRESS_THREAD"] = "1";  // the others have what there is by default
    Job job(options, [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        COPPICE_CHECK(agree(member).status == COPPICE_OK);
        if (member.rank == 1 || member.rank == 4) {
            for (const std::uint64_t end = now_ns() + 2 * bound_ns; now_ns() < end;) {
            }
        }
        const Outcome outcome = agree(member);
        COPPICE_CHECK(outcome.status == COPPICE_OK && outcome.failed == 0);
        member.leave();
    });
    const std::string wrong = job.finish();
    taken_for_dead = job.note(kTakenForDead);
    return wrong;
}

// With the progress thread a rank beats while it computes, for longer than the bound.
TEST(Detection, ARankThatComputesIsNotSuspectedWhereTheProgressThreadBeats) {
    try_bounds({}, compute_for_longer_than);
}

// A rank that is killed is seen dead at once, whatever the bound, and is not told of as silent.
TEST_P(EveryLayout, ADeathIsNotWaitedForAsLongAsTheBound) {
    JobOptions options = GetParam().job();
    options.environment["COPPICE_DETECTION_BOUND"] = "10m";
    Job job(options, [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        COPPICE_CHECK(agree(member).status == COPPICE_OK);
        if (member.rank == 1) raise(SIGKILL);
        Outcome outcome;
        while (outcome.failed == 0)
            outcome = agree(member);
        COPPICE_CHECK(outcome.failed == 2);
        member.leave();
    });
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "");
}

// Rank 3, on a host of its own, takes the three of the other host for dead. Rank 2 speaks to no other host, so nobody there tells
// it; ranks 0 and 1 are told, and stay without another call.
TEST(Detection, ARankThatOnlyItsHostSpeaksToLearnsThatItIsFenced) {
    JobOptions options{.ranks = 4};
    options.environment = {{"COPPICE_HOST", "together"}, {"COPPICE_QUORUM", "any"}};  // rank 3 goes on alone
    options.of_rank[3] = {{"COPPICE_HOST", "alone"},
                          {"COPPICE_FAULTS", "suspect:0:50000@3,suspect:1:50000@3,suspect:2:50000@3"}};
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        Outcome outcome;
        while (outcome.status != COPPICE_ERR_FENCED && outcome.failed != 0b0111) {
            outcome = agree(member);
            COPPICE_CHECK(outcome.status == COPPICE_OK || outcome.status == COPPICE_ERR_PEER_FAILED ||
                          outcome.status == COPPICE_ERR_FENCED);
        }
        COPPICE_CHECK((outcome.status == COPPICE_ERR_FENCED) == (member.rank != 3));
        member.notes[kFound].fetch_add(1);
        member.await_note(kFound, member.ranks);
        coppice_group_destroy(member.group, 0);
        coppice_context_destroy(member.context);
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
