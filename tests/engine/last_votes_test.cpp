// Whose last vote is read: of the ranks of this host that are dead for certain, and of those that are known to have left.
#include "engine/collectives/shrink/last_votes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "counting_witness.hpp"

namespace coppice::engine {
namespace {

constexpr std::size_t kRanks = 4;  // 0, 1 and 2 of this host; 3 of another one

// What the ranks show each other, in memory of this process.
struct Host {
    std::array<std::vector<std::uint64_t>, kRanks> memory;
    std::array<bool, kRanks> alive{true, true, true, true};
    std::array<bool, kRanks> departed{};
    transport::Regions regions;

    explicit Host(const transport::Region& region) : regions(std::span(&region, 1)) {
        for (auto& mine : memory)
            mine.resize(regions.bytes() / sizeof(std::uint64_t));
    }
};

class OneRanksBoard : public transport::Board {
  public:
    OneRanksBoard(Host& host, std::uint32_t self) : host_(host), self_(self) {}

    transport::Regions::Place find_region(std::string_view name) const override { return host_.regions.find(name); }
    std::byte* own_region(transport::Regions::Place place) override { return at(Rank(self_), place); }
    const std::byte* region(Rank member, transport::Regions::Place place) const override { return at(member, place); }
    bool alive(Rank member) const override { return host_.alive[member.value]; }
    bool departed(Rank member) const override { return host_.departed[member.value]; }

    // Nothing of what follows has to do with votes.
    std::span<const Rank> members() const override { return {}; }
    std::uint32_t lines() const override { return 0; }
    std::byte* line_memory(Sequence /*sequence*/) override { return nullptr; }
    void will_publish(Sequence /*sequence*/) override {}
    void publish(Sequence /*s*/, std::uint32_t /*length*/, std::uint32_t /*root*/, std::uint32_t /*detail*/) override {}
    void publish_copy(Sequence /*s*/, std::span<const std::byte> /*payload*/, std::uint32_t /*root*/,
                      std::uint32_t /*detail*/) override {}
    bool look(Rank /*member*/, Sequence /*s*/, transport::PublishedLine& /*line*/) const override { return false; }
    bool copy_published(Rank /*member*/, Sequence /*s*/, std::span<std::byte> /*to*/,
                        std::size_t* /*length*/) const override {
        return false;
    }
    void set_consumed(Sequence /*sequence*/) override {}
    Sequence consumed(Rank /*member*/) const override { return Sequence(0); }
    void set_stable(Sequence /*sequence*/) override {}
    Sequence stable(Rank /*member*/) const override { return Sequence(0); }
    void log_failure(Rank /*failed*/) override {}
    std::uint32_t log_length(Rank /*member*/) const override { return 0; }
    Rank logged(Rank /*member*/, std::uint32_t /*index*/) const override { return Rank(0); }
    bool fenced() const override { return false; }
    void depart() override {}

  private:
    std::byte* at(Rank member, transport::Regions::Place place) const {
        return reinterpret_cast<std::byte*>(host_.memory[member.value].data()) + place.at;
    }

    Host& host_;
    std::uint32_t self_;
};

struct LastVotesTest : ::testing::Test {
    LastVotesTest()
        : host(LastVotes::host_region(true)),
          hosts{"a", "a", "a", "b"},
          members(Rank(0), topology::Nodes::by_host(std::span<const std::string>(hosts))),
          board(host, 0),
          votes(&board, members, members.ranks()) {
        vote.epoch = 3;
        vote.followed = 2;
    }
    // As rank `rank` does it.
    void write(std::uint32_t rank) {
        OneRanksBoard its(host, rank);
        LastVotes(&its, members, members.ranks()).write(vote);
    }

    Host host;
    std::array<std::string, kRanks> hosts;
    Members members;
    OneRanksBoard board;
    LastVotes votes;
    protocol::LastVote vote;
};

TEST_F(LastVotesTest, OfOneThatTheKernelCallsDeadItIsWhatItWroteLast) {
    write(1);
    host.alive[1] = false;
    const auto read = votes.of_gone(Rank(1), false);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(*read, vote);
}

// It may vote again after the others have counted it with the dead.
TEST_F(LastVotesTest, OfOneThatLivesThereIsNone) {
    write(1);
    EXPECT_FALSE(votes.of_gone(Rank(1), false).has_value());
}

// A process that ends after it has left in peace has not died: its farewell says what it was.
TEST_F(LastVotesTest, OfOneThatHasLeftThereIsNoneUntilItsFarewellIsHeard) {
    write(1);
    host.alive[1] = false;
    host.departed[1] = true;
    EXPECT_FALSE(votes.of_gone(Rank(1), false).has_value());
    EXPECT_EQ(votes.of_gone(Rank(1), true), vote);
}

TEST_F(LastVotesTest, OfOneThatHasLeftItIsReadWhileItsProcessLives) {
    write(1);
    host.departed[1] = true;
    EXPECT_EQ(votes.of_gone(Rank(1), true), vote);
}

// Nobody here can see whether it is dead.
TEST_F(LastVotesTest, OfOneOnAnotherHostThereIsNone) {
    host.alive[3] = false;
    EXPECT_FALSE(votes.of_gone(Rank(3), false).has_value());
}

// It would be with each message of a renewal, about each rank of the host.
TEST_F(LastVotesTest, AWitnessIsNotAskedAboutOneOfThisHostThatLives) {
    const CountingWitness witness(1);
    const LastVotes asks(&board, members, members.ranks(), Testimony{&witness, 7});
    EXPECT_FALSE(asks.of_gone(Rank(1), false).has_value());
    EXPECT_EQ(witness.asked, 0);
    EXPECT_EQ(asks.of_gone(Rank(3), false), protocol::LastVote());
    EXPECT_EQ(witness.asked, 1);
}

TEST_F(LastVotesTest, OneThatHasWrittenNothingHasPromisedNothing) {
    host.alive[2] = false;
    EXPECT_EQ(votes.of_gone(Rank(2), false), protocol::LastVote());
}

TEST_F(LastVotesTest, WhereNoneAreKeptNoneAreRead) {
    Host without(LastVotes::host_region(false));
    without.alive[1] = false;
    OneRanksBoard empty(without, 0);
    EXPECT_FALSE(LastVotes(&empty, members, members.ranks()).of_gone(Rank(1), false).has_value());
}

}  // namespace
}  // namespace coppice::engine
