// Revocation: its rules, and chance in larger groups.
#include <gtest/gtest.h>

#include <random>

#include "hosts.hpp"
#include "protocol/revocation/revocation.hpp"

namespace coppice::protocol {
namespace {

std::vector<RevocationMessage> all_sends(Revocation& machine) {
    std::vector<RevocationMessage> all;
    while (const auto next = machine.next_send())
        all.push_back(*next);
    return all;
}

TEST(Revocation, TheRevokerTellsTheLeadersAtPowersOfTwoAndWaitsForTheirAnswers) {
    const topology::Nodes nodes = hosts_of(std::vector<std::uint32_t>(16, 1));
    Revocation machine({.nodes = &nodes}, Rank(0));
    EXPECT_EQ(machine.word(), 0U);
    machine.revoke();
    const auto sends = all_sends(machine);
    std::vector<std::uint32_t> told;
    for (const RevocationMessage& send : sends)
        told.push_back(send.to.value);
    EXPECT_EQ(told, (std::vector<std::uint32_t>{1, 15, 2, 14, 4, 12, 8}));
    for (const RevocationMessage& send : sends) {
        machine.settle(true);
        EXPECT_FALSE(machine.may_leave(Nanoseconds(0), true, 0));
        EXPECT_EQ(machine.waits_for(), send.to);
        EXPECT_TRUE(
            machine.receive({.kind = RevocationKind::answer, .from = send.to, .to = Rank(0), .revoker = Rank(0)}));
    }
    machine.settle(false);
    EXPECT_FALSE(machine.may_leave(Nanoseconds(0), true, 0));
    machine.settle(true);
    EXPECT_FALSE(machine.may_leave(Nanoseconds(0), false, 0));
    EXPECT_TRUE(machine.may_leave(Nanoseconds(0), true, 0));
}

TEST(Revocation, WhatWasToGoToARankThatDiesMeanwhileIsNotSent) {
    const topology::Nodes nodes = hosts_of({1, 1, 1, 1});
    Revocation machine({.nodes = &nodes}, Rank(0));
    machine.revoke();
    machine.peer_failed(Rank(1));
    const auto sends = all_sends(machine);
    EXPECT_FALSE(sends.empty());
    for (const RevocationMessage& send : sends)
        EXPECT_NE(send.to, Rank(1));
}

// It may have left before it read the word of its host; the rank that wrote it may be dead.
TEST(Revocation, ARankThatLeadsSinceAnotherHasLeftTellsTheOutside) {
    const topology::Nodes nodes = hosts_of({3, 1});
    Revocation machine({.nodes = &nodes, .shares_memory = true}, Rank(1));
    machine.read(2 + 1);  // rank 2 has revoked
    EXPECT_TRUE(machine.revoked());
    EXPECT_TRUE(all_sends(machine).empty()) << "that is the leader's affair";
    machine.peer_left(Rank(0));
    const auto sends = all_sends(machine);
    ASSERT_EQ(sends.size(), 1U);
    EXPECT_EQ(sends[0].to, Rank(3));
    EXPECT_EQ(sends[0].kind, RevocationKind::news);
    EXPECT_EQ(sends[0].revoker, Rank(2));
}

TEST(Revocation, PatienceEndsTheWaitForAnswers) {
    const topology::Nodes nodes = hosts_of({1, 1});
    Revocation machine({.nodes = &nodes, .patience = Nanoseconds(100)}, Rank(0));
    machine.revoke();
    all_sends(machine);
    EXPECT_FALSE(machine.may_leave(Nanoseconds(1000), true, 0));
    EXPECT_FALSE(machine.may_leave(Nanoseconds(1100), true, 0));
    EXPECT_TRUE(machine.may_leave(Nanoseconds(1101), true, 0));
}

TEST(Revocation, AnAnswerToWhatNobodyHasSaidIsRefused) {
    const topology::Nodes nodes = hosts_of({1, 1});
    Revocation machine({.nodes = &nodes}, Rank(0));
    EXPECT_FALSE(machine.receive({.kind = RevocationKind::answer, .from = Rank(1), .to = Rank(0), .revoker = Rank(1)}));
    EXPECT_FALSE(machine.receive({.from = Rank(1), .to = Rank(0), .revoker = Rank(2)}));
    EXPECT_FALSE(machine.receive({.from = Rank(2), .to = Rank(0), .revoker = Rank(1)}));
    EXPECT_FALSE(machine.revoked());
}

// A group in which things happen by chance. Messages of the dead are lost as their deaths are learned of.
class World {
  public:
    World(const std::vector<std::uint32_t>& hosts, std::uint32_t seed)
        : nodes_(hosts_of(hosts)),
          pages_(ranks(), 0),
          fates_(ranks(), Fate::here),
          known_(ranks(), std::vector<bool>(ranks(), false)),
          random_(seed) {
        for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
            const bool shares = nodes_.members(nodes_.node_of(Rank(rank))).size() > 1;
            machines_.push_back(Revocation({.nodes = &nodes_, .shares_memory = shares}, Rank(rank)));
        }
    }
    std::uint32_t ranks() const { return nodes_.ranks(); }
    std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }
    bool is_here(std::uint32_t rank) const { return fates_[rank] == Fate::here; }
    bool somebody_knows() const {
        for (std::uint32_t rank = 0; rank < ranks(); ++rank)
            if (fates_[rank] == Fate::left || (is_here(rank) && machines_[rank].revoked())) return true;
        return false;
    }
    void revoke(std::uint32_t rank) {
        machines_[rank].revoke();
        round(rank);
    }
    void die(std::uint32_t rank) { fates_[rank] = Fate::dead; }
    bool read(std::uint32_t rank) {
        const bool knew = machines_[rank].revoked();
        for (const Rank peer : nodes_.members(nodes_.node_of(Rank(rank))))
            if (peer.value != rank) machines_[rank].read(pages_[peer.value]);
        round(rank);
        return machines_[rank].revoked() != knew;
    }
    bool learn(std::uint32_t rank, std::uint32_t other) {
        if (is_here(other) || known_[rank][other]) return false;
        known_[rank][other] = true;
        read(rank);
        if (fates_[other] == Fate::dead) {
            machines_[rank].peer_failed(Rank(other));
        } else {
            machines_[rank].peer_left(Rank(other));
        }
        round(rank);
        return true;
    }
    bool deliver() {
        if (under_way_.empty()) return false;
        const std::size_t at = random_() % under_way_.size();
        const RevocationMessage message = under_way_[at];
        under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(at));
        const std::uint32_t to = message.to.value;
        const std::uint32_t from = message.from.value;
        if (!is_here(to) || (known_[to][from] && fates_[from] == Fate::dead)) return true;
        EXPECT_TRUE(machines_[to].receive(message));
        round(to);
        return true;
    }
    bool leave(std::uint32_t rank) {
        if (!machines_[rank].may_leave(Nanoseconds(0), true, pages_[machines_[rank].leader()])) return false;
        fates_[rank] = Fate::left;
        return true;
    }
    // All that is certain to happen, until nothing is left of it.
    void run_to_rest() {
        for (bool moved = true; moved;) {
            moved = deliver();
            for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
                for (std::uint32_t other = 0; is_here(rank) && other < ranks(); ++other)
                    moved |= learn(rank, other);
                if (is_here(rank)) moved |= read(rank);
                if (is_here(rank)) moved |= leave(rank);
            }
        }
    }

  private:
    enum class Fate : std::uint8_t { here, left, dead };

    void round(std::uint32_t rank) {
        pages_[rank] = machines_[rank].word();
        for (const RevocationMessage& send : all_sends(machines_[rank]))
            under_way_.push_back(send);
        machines_[rank].settle(true);
        pages_[rank] = machines_[rank].word();
    }

    topology::Nodes nodes_;
    std::vector<Revocation> machines_;
    std::vector<std::uint64_t> pages_;
    std::vector<Fate> fates_;
    std::vector<std::vector<bool>> known_;
    std::vector<RevocationMessage> under_way_;
    std::mt19937 random_;
};

TEST(Revocation, AllThatLiveLearnOfItAndLeaveWhicheverDieAndWhen) {
    for (std::uint32_t seed = 1; seed <= 2000; ++seed) {
        std::mt19937 random(seed);
        std::vector<std::uint32_t> hosts;
        for (std::uint32_t host = 2 + static_cast<std::uint32_t>(random() % 10); host > 0; --host)
            hosts.push_back(seed % 2 == 0 ? 1 : 1 + static_cast<std::uint32_t>(random() % 3));
        World world(hosts, seed);
        std::uint32_t deaths = world.below(world.ranks());
        world.revoke(world.below(world.ranks()));
        for (std::uint32_t event = 0; event < 40 * world.ranks(); ++event) {
            const std::uint32_t rank = world.below(world.ranks());
            const std::uint32_t chance = world.below(32);
            if (!world.is_here(rank)) continue;
            if (chance == 0 && deaths > 0) {
                world.die(rank);
                --deaths;
            } else if (chance < 16) {
                world.deliver();
            } else if (chance < 24) {
                world.learn(rank, world.below(world.ranks()));
            } else if (chance < 28) {
                world.read(rank);
            } else {
                world.leave(rank);
            }
        }
        world.run_to_rest();
        for (std::uint32_t rank = 0; rank < world.ranks() && world.somebody_knows(); ++rank)
            ASSERT_FALSE(world.is_here(rank)) << "seed " << seed << ", rank " << rank;
    }
}

}  // namespace
}  // namespace coppice::protocol
