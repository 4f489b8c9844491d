// Failure-proof correction: Claim 4 of IPDPS'17 under seeded random orders, deaths and timeouts; single machines by
// hand.
//
// COPPICE_SEEDS sets how many seeds are drawn (4,000 unless told).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "explore_failure_proof.hpp"
#include "world.hpp"

namespace coppice::protocol::testing {
namespace {

std::uint32_t seeds() {
    const char* text = std::getenv("COPPICE_SEEDS");
    return text == nullptr ? 4000 : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

FailureProofPlan plan(const std::string& tree, std::uint32_t processes, const std::string& correction,
                      std::uint64_t timeout = 1) {
    return make_failure_proof_plan(
        {*topology::Tree::make(*topology::parse_tree(tree), processes), *parse_correction(correction), Nanoseconds{1}},
        Nanoseconds{timeout});
}

struct Drawn {
    std::string name;
    FailureProofPlan plan;
    std::uint32_t failures = 0;
    std::uint32_t root_member = 0;
};

Drawn draw(std::mt19937& random) {
    constexpr std::array<const char*, 7> trees{"binomial", "kary:2", "kary:4",     "lame:2",
                                               "chain",    "star",   "optimal:1,2"};
    const char* tree = trees[random() % trees.size()];
    const auto processes = static_cast<std::uint32_t>(2 + random() % (random() % 4 == 0 ? 60 : 14));
    const auto failures = static_cast<std::uint32_t>(1 + random() % kMaxFailures);
    std::string correction = "failure-proof:" + std::to_string(failures);
    if (random() % 2 == 0) correction.append(":synchronized");
    return {std::string(tree) + " " + correction + " P=" + std::to_string(processes), plan(tree, processes, correction),
            failures, static_cast<std::uint32_t>(random() % processes)};
}

bool none_colored(const FailureProofWorld& world) {
    for (std::uint32_t position = 0; position < world.processes(); ++position) {
        if (!world.is_dead(position) && world.machine(position).colored()) return false;
    }
    return true;
}

void crash_before_the_start(FailureProofWorld& world, std::mt19937& random) {
    const std::uint32_t one_in = 1 + static_cast<std::uint32_t>(random() % 20);
    for (std::uint32_t position = 1; position < world.processes(); ++position) {
        if (one_in > 1 && random() % one_in == 0) world.crash(position);
    }
}

// Nobody notices anything. Some are dead before; up to f die on the way, the root among them, or others. A member that
// has died counts as having been through when it was.
TEST(Claim4, AllOrNoneWhileNoMoreThanFDieOnTheWay) {
    std::uint32_t none = 0;
    std::uint32_t all = 0;
    for (std::uint32_t seed = 1; seed <= seeds(); ++seed) {
        std::mt19937 random(seed);
        const Drawn drawn = draw(random);
        SCOPED_TRACE(drawn.name + ", seed " + std::to_string(seed));
        FailureProofWorld world(drawn.plan, drawn.root_member);
        crash_before_the_start(world, random);
        std::uint32_t deaths = 0;
        bool was_through = false;
        const std::uint32_t one_in = 1 + static_cast<std::uint32_t>(random() % (4 * world.processes()));
        do {
            const auto position = static_cast<std::uint32_t>(random() % 3 == 0 ? 0 : random() % world.processes());
            if (deaths < drawn.failures && !world.is_dead(position) && random() % one_in == 0) {
                was_through |= world.machine(position).colored() && world.machine(position).finished();
                world.crash(position);
                ++deaths;
            }
        } while (world.step(random, false));
        ASSERT_EQ(world.violation(), "");
        const bool all_colored = world.all_live_colored();
        ASSERT_TRUE(all_colored || none_colored(world));
        ASSERT_TRUE(all_colored || !was_through);
        ASSERT_TRUE(!all_colored || world.all_live_ended());
        (all_colored ? all : none) += 1;
    }
    std::cout << all << " times all, " << none << " times none\n";
    EXPECT_GT(all, 0U);
    EXPECT_GT(none, 0U);
}

// Beyond the paper.
TEST(Noticed, ALiveRootReachesEverybodyHoweverManyDie) {
    for (std::uint32_t seed = 1; seed <= seeds() / 2; ++seed) {
        std::mt19937 random(seed);
        const Drawn drawn = draw(random);
        SCOPED_TRACE(drawn.name + ", seed " + std::to_string(seed));
        FailureProofWorld world(drawn.plan, drawn.root_member);
        const std::uint32_t one_in = 1 + static_cast<std::uint32_t>(random() % 80);
        std::uint32_t restarts = random() % 3 == 0 ? 3 : 0;
        do {
            const auto position = static_cast<std::uint32_t>(random() % world.processes());
            if (position != 0 && random() % one_in == 0) world.crash(position);
            if (restarts > 0 && random() % 10 == 0 && !world.is_dead(position)) {
                world.restart(position);
                --restarts;
            }
        } while (world.step(random, true));
        ASSERT_EQ(world.violation(), "");
        ASSERT_TRUE(world.all_live_colored());
        ASSERT_TRUE(world.all_live_ended());
    }
}

TEST(Noticed, WithADeadRootAllAreColoredOrAllAreTold) {
    std::uint32_t told = 0;
    std::uint32_t colored = 0;
    for (std::uint32_t seed = 1; seed <= seeds() / 2; ++seed) {
        std::mt19937 random(seed);
        const Drawn drawn = draw(random);
        SCOPED_TRACE(drawn.name + ", seed " + std::to_string(seed));
        FailureProofWorld world(drawn.plan, drawn.root_member);
        const std::uint32_t one_in = 1 + static_cast<std::uint32_t>(random() % 80);
        const auto root_lives_for = static_cast<std::uint32_t>(random() % 20);
        std::uint32_t steps = 0;
        do {
            const auto position = static_cast<std::uint32_t>(random() % world.processes());
            if (random() % one_in == 0) world.crash(position);
            if (steps++ == root_lives_for) world.crash(0);
        } while (world.step(random, true));
        world.crash(0);
        world.settle(random, true);
        ASSERT_EQ(world.violation(), "");
        ASSERT_TRUE(world.all_live_ended());
        (world.all_live_colored() ? colored : told) += 1;
    }
    EXPECT_GT(told, seeds() / 50);
    EXPECT_GT(colored, seeds() / 50);
}

// Past the edge: with more than f deaths and nobody to notice, some live members may have the payload and some not. 12,
// whose parent is dead, lives in the middle of a long gap. The members around the gap make themselves known, then they
// die.
TEST(Undetected, MoreThanFDeathsMaySplitTheGroup) {
    std::uint32_t split = 0;
    for (std::uint32_t seed = 1; seed <= 2000; ++seed) {
        std::mt19937 random(seed);
        FailureProofWorld world(plan("binomial", 24, "failure-proof:1", 1000), 0);
        for (const std::uint32_t dead : {4U, 9U, 10U, 11U, 13U, 14U, 15U})
            world.crash(dead);
        for (std::uint32_t steps = 0; steps < 1000 && world.step(random, false); ++steps) {
            constexpr std::array<std::uint32_t, 8> around{5, 6, 7, 8, 16, 17, 18, 19};
            const std::uint32_t position = around[random() % around.size()];
            if (world.machine(position).colored() && random() % 10 == 0) world.crash(position);
        }
        world.settle(random, false);
        ASSERT_EQ(world.violation(), "");
        if (!world.all_live_colored() && !none_colored(world)) ++split;
    }
    std::cout << split << " of 2000 groups split\n";
    EXPECT_GT(split, 0U);
}

std::vector<FailureProofMessage> drain(FailureProofCorrection& correction, std::uint64_t now = 0) {
    std::vector<FailureProofMessage> messages;
    while (const auto message = correction.next_send(Nanoseconds{now}))
        messages.push_back(*message);
    return messages;
}

FailureProofMessage from_left(std::uint32_t from, std::uint32_t to, std::initializer_list<std::uint32_t> known = {}) {
    FailureProofMessage message;
    message.kind = FailureProofKind::correction_right;
    message.from = Position{from};
    message.to = Position{to};
    for (const std::uint32_t one : known)
        message.known[message.known_count++] = Position{one};
    return message;
}

FailureProofMessage from_right(std::uint32_t from, std::uint32_t to, std::initializer_list<std::uint32_t> known = {}) {
    FailureProofMessage message = from_left(from, to, known);
    message.kind = FailureProofKind::correction_left;
    return message;
}

// Figure 6: node 3 of 10, f = 1. It ends after F(0, 1), B(4) and B(5), and its last messages are final ones, up to the
// second g-node on each side.
TEST(Figure6, Node3EndsWhenItKnowsTwoOnEachSide) {
    const FailureProofSettings settings{10, 1, Nanoseconds{100}, Nanoseconds{0}};
    FailedSet nobody;
    FailureProofCorrection three(settings, Position{3}, 0, nobody);
    three.join();
    three.start();
    EXPECT_TRUE(three.receive(from_left(1, 3, {0})));
    EXPECT_TRUE(three.receive(from_right(4, 3)));
    EXPECT_TRUE(three.receive(from_right(5, 3)));
    std::vector<std::uint32_t> to_right;
    std::vector<std::uint32_t> to_left;
    for (const FailureProofMessage& message : drain(three)) {
        if (message.kind == FailureProofKind::correction_right) {
            EXPECT_EQ(message.known_count, 2);
            EXPECT_EQ(message.known[0], Position{1});
            EXPECT_EQ(message.known[1], Position{0});
            to_right.push_back(message.to.value);
        } else {
            to_left.push_back(message.to.value);
        }
    }
    EXPECT_EQ(to_right, (std::vector<std::uint32_t>{4, 5}));
    EXPECT_EQ(to_left, (std::vector<std::uint32_t>{2, 1, 0}));
    EXPECT_TRUE(three.finished());
    EXPECT_FALSE(three.is_sos());
}

// Who has been sent to does not know yet what is behind: the final round is for all of them once more.
TEST(FinalRound, StartsAgainFromTheNearest) {
    const FailureProofSettings settings{10, 1, Nanoseconds{100}, Nanoseconds{0}};
    FailedSet nobody;
    FailureProofCorrection three(settings, Position{3}, 0, nobody);
    three.join();
    three.start();
    const std::uint32_t first = three.next_send(Nanoseconds{0})->to.value;
    const std::uint32_t second = three.next_send(Nanoseconds{0})->to.value;
    EXPECT_TRUE(three.receive(from_left(1, 3, {0})));
    EXPECT_TRUE(three.receive(from_right(4, 3, {5})));
    std::vector<std::uint32_t> to;
    for (const FailureProofMessage& message : drain(three))
        to.push_back(message.to.value);
    std::ranges::sort(to);
    EXPECT_EQ(to, (std::vector<std::uint32_t>{0, 1, 2, 4, 5}));
    EXPECT_TRUE((first == 2 && second == 4) || (first == 4 && second == 2));
}

// All on whose account it was through have died: it starts again, as a g-node and as a c-node.
TEST(Notice, OfTheDeathOfAllThatWereKnownReopens) {
    const FailureProofSettings settings{10, 1, Nanoseconds{100}, Nanoseconds{0}};
    FailedSet failed;
    FailureProofCorrection three(settings, Position{3}, 0, failed);
    three.join();
    three.start();
    EXPECT_TRUE(three.receive(from_left(1, 3, {0})));
    EXPECT_TRUE(three.receive(from_right(4, 3, {5})));
    EXPECT_EQ(drain(three).size(), 5U);
    EXPECT_TRUE(three.finished());
    failed.insert(4);
    three.peer_failed(Position{4});
    EXPECT_TRUE(three.finished()) << "5 lives";
    failed.insert(5);
    three.peer_failed(Position{5});
    EXPECT_FALSE(three.finished());
    std::vector<std::uint32_t> to_right;
    for (const FailureProofMessage& message : drain(three)) {
        if (message.kind == FailureProofKind::correction_right) to_right.push_back(message.to.value);
    }
    EXPECT_EQ(to_right.front(), 6U);

    FailedSet nobody;
    FailureProofCorrection eight(settings, Position{8}, 0, nobody);
    EXPECT_TRUE(eight.receive(from_left(6, 8, {4})));
    EXPECT_TRUE(drain(eight).empty());
    EXPECT_TRUE(eight.finished());
    nobody.insert(6);
    nobody.insert(4);
    eight.peer_failed(Position{6});
    EXPECT_TRUE(drain(eight).empty());
    EXPECT_FALSE(eight.finished()) << "it waits, to call for help";
}

TEST(CNode, EndsWhenItKnowsEnoughAndCallsForHelpWhenItDoesNot) {
    const FailureProofSettings settings{20, 2, Nanoseconds{50}, Nanoseconds{0}};
    FailedSet nobody;
    FailureProofCorrection informed(settings, Position{8}, 0, nobody);
    EXPECT_TRUE(informed.receive(from_left(6, 8, {4})));
    EXPECT_TRUE(drain(informed, 10).empty());
    EXPECT_FALSE(informed.finished());
    EXPECT_EQ(informed.next_timer(), Nanoseconds{60});
    EXPECT_TRUE(informed.receive(from_right(9, 8)));
    EXPECT_TRUE(drain(informed, 12).empty());
    EXPECT_TRUE(informed.finished());
    EXPECT_EQ(informed.next_timer(), kNever);

    FailureProofCorrection forgotten(settings, Position{8}, 0, nobody);
    EXPECT_TRUE(forgotten.receive(from_left(6, 8, {4})));
    EXPECT_TRUE(drain(forgotten, 10).empty());
    EXPECT_TRUE(drain(forgotten, 59).empty());
    const auto calls = drain(forgotten, 60);
    EXPECT_EQ(calls.size(), 19U);
    for (const FailureProofMessage& call : calls)
        EXPECT_EQ(call.kind, FailureProofKind::sos);
    EXPECT_TRUE(forgotten.finished());
}

TEST(Sos, IsPassedOnByEveryMemberThatIsNotThrough) {
    const FailureProofSettings settings{6, 1, Nanoseconds{50}, Nanoseconds{0}};
    FailedSet nobody;
    FailureProofCorrection uncolored(settings, Position{2}, 0, nobody);
    FailureProofMessage call;
    call.kind = FailureProofKind::sos;
    call.from = Position{5};
    call.to = Position{2};
    EXPECT_TRUE(uncolored.receive(call));
    EXPECT_EQ(drain(uncolored).size(), 5U);
    EXPECT_TRUE(uncolored.finished());
    EXPECT_TRUE(uncolored.receive(call));
    EXPECT_TRUE(drain(uncolored).empty());
}

// Algorithm 3, line 27: messages name the nearest f + 1 g-nodes behind their sender.
TEST(Knowledge, IsOfTheNearestAndNamesNobodyTwice) {
    const FailureProofSettings settings{40, 2, Nanoseconds{50}, Nanoseconds{0}};
    FailedSet nobody;
    FailureProofCorrection ten(settings, Position{10}, 0, nobody);
    ten.join();
    EXPECT_TRUE(ten.receive(from_left(4, 10, {2, 1})));
    EXPECT_TRUE(ten.receive(from_left(7, 10, {4, 2})));
    EXPECT_TRUE(drain(ten).empty());  // not started
    ten.start();
    const auto first = ten.next_send(Nanoseconds{0});
    ASSERT_TRUE(first);
    ASSERT_EQ(first->known_count, 3);
    EXPECT_EQ(first->known[0], Position{7});
    EXPECT_EQ(first->known[1], Position{4});
    EXPECT_EQ(first->known[2], Position{2});
}

// On a small ring one member may be known on both sides. It is one survivor; another one lives, and may have nothing.
TEST(Knowledge, OfOneSurvivorOnBothSidesIsOfOne) {
    const FailureProofSettings settings{4, 2, Nanoseconds{50}, Nanoseconds{0}};
    FailedSet failed;
    failed.insert(1);
    FailureProofCorrection three(settings, Position{3}, 0, failed);
    EXPECT_TRUE(three.receive(from_left(2, 3)));
    EXPECT_TRUE(three.receive(from_right(2, 3)));
    EXPECT_TRUE(drain(three, 10).empty());
    EXPECT_FALSE(three.finished());
    EXPECT_TRUE(three.receive(from_right(0, 3)));
    EXPECT_TRUE(drain(three, 11).empty());
    EXPECT_TRUE(three.finished()) << "all that live are known";
}

TEST(Refused, IsWhatCanNotBe) {
    const FailureProofPlan ten = plan("binomial", 10, "failure-proof:1");
    FailedSet nobody;
    FailureProofBroadcast machine(ten, Position{3}, 0, nobody, false);
    EXPECT_FALSE(machine.receive(from_left(3, 3)));
    EXPECT_FALSE(machine.receive(from_left(10, 3)));
    EXPECT_FALSE(machine.receive(from_left(1, 4)));
    EXPECT_FALSE(machine.receive(from_left(1, 3, {0, 9, 8})));  // more than f + 1
    EXPECT_FALSE(machine.receive(from_left(1, 3, {10})));
    EXPECT_FALSE(machine.receive(from_left(1, 3, {1})));  // itself
    FailureProofMessage gossip = from_left(1, 3);
    gossip.kind = FailureProofKind::gossip;
    EXPECT_FALSE(machine.receive(gossip));
    gossip.kind = static_cast<FailureProofKind>(200);
    EXPECT_FALSE(machine.receive(gossip));
    FailureProofMessage tree = from_left(1, 3, {0});
    tree.kind = FailureProofKind::tree;
    EXPECT_FALSE(machine.receive(tree));  // knows somebody
    EXPECT_FALSE(machine.colored());
    EXPECT_TRUE(machine.receive(from_left(1, 3, {0})));
    EXPECT_TRUE(machine.colored());
}

TEST(Alone, IsThroughAtOnce) {
    FailedSet nobody;
    const FailureProofPlan alone = plan("binomial", 1, "failure-proof:2");
    FailureProofBroadcast machine(alone, Position{0}, 0, nobody, true);
    EXPECT_FALSE(machine.next_send(Nanoseconds{0}));
    EXPECT_TRUE(machine.finished());
}

}  // namespace
}  // namespace coppice::protocol::testing
