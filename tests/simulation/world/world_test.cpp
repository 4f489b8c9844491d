// The world itself: the same seed is the same run, a program without deaths keeps every promise, and a run can be told.
#include "simulation/world/explore.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <regex>
#include <set>

namespace coppice::world {
namespace {

// In worlds that once broke one.
void expect_promises_kept(std::initializer_list<std::uint64_t> seeds, const Bounds& bounds) {
    for (const std::uint64_t seed : seeds) {
        for (const promises::Violation& violation : run(draw(seed, bounds)).violations)
            ADD_FAILURE() << "seed " << seed << ": " << violation.promise << ": " << violation.what;
    }
}

TEST(World, TheSameSeedIsTheSameRun) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        const Drawn drawn = draw(seed, {});
        const std::uint64_t once = run(drawn).mark;
        ASSERT_EQ(run(drawn).mark, once) << "seed " << seed;
    }
}

// Ranks that were stopped for longer than the bound. Each of these has shown what others did not: what comes for a group that has yet
// to be made here, a rank that is cut off while the next group is being made, ranks that have all left, a shrink that begins fenced, a
// rank that is fenced first by one that has left.
TEST(World, SeedsThatHaveBrokenAPromiseBreakNoneAnyMore) {
    for (const bool chunks : {false, true}) {
        for (const std::uint64_t seed : {227,  951,  1722, 1774, 2028, 2163, 2206,  2682,  3361,  3617, 3994,
                                         4196, 4236, 4496, 5269, 5581, 6825, 13533, 14005, 19345, 39242}) {
            const Outcome outcome = run(draw(seed, {.fewest_ranks = 2,
                                                    .most_ranks = 12,
                                                    .silence = true,
                                                    .chunks = chunks,
                                                    .joins = false,
                                                    .cuts = false}));
            for (const promises::Violation& violation : outcome.violations)
                ADD_FAILURE() << "seed " << seed << ", chunks " << chunks << ": " << violation.promise << ": "
                              << violation.what;
        }
    }
}

// Two of three ranks die before the third has its group: they have voted for nothing in it, and are dead for certain.
TEST(World, WhoDiesWhileAGroupIsMadeCostsNoQuorum) {
    Drawn drawn = draw(51397, {.fewest_ranks = 2, .most_ranks = 16, .joins = false, .cuts = false});
    drawn.program.quorum = "certain";
    const Outcome outcome = run(drawn);
    EXPECT_EQ(outcome.deaths, 2U);
    for (const promises::Violation& violation : outcome.violations)
        ADD_FAILURE() << violation.promise << ": " << violation.what;
}

// Ranks whose leader is dead on the only large host; ranks that nobody knows any more, or yet; the only one that is left of its host.
TEST(World, RanksThatWereToldFewAddressesReachEachOther) {
    for (const std::uint64_t seed : {37, 73, 222, 3365, 7076, 7357}) {
        Drawn drawn = draw(seed, {.fewest_ranks = 2, .most_ranks = 16, .joins = false, .cuts = false});
        drawn.program.addresses = "few";
        for (const promises::Violation& violation : run(drawn).violations)
            ADD_FAILURE() << "seed " << seed << ": " << violation.promise << ": " << violation.what;
    }
}

// Ranks 0 and 3 are stopped when the group has just been made, and lack most addresses; the others do nothing but leave. Those next to the two
// on the ring, which know them from the start, wait until they go on: had they gone, the two would not have whom to ask.
TEST(World, RanksThatWereToldFewAddressesDoNotLeaveThoseThatLackSome) {
    constexpr std::uint64_t kStopNs = 200'000;
    constexpr std::uint64_t kForNs = 500'000'000;
    Drawn drawn;
    drawn.fate.ranks = 16;
    for (std::uint32_t rank = 0; rank < drawn.fate.ranks; ++rank)
        drawn.fate.host_of.push_back(rank);
    for (const std::uint32_t rank : {0, 3})
        drawn.fate.stops.push_back({.rank = rank, .at_ns = kStopNs, .for_ns = kForNs});
    drawn.program.seed = 1;
    drawn.program.addresses = "few";
    drawn.program.correction = "optimized:1";  // so that the ring leads to fewer
    std::set<std::uint32_t> gone;              // before the two go on
    const Outcome outcome = run(drawn, [&gone](const std::string& line) {
        static const std::regex kLeaves(" *(\\d+) ns  rank (\\d+), group 0: destroy: success");
        std::smatch words;
        if (std::regex_match(line, words, kLeaves) && std::stoull(words[1]) < kStartNs + kStopNs + kForNs)
            gone.insert(static_cast<std::uint32_t>(std::stoul(words[2])));
    });
    for (const promises::Violation& violation : outcome.violations)
        ADD_FAILURE() << violation.promise << ": " << violation.what;
    for (const std::uint32_t neighbour : {1U, 2U, 4U, 15U})
        EXPECT_FALSE(gone.contains(neighbour)) << neighbour;
    EXPECT_FALSE(gone.empty()) << "others leave";
}

// A link was busy whenever a rank that had left the group, and waited in the next one, looked whether it could pass on there what is stable.
TEST(World, ARankThatWaitsElsewhereSendsWhatFoundNoRoom) {
    for (const promises::Violation& violation :
         run(draw(6632, {.fewest_ranks = 2, .most_ranks = 16, .joins = false, .cuts = false})).violations)
        ADD_FAILURE() << violation.promise << ": " << violation.what;
}

// A rank had left a group in a shrink, and still waited to leave the old one, when the last of the others took that one's memory for the next.
TEST(World, WhatARankThatHasLeftStillReadsIsNotUsedAgain) {
    for (const promises::Violation& violation :
         run(draw(9062, {.fewest_ranks = 2, .most_ranks = 16, .joins = false, .cuts = false})).violations)
        ADD_FAILURE() << violation.promise << ": " << violation.what;
}

// Ranks that give a group up have messages under way, which leave from its memory, and lose their core while it ends.
TEST(World, WhatIsUnderWayDoesNotLeaveFromMemoryThatIsGone) {
    for (const std::uint64_t seed : {695, 2020}) {
        Drawn drawn = draw(seed, {.fewest_ranks = 2, .most_ranks = 8, .joins = false});
        drawn.fate.has_reads = true;
        drawn.fate.by_reference_one_in = 1;
        drawn.fate.reference_ns = 200'000;
        drawn.fate.preempt_one_in = 3;
        drawn.fate.preempt_ns = 100'000;
        for (const promises::Violation& violation : run(drawn).violations)
            ADD_FAILURE() << "seed " << seed << ": " << violation.promise << ": " << violation.what;
    }
}

// At a group's end some heard of ranks that had left it in an agreement, where they count with the dead, and told others that these had
// died. Those waited for two seconds for readers that were long done.
TEST(World, RanksThatHaveLeftAreNotSaidToHaveDied) {
    expect_promises_kept({89653, 129108}, {});
}

// The first call of a rank that was away for longer than the bound looks for news, and so learns that there is no quorum: it ends with that.
TEST(World, ACallThatFindsThatThereIsNoQuorumBeginsNothing) {
    expect_promises_kept({605587, 617883, 632592}, {.silence = true});
}

// A rank is silent, and as many as are left without it are cut off. The others of its host have no quorum, as they see that it has not ended;
// a rank of a third host might take it for certain that they have seen its end.
TEST(World, ThatADeathIsNotCertainIsToldToOtherHosts) {
    expect_promises_kept({5922, 507512, 514272}, {.silence = true});
}

// It was stopped while its group was made. What it reads of the others is of their next group by now, which has the same memory.
TEST(World, ARankThatMakesItsGroupLateTakesNothingFromTheNext) {
    expect_promises_kept({607326}, {.silence = true});
}

// After a cut was repaired, each rank waits in a renewal for a rank that takes it for dead, and that waits for another one in turn.
TEST(World, RanksThatWaitForEachOtherInARenewalAcrossAMendedCutAreTold) {
    expect_promises_kept({71128, 90189}, {});
}

// It makes the next group when a root of its host has died there, and another process has that one's seat.
TEST(World, ARankThatMakesItsGroupLateIsServedThoughTheRootsSeatIsTaken) {
    expect_promises_kept({107386, 210427}, {});
}

// A cut ends; a message that was sent while those that speak for the host looked dead to its sender arrives at another rank of the host.
TEST(World, OneRankSpeaksForAHostThoughOthersTakeItForDead) {
    expect_promises_kept({103178}, {});
}

// A payload that all have consumed may still be on its way to a rank which gave up waiting for it: the row where it said how much it has is a
// later broadcast's by then.
TEST(World, WhatIsShownOfAnOldPayloadSpoilsNoLaterOne) {
    expect_promises_kept({33595, 46276, 93787}, {});
}

// It was stopped while the group was made; one broadcast is all that the others do.
TEST(World, ARankThatComesBackWhenAllHaveEndedIsToldThatTheyTookItForDead) {
    Drawn drawn = draw(
        3617, {.fewest_ranks = 2, .most_ranks = 12, .silence = true, .chunks = false, .joins = false, .cuts = false});
    std::erase_if(drawn.program.steps, [](const Step& step) { return step.number != 1; });
    drawn.fate.deaths.clear();
    std::erase_if(drawn.fate.stops, [](const Stop& stop) { return stop.rank != 2; });
    for (const promises::Violation& violation : run(drawn).violations)
        ADD_FAILURE() << violation.promise << ": " << violation.what;
}

// Ranks 1 and 3 observe each other across hosts. Rank 3 leaves the first group, which the others keep: its farewell goes to the hosts'
// leaders, and rank 1 hears no beat of it there any more. It asks before it takes the process for dead, which is well in the next group.
TEST(World, ARankThatHasLeftOneGroupIsNotTakenForDeadInTheNext) {
    constexpr std::uint64_t kBound = 40'000'000;
    Drawn drawn;
    drawn.fate.ranks = 4;
    drawn.fate.host_of = {0, 0, 1, 1};
    drawn.program.seed = 1;
    drawn.fate.detection_bound_ns = drawn.program.detection_bound_ns = kBound;
    using Kind = Step::Kind;
    std::vector<Step>& steps = drawn.program.steps;
    const auto agree = [&steps] { steps.push_back({.kind = Kind::agree}); };
    // Without an operation in it: a rank leaves in peace where nothing that was begun there needs the others.
    steps.push_back({.kind = Kind::shrink, .keep_old = true});
    agree();  // the new group stands at all ranks, so nobody has to be asked about it
    steps.push_back({.kind = Kind::drop, .who = 3});
    for (int i = 0; i < 8; ++i) {
        steps.push_back({.kind = Kind::away, .away_ns = kBound});
        agree();
        steps.push_back({.kind = Kind::broadcast, .who = static_cast<std::uint32_t>(i)});
    }
    for (std::uint32_t number = 0; number < steps.size(); ++number)
        steps[number].number = number + 1;
    const Outcome outcome = run(drawn);
    for (const promises::Violation& violation : outcome.violations)
        ADD_FAILURE() << violation.promise << ": " << violation.what;
    EXPECT_GT(outcome.virtual_ns, 3 * kBound);
}

std::string broken(const Drawn& drawn) {
    std::string all;
    for (const promises::Violation& violation : run(drawn).violations)
        all += violation.promise + ": " + violation.what + "\n";
    return all;
}

// Rank 0 was root in its group, and is stopped until the others have made so many more that one has the memory of that. There another rank is
// root of a broadcast of the same number.
TEST(World, ARankThatIsLeftOutFindsNoRootOfAnotherGroup) {
    constexpr std::uint64_t kBound = 40'000'000;
    for (std::uint64_t at_ns = 130'000; at_ns < 730'000; at_ns += 5'000) {
        Drawn drawn;
        drawn.fate.ranks = 6;
        drawn.fate.host_of = {0, 0, 0, 1, 1, 1};
        drawn.fate.detection_bound_ns = drawn.program.detection_bound_ns = kBound;
        drawn.fate.stops.push_back({.rank = 0, .at_ns = at_ns, .for_ns = 10 * kBound});
        drawn.program.seed = at_ns;
        using Kind = Step::Kind;
        std::vector<Step>& steps = drawn.program.steps;
        steps.push_back({.kind = Kind::broadcast, .who = 1});
        steps.push_back({.kind = Kind::broadcast, .who = 0});
        steps.push_back({.kind = Kind::away, .away_ns = 1'000'000});
        for (int group = 1; group < 4; ++group) {
            steps.push_back({.kind = Kind::shrink});
            steps.push_back({.kind = Kind::agree});
            for (const std::uint32_t root : {2, 1})
                steps.push_back({.kind = Kind::broadcast, .who = root});
        }
        for (std::uint32_t number = 0; number < steps.size(); ++number)
            steps[number].number = number + 1;
        EXPECT_EQ(broken(drawn), "") << "at " << at_ns;
    }
}

// Two ranks against one, with nothing to do but to shrink: the two have the next group, and the third is told that it has no quorum. With `any`
// there are two groups, with two ranks on either side that which has the lowest.
TEST(World, OneSideOfACutGoesOn) {
    for (const std::uint32_t ranks : {3U, 4U}) {
        for (const char* const quorum : {"certain", "majority", "any"}) {
            Drawn drawn;
            drawn.fate.ranks = ranks;
            for (std::uint32_t rank = 0; rank < ranks; ++rank)
                drawn.fate.host_of.push_back(rank / 2);
            drawn.fate.cuts.push_back({.hosts = 1, .at_ns = 10'000'000});
            drawn.program.seed = 1;
            drawn.program.quorum = quorum;
            drawn.program.steps.push_back({.kind = Step::Kind::agree, .number = 1});
            drawn.program.steps.push_back({.kind = Step::Kind::away, .number = 2, .away_ns = 50'000'000});
            drawn.program.steps.push_back({.kind = Step::Kind::shrink, .number = 3});
            std::multiset<std::string> made;
            const Outcome outcome = run(drawn, [&made](const std::string& line) {
                static const std::regex kShrink(
                    ".*rank (\\d+), step 3, group 0: shrink: (success; group \\d+: )?([^:]*).*");
                std::smatch words;
                if (std::regex_match(line, words, kShrink)) made.insert(words[3]);
            });
            for (const promises::Violation& violation : outcome.violations)
                ADD_FAILURE() << quorum << ": " << violation.promise << ": " << violation.what;
            const std::string other = std::string(quorum) == "any"
                                          ? (ranks == 3 ? "2" : "2, 3")
                                          : "too few ranks can be reached to go on without the others";
            EXPECT_EQ(made.count("0, 1"), 2U) << quorum;
            EXPECT_EQ(made.count(other), ranks - 2) << quorum;
        }
    }
}

// Rank 0 asked for a connection to rank 6, which found no way through, took it for dead, and left when all was over. The connection stood in the
// end: rank 6 waited in a shrink for a rank that would never answer, nor seem dead.
TEST(World, ARankIsToldThatItIsFencedByOneThatWasConnectingToIt) {
    EXPECT_EQ(broken(draw(11690, {.fewest_ranks = 2, .most_ranks = 16})), "");
}

// What was sent while nothing passed arrives when that is over, and nobody is the wiser.
TEST(World, AShortCutIsADelay) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        Drawn drawn =
            draw(seed, {.fewest_ranks = 2, .most_ranks = 8, .hosts = 2, .kills = false, .joins = false, .cuts = false});
        drawn.program.quorum = "majority";
        drawn.fate.cuts.push_back({.hosts = 1, .at_ns = 1'000'000, .for_ns = drawn.fate.longest_detection_ns()});
        EXPECT_EQ(broken(drawn), "") << "seed " << seed;
    }
}

// Rank 1 of three dies, and is started again; another process has waited from the beginning. One renewal has both, and the number of the dead
// is its successor's.
TEST(World, WhoeverWaitsIsTakenIn) {
    constexpr std::uint64_t kMillisecond = 1'000'000;
    Drawn drawn;
    drawn.fate.ranks = 3;
    drawn.fate.host_of = {0, 0, 1, 0, 1};
    drawn.fate.deaths.push_back({.rank = 1, .at_ns = 20 * kMillisecond});
    drawn.fate.newcomers.push_back({.seat = 1, .incarnation = 1, .host = 0, .follows = 1, .after_ns = kMillisecond});
    drawn.fate.newcomers.push_back({.seat = 3, .host = 1, .after_ns = kMillisecond});
    drawn.program.seed = 1;
    std::vector<Step>& steps = drawn.program.steps;
    for (std::uint32_t number = 1; number <= 16; number += 2) {
        steps.push_back({.kind = Step::Kind::away, .number = number, .away_ns = 200 * kMillisecond});
        steps.push_back({.kind = Step::Kind::agree, .number = number + 1});
    }
    steps.push_back({.kind = Step::Kind::shrink, .number = 17, .admits = true});
    steps.push_back({.kind = Step::Kind::agree, .number = 18});
    steps.push_back({.kind = Step::Kind::broadcast, .number = 19});
    steps.push_back({.kind = Step::Kind::agree, .number = 20});
    std::multiset<std::string> made;
    std::set<std::string> delivered;
    const Outcome outcome = run(drawn, [&](const std::string& line) {
        static const std::regex kShrink(".*step 17, group \\d+: shrink: success; group \\d+: ([^:]*)");
        static const std::regex kBroadcast(".*rank (\\d+), step 19, group \\d+: broadcast: success");
        std::smatch words;
        if (std::regex_match(line, words, kShrink)) made.insert(words[1]);
        if (std::regex_match(line, words, kBroadcast)) delivered.insert(words[1]);
    });
    for (const promises::Violation& violation : outcome.violations)
        ADD_FAILURE() << violation.promise << ": " << violation.what;
    EXPECT_EQ(made.count("0, 3, 2, 4"), 2U);
    EXPECT_EQ(delivered, (std::set<std::string>{"0", "2", "3", "4"}));
}

// A chain ends at sixteen. Beyond, each leader takes its chunks from the one half as far from the root, which may die.
TEST(World, PayloadsOfMoreThanSixteenHostsGoDownATree) {
    std::uint64_t large = 0;
    std::uint64_t deaths = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        const Drawn drawn =
            draw(seed, {.fewest_ranks = 18, .most_ranks = 26, .hosts = 17, .joins = false, .cuts = false});
        for (const Step& step : drawn.program.steps)
            large += step.kind == Step::Kind::broadcast && step.bytes > 8192 ? 1 : 0;
        const Outcome outcome = run(drawn);
        deaths += outcome.deaths;
        for (const promises::Violation& violation : outcome.violations)
            ADD_FAILURE() << "seed " << seed << ": " << violation.promise << ": " << violation.what;
    }
    EXPECT_GT(large, 30U);
    EXPECT_GT(deaths, 30U);
}

// What coppice-sim prints of a run that broke a promise: who sent what to whom, and what ranks of one host showed to each other.
TEST(World, ARunIsToldWithItsMessagesAndStores) {
    using Kind = Step::Kind;
    Drawn drawn;
    drawn.fate.ranks = 4;
    drawn.fate.host_of = {0, 0, 1, 1};
    drawn.program.seed = 1;
    drawn.program.steps.push_back({.kind = Kind::broadcast, .number = 1, .bytes = 64});
    drawn.program.steps.push_back({.kind = Kind::agree, .number = 2});
    Transcript transcript;
    EXPECT_EQ(run(drawn, transcript).mark, run(drawn).mark) << "it changes nothing";
    const std::vector<std::string> lines = transcript.lines();
    const auto has = [&lines](const char* what) {
        const std::regex line(std::string(" *\\d+ ns  ") + what);
        return std::ranges::any_of(lines, [&line](const std::string& one) { return std::regex_match(one, line); });
    };
    EXPECT_TRUE(has("rank 0 to rank 2: broadcast/tree, sequence 0, 64 bytes"));
    EXPECT_TRUE(has("rank \\d to rank \\d: agreement/[a-z-]+, sequence 0, (detail|\\d+ bytes).*"));
    EXPECT_TRUE(has("rank \\d to rank \\d: goodbye"));
    EXPECT_TRUE(has("rank 0 shows its host: broadcast 0 of rank 0, 64 bytes"));
    EXPECT_TRUE(has("rank 3 shows its host: consumed 1"));
    EXPECT_TRUE(has("rank 3, step 1, group 0: broadcast: success"));
}

// Each call and death, but of the traffic only what is near the last of these.
TEST(World, ALongConversationIsCutAndSaysSo) {
    Transcript transcript;
    transcript.note_event("begin");
    for (std::size_t i = 0; i < Transcript::kBefore + 7; ++i)
        transcript.note_traffic("before " + std::to_string(i));
    transcript.note_event("end");
    for (std::size_t i = 0; i < Transcript::kBehind + 3; ++i)
        transcript.note_traffic("behind " + std::to_string(i));
    const std::vector<std::string> lines = transcript.lines();
    ASSERT_EQ(lines.size(), 2 + Transcript::kBefore + Transcript::kBehind + 2);
    EXPECT_NE(lines.front().find("7 messages and stores before these are left out"), std::string::npos);
    EXPECT_EQ(lines[1], "begin");
    EXPECT_EQ(lines[2], "before 7");
    EXPECT_EQ(lines[2 + Transcript::kBefore], "end");
    EXPECT_EQ(lines[3 + Transcript::kBefore], "behind 0");
    EXPECT_NE(lines.back().find("3 messages and stores after these are left out"), std::string::npos);
}

TEST(World, OtherSeedsAreOtherRuns) {
    std::set<std::uint64_t> marks;
    for (std::uint64_t seed = 1; seed <= 60; ++seed)
        marks.insert(run(draw(seed, {})).mark);
    EXPECT_EQ(marks.size(), 60U);
}

}  // namespace
}  // namespace coppice::world
