// The broadcast of a placement: every order of messages and deaths in small groups, and seeded ones in larger networks. What
// happens under a clock while nobody is told of a death is in simulation.network.
#include <gtest/gtest.h>

#include <array>
#include <new>
#include <random>
#include <utility>

#include "explorer.hpp"
#include "world.hpp"

namespace coppice::protocol::testing {
namespace {

using topology::Placement;
using topology::Site;

PlacedPlan plan_for(std::span<const Site> sites, std::uint32_t distance, const char* tree) {
    return make_placed_plan(*Placement::make(sites, *topology::parse_tree(tree)), distance);
}

// ------------------------------------------------------------------------------------------------- every order

class PlacedSubject {
  public:
    using Machine = PlacedBroadcast;
    using Machines = std::array<const PlacedBroadcast*, kMaxExplored>;

    PlacedSubject(const PlacedPlan& plan, const Conditions& conditions) : plan_(plan), conditions_(conditions) {}

    static std::uint64_t encode(const PlacedMessage& message) {
        return std::uint64_t{static_cast<std::uint8_t>(message.kind)} << 56 | std::uint64_t{message.from.value} << 48 |
               std::uint64_t{message.to.value} << 40 | message.detail;
    }
    static PlacedMessage decode(std::uint64_t code) {
        return {static_cast<PlacedKind>(code >> 56), Position{static_cast<std::uint32_t>(code >> 48 & 0xff)},
                Position{static_cast<std::uint32_t>(code >> 40 & 0xff)}, static_cast<std::uint32_t>(code)};
    }
    static std::string describe(const PlacedMessage& message) { return describe_ends(message); }
    static bool carries_set(const PlacedMessage& message) {
        return message.kind == PlacedKind::query || message.kind == PlacedKind::denial;
    }
    static bool end_is_final() { return true; }
    static bool is_monotone() { return false; }
    void build(void* where, Position position, const FailedSet& failed) const {
        new (where) PlacedBroadcast(plan_, position, conditions_.root_member, failed, position.value == 0);
    }
    std::string check(const Machines& machines) const {
        bool colored = false;
        bool told = false;
        for (const PlacedBroadcast* machine : machines) {
            if (machine == nullptr) continue;
            colored |= machine->colored();
            told |= machine->result() == BroadcastResult::root_failed;
        }
        return colored && told ? "a verdict, and a live member with the payload" : "";
    }
    std::string check_final(const Machines& machines, std::uint32_t /*retired*/, Exploration& result) const {
        bool all = true;
        bool told = false;
        for (std::uint32_t member = 0; member < conditions_.processes; ++member) {
            const PlacedBroadcast* machine = machines[member];
            if (machine == nullptr) continue;
            all &= machine->colored();
            told |= machine->result() == BroadcastResult::root_failed;
            if (machine->result() == BroadcastResult::pending) return std::to_string(member) + " has no result";
            if (!machine->finished()) return std::to_string(member) + " is never through";
        }
        if (told) ++result.verdicts;
        if (all) ++result.all_colored;
        return all || told ? "" : "some have the payload and some have not";
    }

  private:
    PlacedPlan plan_;
    Conditions conditions_;
};

struct Group {
    std::vector<Site> sites;
    std::uint32_t root;
    std::uint32_t crashes;
    std::uint32_t distance = 1;
};

std::ostream& operator<<(std::ostream& out, const Group& group) {
    for (const Site& site : group.sites)
        out << site.pod << '/' << site.leaf << ' ';
    return out << "root " << group.root << ", " << group.crashes << " crashes, distance " << group.distance;
}

class EveryOrder : public ::testing::TestWithParam<Group> {};

TEST_P(EveryOrder, AllGetThePayloadOrAllAreToldThatTheRootFailed) {
    const Group& group = GetParam();
    Conditions conditions;
    conditions.processes = static_cast<std::uint32_t>(group.sites.size());
    conditions.root_member = group.root;
    conditions.crashes = group.crashes;
    conditions.detection = true;
    PlacedSubject subject(plan_for(group.sites, group.distance, "binomial"), conditions);
    const Exploration result = StateExplorer<PlacedSubject>(subject, conditions).run();
    EXPECT_TRUE(result.complete) << result.states;
    EXPECT_EQ(result.violation, "");
    EXPECT_GT(result.all_colored, 0U);
    EXPECT_EQ(result.verdicts > 0, group.crashes > 0);
    std::cout << group << ": " << result.states << " states, " << result.final_states << " final\n";
}

INSTANTIATE_TEST_SUITE_P(Small, EveryOrder,
                         ::testing::Values(Group{{{0, 0}, {0, 0}, {0, 1}}, 0, 2}, Group{{{0, 0}, {0, 0}, {0, 1}}, 1, 2},
                                           Group{{{0, 0}, {0, 0}, {0, 1}}, 2, 2},
                                           Group{{{0, 0}, {0, 0}, {0, 1}, {0, 1}}, 1, 1},
                                           Group{{{0, 0}, {1, 1}, {1, 2}}, 2, 2},
                                           Group{{{0, 0}, {0, 0}, {0, 0}, {0, 1}}, 3, 1},
                                           Group{{{0, 0}, {0, 1}, {0, 2}, {0, 0}}, 0, 0, 2}));

// ------------------------------------------------------------------------------------------------- larger, by chance

constexpr std::uint32_t kSeeds = 1500;

std::vector<Site> draw_sites(std::mt19937& random) {
    std::vector<Site> sites;
    const auto up_to = [&random](std::uint32_t most) { return 1 + static_cast<std::uint32_t>(random() % most); };
    std::uint32_t leaf = 0;
    for (std::uint32_t pod = 0, pods = up_to(3); pod < pods; ++pod) {
        for (std::uint32_t i = 0, leaves = up_to(4); i < leaves; ++i, ++leaf)
            sites.insert(sites.end(), up_to(4), Site{pod, leaf});
    }
    std::ranges::shuffle(sites, random);
    return sites;
}

struct Chance {
    bool root_dies = false;
    std::uint32_t restarts = 0;
};

// Members die one by one, or a whole leaf at once, and are noticed; leaders are stood in for.
void play(PlacedWorld& world, const PlacedPlan& plan, std::uint32_t root, std::mt19937& random, Chance chance) {
    const std::uint32_t one_in = 1 + static_cast<std::uint32_t>(random() % 80);
    const std::uint32_t hosts = world.processes();
    do {
        const auto position = static_cast<std::uint32_t>(random() % hosts);
        const std::uint32_t host = (position + root) % hosts;
        if (random() % one_in == 0) {
            const bool whole_leaf = random() % 3 == 0;
            for (const std::uint32_t other : plan.placement.hosts_of(plan.placement.leaf_of(host))) {
                const std::uint32_t at = (other + hosts - root) % hosts;
                if ((whole_leaf || other == host) && (at != 0 || chance.root_dies)) world.crash(at);
            }
        }
        if (chance.restarts > 0 && random() % 10 == 0 && !world.is_dead(position)) {
            world.restart(position);
            --chance.restarts;
        }
    } while (world.step(random, true));
}

TEST(Noticed, ALiveRootReachesEverybodyHoweverManyDie) {
    for (std::uint32_t seed = 1; seed <= kSeeds; ++seed) {
        std::mt19937 random(seed);
        const auto sites = draw_sites(random);
        const PlacedPlan plan = plan_for(sites, 1 + seed % 3, seed % 2 == 0 ? "binomial" : "star");
        const auto root = static_cast<std::uint32_t>(random() % sites.size());
        PlacedWorld world(plan, root);
        play(world, plan, root, random, {.root_dies = false, .restarts = seed % 3});
        ASSERT_EQ(world.violation(), "") << seed;
        ASSERT_TRUE(world.all_live_colored()) << seed;
        ASSERT_TRUE(world.all_live_ended()) << seed;
    }
}

TEST(Noticed, WithADeadRootAllAreColoredOrAllAreTold) {
    std::uint32_t told = 0;
    std::uint32_t colored = 0;
    for (std::uint32_t seed = 1; seed <= kSeeds; ++seed) {
        std::mt19937 random(seed);
        const auto sites = draw_sites(random);
        const PlacedPlan plan = plan_for(sites, 1 + seed % 3, seed % 2 == 0 ? "binomial" : "star");
        const auto root = static_cast<std::uint32_t>(random() % sites.size());
        PlacedWorld world(plan, root);
        for (std::uint32_t steps = static_cast<std::uint32_t>(random() % 40); steps > 0; --steps)
            world.step(random, true);
        world.crash(0);
        play(world, plan, root, random, {.root_dies = true, .restarts = 0});
        ASSERT_EQ(world.violation(), "") << seed;
        ASSERT_TRUE(world.all_live_ended()) << seed;
        (world.all_live_colored() ? colored : told) += 1;
        for (std::uint32_t position = 0; position < world.processes(); ++position) {
            if (world.is_dead(position)) continue;
            ASSERT_EQ(world.machine(position).colored(), world.all_live_colored()) << seed;
        }
    }
    EXPECT_GT(told, kSeeds / 100);
    EXPECT_GT(colored, kSeeds / 20);
}

// A correction reaches as many live hosts as its distance says.
TEST(KnownDead, DoNotCountAmongThoseThatAreCorrected) {
    const std::vector<Site> sites{{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}};
    const PlacedPlan plan = plan_for(sites, 1, "chain");
    FailedSet failed;
    failed.insert(4);
    failed.insert(5);
    PlacedBroadcast machine(plan, Position{3}, 0, failed, false);
    ASSERT_TRUE(machine.receive({PlacedKind::tree, Position{2}, Position{3}, 0}));
    std::vector<std::uint32_t> corrected;
    while (const auto sent = machine.next_send(Nanoseconds{0})) {
        if (sent->kind == PlacedKind::host_right) corrected.push_back(sent->to.value);
    }
    EXPECT_EQ(corrected, std::vector<std::uint32_t>{6});
}

// A live root serves its children itself, so that nobody else corrects them: under a star one message enters each of the other leaves, and
// one reaches the second host of each, in case that the first is dead.
TEST(WithoutDeaths, NobodyCorrectsTheRootsChildren) {
    const std::vector<Site> sites{{0, 0}, {0, 0}, {0, 1}, {0, 1}, {0, 2}, {0, 2}, {0, 3}, {0, 3}};
    for (std::uint32_t root = 0; root < sites.size(); ++root) {
        const PlacedPlan plan = plan_for(sites, 2, "star");
        PlacedWorld world(plan, root);
        const auto is_far = [&](const PlacedMessage& message) {
            const auto leaf_of = [&](Position position) { return sites[(position.value + root) % sites.size()].leaf; };
            return leaf_of(message.from) != leaf_of(message.to);
        };
        std::uint32_t far = 0;
        std::uint32_t moved = 1;
        while (std::exchange(moved, 0) != 0) {
            for (std::uint32_t position = 0; position < world.processes(); ++position) {
                for (; const auto sent = world.pull(position); ++moved)
                    far += is_far(*sent) ? 1 : 0;
            }
            for (; world.under_way() > 0; ++moved)
                world.deliver(0);
        }
        EXPECT_TRUE(world.all_live_colored() && world.all_live_ended());
        EXPECT_EQ(far, 3U + 3U) << "root " << root;
    }
}

}  // namespace
}  // namespace coppice::protocol::testing
