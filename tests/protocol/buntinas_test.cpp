// Buntinas' broadcast: IPDPS'17 §IV.B by hand, by seeded chance, and by exhaustive search of small groups.
#include "protocol/baselines/buntinas.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "explorer.hpp"
#include "topology/ring.hpp"

namespace coppice::protocol::testing {
namespace {

std::string describe(const BuntinasMessage& message) {
    return describe_ends(message) + " attempt " + std::to_string(message.attempt) + ", " +
           std::to_string(message.detail);
}

class BuntinasSubject {
  public:
    using Machine = BuntinasBroadcast;
    using Machines = std::array<const BuntinasBroadcast*, kMaxExplored>;

    explicit BuntinasSubject(const Conditions& conditions) : conditions_(conditions) {}

    static std::uint64_t encode(const BuntinasMessage& message) {
        return std::uint64_t{static_cast<std::uint8_t>(message.kind)} << 56 | std::uint64_t{message.from.value} << 48 |
               std::uint64_t{message.to.value} << 40 | std::uint64_t{message.attempt} << 10 | message.detail;
    }
    static BuntinasMessage decode(std::uint64_t code) {
        return {static_cast<BuntinasKind>(code >> 56), Position{static_cast<std::uint32_t>(code >> 48 & 0xff)},
                Position{static_cast<std::uint32_t>(code >> 40 & 0xff)}, static_cast<std::uint32_t>(code >> 10 & 0x3ff),
                static_cast<std::uint32_t>(code & 0x3ff)};
    }
    static std::string describe(const BuntinasMessage& message) { return testing::describe(message); }
    static bool carries_set(const BuntinasMessage& /*message*/) { return false; }
    static bool end_is_final() { return true; }
    static bool is_monotone() { return false; }
    void build(void* where, Position position, const FailedSet& failed) const {
        new (where)
            BuntinasBroadcast(conditions_.processes, position, conditions_.root_member, failed, position.value == 0);
    }
    static std::string check(const Machines& /*machines*/) { return {}; }
    std::string check_final(const Machines& machines, std::uint32_t /*retired*/, Exploration& result) const {
        bool all = true;
        for (std::uint32_t member = 0; member < conditions_.processes; ++member) {
            if (machines[member] == nullptr) continue;
            all &= machines[member]->colored();
            if (!machines[member]->finished()) return std::to_string(member) + " never finishes";
        }
        if (all) ++result.all_colored;
        return all || machines[0] == nullptr ? "" : "the root lives, and a live member is never reached";
    }

  private:
    Conditions conditions_;
};

TEST(Buntinas, ALiveRootReachesEverybodyInEveryOrderOfMessagesDeathsAndNotices) {
    struct Group {
        std::uint32_t processes;
        std::uint32_t crashes;
        std::uint8_t may_crash;
    };
    for (const Group group :
         {Group{2, 2, 0xff}, Group{3, 2, 0xff}, Group{4, 1, 0xff}, Group{4, 2, 0xfe}, Group{5, 1, 0xff}}) {
        SCOPED_TRACE(group.processes);
        Conditions conditions;
        conditions.processes = group.processes;
        conditions.crashes = group.crashes;
        conditions.may_crash = group.may_crash;
        conditions.root_member = 1;
        BuntinasSubject subject(conditions);
        const Exploration result = StateExplorer<BuntinasSubject>(subject, conditions).run();
        EXPECT_TRUE(result.complete);
        EXPECT_EQ(result.violation, "");
        EXPECT_GT(result.all_colored, 0U);
        std::cout << "P=" << group.processes << ", " << group.crashes << " crashes: " << result.states << " states, "
                  << result.final_states << " final\n";
    }
}

// Members that die, and processes that others stand in for, at random.
TEST(Buntinas, ALiveRootReachesEverybodyHoweverManyDie) {
    std::uint32_t restarted = 0;
    for (std::uint32_t seed = 1; seed <= 4000; ++seed) {
        std::mt19937 random(seed);
        const auto processes = static_cast<std::uint32_t>(2 + random() % 30);
        SCOPED_TRACE("P=" + std::to_string(processes) + ", seed " + std::to_string(seed));
        const auto root_member = static_cast<std::uint32_t>(random() % processes);
        std::vector<FailedSet> failed(processes);
        std::vector<BuntinasBroadcast> machines;
        std::vector<bool> dead(processes, false);
        for (std::uint32_t position = 0; position < processes; ++position) {
            machines.emplace_back(processes, Position{position}, root_member, failed[position], position == 0);
        }
        std::vector<BuntinasMessage> under_way;
        std::uint32_t restarts = random() % 3 == 0 ? 3 : 0;
        const std::uint32_t one_in = 1 + static_cast<std::uint32_t>(random() % 100);
        const auto member = [&](std::uint32_t position) {
            return topology::to_member(Position{position}, root_member, processes);
        };
        std::uint32_t idle = 0;
        while (idle < 200 || !under_way.empty()) {
            const auto position = static_cast<std::uint32_t>(random() % processes);
            const auto other = static_cast<std::uint32_t>(random() % processes);
            ++idle;
            if (idle < 100 && position != 0 && random() % one_in == 0) dead[position] = true;
            if (restarts > 0 && random() % 20 == 0 && !dead[position]) {
                --restarts;
                std::erase_if(under_way, [&](const BuntinasMessage& one) { return one.to.value == position; });
                const bool has_payload = machines[position].colored();
                machines[position] =
                    BuntinasBroadcast(processes, Position{position}, root_member, failed[position], has_payload);
                for (std::uint32_t one = 0; one < processes; ++one) {
                    if (one != position) machines[one].peer_restarted(Position{position});
                }
                idle = 0;
            }
            if (!dead[position]) {
                if (const auto message = machines[position].next_send(Nanoseconds{0})) {
                    ASSERT_FALSE(failed[position].contains(member(message->to.value)));
                    under_way.push_back(*message);
                    idle = 0;
                }
                if (dead[other] && failed[position].insert(member(other))) {
                    machines[position].peer_failed(Position{other});
                    idle = 0;
                }
            }
            if (under_way.empty()) continue;
            std::swap(under_way[random() % under_way.size()], under_way.back());
            const BuntinasMessage message = under_way.back();
            under_way.pop_back();
            const std::uint32_t to = message.to.value;
            if (dead[to] || failed[to].contains(member(message.from.value))) continue;
            ASSERT_TRUE(machines[to].receive(message)) << describe(message);
            idle = 0;
        }
        // Every death becomes known to all, in the end.
        for (bool moves = true; moves;) {
            moves = false;
            for (std::uint32_t position = 0; position < processes; ++position) {
                if (dead[position]) continue;
                for (std::uint32_t other = 0; other < processes; ++other) {
                    if (dead[other] && failed[position].insert(member(other))) {
                        machines[position].peer_failed(Position{other});
                    }
                }
                while (const auto message = machines[position].next_send(Nanoseconds{0})) {
                    moves = true;
                    const std::uint32_t to = message->to.value;
                    ASSERT_TRUE(dead[to] || machines[to].receive(*message)) << describe(*message);
                }
            }
        }
        for (std::uint32_t position = 0; position < processes; ++position) {
            if (dead[position]) continue;
            ASSERT_TRUE(machines[position].colored()) << position;
            ASSERT_TRUE(machines[position].finished()) << position;
        }
        if (machines[0].attempt() > 1) ++restarted;
    }
    EXPECT_GT(restarted, 500U);
}

// §IV.B: 2 (2o + L) log2 P steps, 2 (P − 1) messages, when nobody fails. Here in hops: a message takes one.
TEST(Buntinas, TakesAsManyMessagesAsATreeWithAcknowledgements) {
    for (const std::uint32_t processes : {1U, 2U, 7U, 64U, 1000U}) {
        FailedSet nobody;
        std::vector<BuntinasBroadcast> machines;
        for (std::uint32_t position = 0; position < processes; ++position) {
            machines.emplace_back(processes, Position{position}, 0, nobody, position == 0);
        }
        std::uint64_t messages = 0;
        std::uint32_t depth = 0;
        std::vector<std::uint32_t> depths(processes, 0);
        for (bool moves = true; moves;) {
            moves = false;
            for (BuntinasBroadcast& machine : machines) {
                while (const auto message = machine.next_send(Nanoseconds{0})) {
                    moves = true;
                    ++messages;
                    EXPECT_TRUE(machines[message->to.value].receive(*message));
                    if (message->kind != BuntinasKind::tree) continue;
                    depths[message->to.value] = depths[message->from.value] + 1;
                    depth = std::max(depth, depths[message->to.value]);
                }
            }
        }
        EXPECT_EQ(messages, 2 * (processes - 1));
        EXPECT_LE(depth, static_cast<std::uint32_t>(std::bit_width(processes)));
        for (const BuntinasBroadcast& machine : machines) {
            EXPECT_TRUE(machine.colored());
            EXPECT_TRUE(machine.finished());
            EXPECT_EQ(machine.attempt(), 1U);
        }
    }
}

TEST(Buntinas, RefusesWhatCanNotBe) {
    FailedSet nobody;
    BuntinasBroadcast three(8, Position{3}, 0, nobody, false);
    const auto receive = [&three](BuntinasKind kind, std::uint32_t from, std::uint32_t attempt, std::uint32_t detail,
                                  std::uint32_t to = 3) {
        return three.receive({kind, Position{from}, Position{to}, attempt, detail});
    };
    EXPECT_FALSE(receive(BuntinasKind::tree, 3, 1, 4));
    EXPECT_FALSE(receive(BuntinasKind::tree, 8, 1, 4));
    EXPECT_FALSE(receive(BuntinasKind::tree, 0, 1, 4, 2));
    EXPECT_FALSE(receive(BuntinasKind::tree, 0, 0, 4));             // no attempt
    EXPECT_FALSE(receive(BuntinasKind::tree, 4, 1, 4));             // from below
    EXPECT_FALSE(receive(BuntinasKind::tree, 0, 1, 3));             // a range that ends before it
    EXPECT_FALSE(receive(BuntinasKind::tree, 0, 1, 9));             // and one that ends nowhere
    EXPECT_FALSE(receive(BuntinasKind::acknowledgement, 5, 1, 0));  // of nothing
    EXPECT_FALSE(receive(static_cast<BuntinasKind>(9), 0, 1, 4));
    EXPECT_FALSE(three.colored());
    EXPECT_TRUE(receive(BuntinasKind::tree, 0, 1, 8));
    EXPECT_FALSE(receive(BuntinasKind::verdict, 0, 0, 0));  // it has the payload
}

TEST(Buntinas, AStandInForTheRootGoesBeyondTheAttemptsThatOthersKnow) {
    FailedSet nobody;
    BuntinasBroadcast root(2, Position{0}, 0, nobody, true);
    BuntinasBroadcast other(2, Position{1}, 0, nobody, false);
    EXPECT_TRUE(other.receive({BuntinasKind::tree, Position{0}, Position{1}, 5, 2}));
    EXPECT_TRUE(other.next_send(Nanoseconds{0}));  // its acknowledgement is lost with the root's process
    EXPECT_TRUE(other.receive(*root.next_send(Nanoseconds{0})));
    const auto refusal = other.next_send(Nanoseconds{0});
    ASSERT_TRUE(refusal);
    EXPECT_EQ(*refusal, (BuntinasMessage{BuntinasKind::refusal, Position{1}, Position{0}, 1, 5}));
    EXPECT_TRUE(root.receive(*refusal));
    const auto again = root.next_send(Nanoseconds{0});
    ASSERT_TRUE(again);
    EXPECT_EQ(again->attempt, 6U);
    EXPECT_TRUE(other.receive(*again));
    EXPECT_TRUE(root.receive(*other.next_send(Nanoseconds{0})));
    EXPECT_FALSE(root.next_send(Nanoseconds{0}));
    EXPECT_TRUE(root.finished());
}

TEST(Buntinas, OriginLostTellsEverybody) {
    FailedSet nobody;
    BuntinasBroadcast stand_in(4, Position{0}, 0, nobody, false);
    EXPECT_FALSE(stand_in.next_send(Nanoseconds{0}));
    stand_in.origin_lost();
    std::uint32_t told = 0;
    while (const auto message = stand_in.next_send(Nanoseconds{0})) {
        EXPECT_EQ(message->kind, BuntinasKind::verdict);
        ++told;
    }
    EXPECT_EQ(told, 3U);
    EXPECT_TRUE(stand_in.finished());
    EXPECT_EQ(stand_in.result(), BroadcastResult::root_failed);
    BuntinasBroadcast two(4, Position{2}, 0, nobody, false);
    EXPECT_TRUE(two.receive({BuntinasKind::verdict, Position{0}, Position{2}, 0, 0}));
    EXPECT_FALSE(two.next_send(Nanoseconds{0}));
    EXPECT_EQ(two.result(), BroadcastResult::root_failed);
    EXPECT_TRUE(two.finished());
}

}  // namespace
}  // namespace coppice::protocol::testing
