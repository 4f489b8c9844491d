// The last votes of ranks on other hosts, where the launcher is a witness of deaths.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <vector>

#include "bootstrap/witness_keeper.hpp"
#include "counting_witness.hpp"
#include "engine/collectives/shrink/last_votes.hpp"
#include "engine/collectives/shrink/succession.hpp"

namespace coppice::engine {
namespace {

constexpr std::uint64_t kGroup = 0xfeedbeef00000000;

// Ranks 0 and 1, each on a host of its own; this process is rank 1 to the launcher, or rank 0.
struct WitnessVotes : ::testing::Test {
    std::unique_ptr<bootstrap::WitnessKeeper> keeper = bootstrap::WitnessKeeper::create(2);
    std::array<std::unique_ptr<bootstrap::Witness>, 2> witnesses;
    std::array<std::unique_ptr<Members>, 2> members;
    std::array<std::unique_ptr<LastVotes>, 2> votes;
    protocol::LastVote vote;

    WitnessVotes() {
        for (std::uint32_t rank = 0; rank < 2; ++rank) {
            keeper->arrived(rank, ::getpid());
            witnesses[rank] = bootstrap::LauncherWitness::open(keeper->path(), rank);
            members[rank] = std::make_unique<Members>(Rank(rank), topology::Nodes::flat(2));
            votes[rank] =
                std::make_unique<LastVotes>(nullptr, *members[rank], 2, Testimony{witnesses[rank].get(), kGroup});
        }
        vote.epoch = 3;
        vote.followed = 2;
    }
    // As the launcher does it when the process has ended.
    void end(std::uint32_t rank) {
        const int file = ::open(keeper->path().c_str(), O_RDWR | O_CLOEXEC);
        const auto memory = bootstrap::witness::Memory::map(file);
        ::close(file);
        for (auto& entry : memory->number(rank).entries)
            entry.ended.set(entry.owner.get());
    }
};

TEST_F(WitnessVotes, AreReadWhenTheLauncherHasSpoken) {
    votes[0]->write(vote);
    EXPECT_FALSE(votes[1]->of_gone(Rank(0), false).has_value());
    end(0);
    EXPECT_EQ(votes[1]->of_gone(Rank(0), false), vote);
    EXPECT_TRUE(votes[1]->has_witness());
}

TEST_F(WitnessVotes, AreAskedForNoMoreOnceTheWitnessHasSpoken) {
    const CountingWitness witness(2);
    const LastVotes asks(nullptr, *members[1], 2, Testimony{&witness, kGroup});
    EXPECT_FALSE(asks.of_gone(Rank(0), false).has_value());
    for (int time = 0; time < 3; ++time)
        EXPECT_EQ(asks.of_gone(Rank(0), false), protocol::LastVote());
    EXPECT_EQ(witness.asked, 2);
}

TEST_F(WitnessVotes, AreNoneWhereTheRankHasLeftTheGroup) {
    votes[0]->write(vote);
    votes[0].reset();
    end(0);
    EXPECT_FALSE(votes[1]->of_gone(Rank(0), false).has_value());
}

// Of groups that are made of each other.
struct VotesOfProcesses : WitnessVotes {
    std::array<std::unique_ptr<bootstrap::Presence>, 2> presences;
    const Lineage lineage;

    VotesOfProcesses() {
        for (std::uint32_t rank = 0; rank < 2; ++rank) {
            const std::shared_ptr<const bootstrap::Witness> witness(std::shared_ptr<void>(), witnesses[rank].get());
            presences[rank] =
                std::make_unique<bootstrap::Presence>(witness, 7, bootstrap::Presence::Who{.number = rank});
        }
    }
    std::unique_ptr<LastVotes> votes_in(std::uint32_t epoch, std::uint32_t rank) {
        return std::make_unique<LastVotes>(nullptr, *members[rank], 2,
                                           Testimony{.witness = witnesses[rank].get(),
                                                     .group = kGroup + epoch,
                                                     .presence = presences[rank].get(),
                                                     .lineage = &lineage,
                                                     .epoch = epoch});
    }
    // What rank 1 reads.
    std::optional<protocol::LastVote> read(std::uint32_t epoch) { return votes_in(epoch, 1)->of_gone(Rank(0), false); }
};

// The others have made the next group with it, and it ends before it has: it has voted for nothing there.
TEST_F(VotesOfProcesses, AreNoneInAGroupThatTheRankHasNeverHad) {
    const auto kept = votes_in(2, 0);
    EXPECT_TRUE(kept->write(vote));
    EXPECT_FALSE(read(3).has_value());  // it lives
    end(0);
    EXPECT_EQ(read(3), protocol::LastVote());
    EXPECT_EQ(read(2), vote);
}

TEST_F(VotesOfProcesses, AreUnknownOnceTheyAreForgotten) {
    votes_in(1, 0).reset();
    auto forgotten = votes_in(2, 0);
    EXPECT_TRUE(forgotten->write(vote));
    forgotten.reset();
    end(0);
    EXPECT_FALSE(read(1).has_value());
    EXPECT_FALSE(read(2).has_value());
    EXPECT_EQ(read(3), protocol::LastVote());
}

TEST_F(VotesOfProcesses, AreUnknownWhereThereWasNoPlaceForThem) {
    while (witnesses[0]->take({.group = 1, .rank = 0}))
        continue;
    const auto without_place = votes_in(2, 0);
    EXPECT_TRUE(without_place->write(vote));
    end(0);
    EXPECT_FALSE(read(2).has_value());
    EXPECT_EQ(read(3), protocol::LastVote());
}

// Else one that dies in between has said something that its last vote does not know of.
class Reader final : public transport::Transport {
  public:
    explicit Reader(std::function<void()> sent) : sent_(std::move(sent)) {}
    const transport::Capabilities& capabilities() const override { return capabilities_; }
    transport::Counters counters() const override { return {}; }
    std::vector<std::byte> address() const override { return {}; }
    Result<void> add_peer(Seat, std::span<const std::byte>) override { return {}; }
    void watch(Seat) override {}
    transport::SendStatus send(Seat, std::span<const std::byte>, std::span<const std::byte>, std::uint32_t*) override {
        sent_();
        return transport::SendStatus::sent;
    }
    transport::SendStatus write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                                std::uint32_t* in_flight) override {
        return send(to, header, payload, in_flight);
    }
    std::size_t poll(transport::Receiver&) override { return 0; }
    void release(transport::Buffer) override {}
    void fence(Seat) override {}
    void forget(Seat) override {}
    bool leave() override { return true; }

  private:
    std::function<void()> sent_;
    transport::Capabilities capabilities_{.name = "reader", .inline_size = transport::kMaxPayload};
};

TEST_F(WitnessVotes, AreWrittenBeforeAnythingIsSent) {
    const auto transport_set = std::make_shared<TransportSet>(2);
    int messages = 0;
    const std::uint8_t index = transport_set->add(std::make_unique<Reader>([&] {
        ++messages;
        end(1);  // it is killed here
        const auto read = votes[0]->of_gone(Rank(1), false);
        ASSERT_TRUE(read.has_value());
        EXPECT_TRUE(read->consent.has_value());
    }));
    transport_set->route(Seat(0), index);
    const Router router(transport_set, 2);
    Succession succession(*members[1], router, {0xfeedbeef, Epoch(0)}, protocol::Quorum::certain, votes[1].get());
    succession.begin({});
    succession.progress();
    EXPECT_GE(messages, 1);
}

// Suspected first, and certain when the launcher has spoken: the quorum is there, by the same way as a local peer's word (look_for_dead).
TEST_F(WitnessVotes, MakeADeathCertainThatWasSuspected) {
    const auto transport_set = std::make_shared<TransportSet>(2);
    transport_set->route(Seat(0), transport_set->add(std::make_unique<Reader>([] {})));
    const Router router(transport_set, 2);
    Succession succession(*members[1], router, {0xfeedbeef, Epoch(0)}, protocol::Quorum::certain, votes[1].get());
    succession.begin({});
    succession.peer_failed(Rank(0));
    EXPECT_FALSE(succession.progress().has_value());
    EXPECT_TRUE(succession.lacks_quorum());
    end(0);
    succession.look_for_dead();
    EXPECT_FALSE(succession.lacks_quorum());
    EXPECT_TRUE(succession.progress().has_value());
}

}  // namespace
}  // namespace coppice::engine
