// With a bound of silence, under chance: messages take their time, ranks come and go, some fall silent for good.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "hosts.hpp"
#include "protocol/detector/detector.hpp"

namespace coppice::protocol {
namespace {

constexpr std::uint64_t kPeriod = 100;
constexpr std::uint64_t kBound = 1000;
constexpr std::uint64_t kLatency = 200;  // a message takes less
constexpr std::uint64_t kPause = 500;    // a rank stays away from the library for less

struct UnderWay {
    std::uint64_t due;
    DetectorMessage message;
};

struct Member {
    Detector detector;
    std::uint64_t next_look = 0;
    std::uint64_t silent_from = UINT64_MAX;  // stopped or dead
    std::uint64_t back_at = UINT64_MAX;
    std::uint64_t fenced_at = UINT64_MAX;
};

class World {
  public:
    World(const std::vector<std::uint32_t>& hosts, std::uint64_t seed) : nodes_(hosts_of(hosts)), chance_(seed) {
        const DetectorPlan plan{.nodes = &nodes_, .period = Nanoseconds(kPeriod), .bound = Nanoseconds(kBound)};
        for (std::uint32_t rank = 0; rank < nodes_.ranks(); ++rank)
            members_.push_back({.detector = Detector(plan, Rank(rank))});
    }
    std::uint64_t below(std::uint64_t limit) { return chance_() % limit; }
    std::uint32_t ranks() const { return nodes_.ranks(); }
    Member& member(std::uint32_t rank) { return members_[rank]; }

    void run_until(std::uint64_t end) {
        for (; now_ < end; ++now_) {
            for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
                Member& member = members_[rank];
                const bool away = now_ >= member.silent_from && now_ < member.back_at;
                if (!away && now_ >= member.next_look) look(rank);
            }
        }
    }
    // Of a rank that was away all the time.
    bool anybody_suspects(std::uint32_t rank) {
        return std::ranges::any_of(members_, [&](Member& other) {
            return other.silent_from == UINT64_MAX && other.detector.failed().contains(rank);
        });
    }
    bool everybody_suspects(std::uint32_t rank) {
        return std::ranges::all_of(members_, [&](Member& other) {
            return other.silent_from != UINT64_MAX || other.detector.failed().contains(rank);
        });
    }

  private:
    // As an engine does: everything that has arrived first, then the clock.
    void look(std::uint32_t rank) {
        Member& member = members_[rank];
        for (std::size_t at = 0; at < under_way_.size();) {
            if (under_way_[at].due > now_ || under_way_[at].message.to.value != rank) {
                ++at;
                continue;
            }
            const DetectorMessage message = under_way_[at].message;
            under_way_[at] = under_way_.back();
            under_way_.pop_back();
            if (!member.detector.failed().contains(message.from.value)) member.detector.receive(message);
        }
        if (member.detector.fenced()) member.fenced_at = std::min(member.fenced_at, now_);
        read_logs(rank);
        while (const auto message = member.detector.next_send(Nanoseconds(now_))) {
            if (is_message(message->kind)) under_way_.push_back({now_ + 1 + below(kLatency - 1), *message});
        }
        while (const auto failed = member.detector.next_failed())
            under_way_.push_back(
                {now_ + 1, {DetectorKind::notice, Rank(rank), *failed, *failed}});  // its transport tells it
        member.next_look = now_ + 1 + below(below(20) == 0 ? kPause - 1 : 20);
    }
    void read_logs(std::uint32_t rank) {
        for (const Rank local_peer : nodes_.members(nodes_.node_of(Rank(rank)))) {
            const FailedSet& log = members_[local_peer.value].detector.failed();
            for (const FailedSet::Interval& interval : log.intervals()) {
                for (std::uint32_t dead = interval.first; dead <= interval.last; ++dead)
                    members_[rank].detector.peer_failed(Rank(dead));
            }
        }
    }

    topology::Nodes nodes_;
    std::mt19937_64 chance_;
    std::vector<Member> members_;
    std::vector<UnderWay> under_way_;
    std::uint64_t now_ = 0;
};

const std::vector<std::vector<std::uint32_t>>& layouts() {
    static const std::vector<std::vector<std::uint32_t>> all{
        {1, 1, 1}, {5}, {2, 2, 2}, {3, 1, 2}, {1, 1, 1, 1, 1, 1, 1, 1}};
    return all;
}

TEST(DetectorClock, NoRankThatBeatsInTimeIsSuspected) {
    static_assert(kLatency + kPause + kPeriod < kBound);
    for (const auto& hosts : layouts()) {
        for (std::uint64_t seed = 0; seed < 40; ++seed) {
            World world(hosts, seed);
            world.run_until(20'000);
            for (std::uint32_t rank = 0; rank < world.ranks(); ++rank)
                ASSERT_FALSE(world.anybody_suspects(rank)) << "seed " << seed << ", rank " << rank;
        }
    }
}

TEST(DetectorClock, ARankThatFallsSilentIsFoundByAllAndNoOtherIsSuspected) {
    for (const auto& hosts : layouts()) {
        for (std::uint64_t seed = 0; seed < 40; ++seed) {
            World world(hosts, seed);
            world.run_until(3'000);
            std::uint32_t silent = 0;
            for (std::uint32_t count = 1 + static_cast<std::uint32_t>(world.below(world.ranks() - 1)); count > 0;
                 --count) {
                const auto rank = static_cast<std::uint32_t>(world.below(world.ranks()));
                world.member(rank).silent_from = std::min(world.member(rank).silent_from, 3'000 + world.below(5'000));
                silent |= 1U << rank;
            }
            world.run_until(60'000);
            for (std::uint32_t rank = 0; rank < world.ranks(); ++rank) {
                if ((silent >> rank & 1) != 0) {
                    ASSERT_TRUE(world.everybody_suspects(rank)) << "seed " << seed << ", rank " << rank;
                } else {
                    ASSERT_FALSE(world.anybody_suspects(rank)) << "seed " << seed << ", rank " << rank;
                }
            }
        }
    }
}

TEST(DetectorClock, ARankThatComesBackTooLateIsToldSoAndTakesNobodyWithIt) {
    for (const auto& hosts : layouts()) {
        for (std::uint64_t seed = 0; seed < 40; ++seed) {
            World world(hosts, seed);
            world.run_until(3'000);
            const auto rank = static_cast<std::uint32_t>(world.below(world.ranks()));
            world.member(rank).silent_from = 3'000;
            world.member(rank).back_at = 10'000 + world.below(5'000);
            world.run_until(30'000);
            EXPECT_TRUE(world.everybody_suspects(rank)) << "seed " << seed;
            EXPECT_LE(world.member(rank).fenced_at, world.member(rank).back_at + kPause) << "seed " << seed;
            for (std::uint32_t other = 0; other < world.ranks(); ++other) {
                if (other == rank) continue;
                ASSERT_FALSE(world.anybody_suspects(other)) << "seed " << seed << ", rank " << other;
            }
        }
    }
}

}  // namespace
}  // namespace coppice::protocol
