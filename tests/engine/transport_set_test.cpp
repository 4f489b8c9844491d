// When a rank that one group takes for dead is cut off from all groups that share the transports.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "engine/transport_set.hpp"

namespace coppice::engine {
namespace {

constexpr std::uint32_t kRanks = 4;
constexpr Rank kPeer{2};

// Notes which ranks it is to cut off.
class Wire final : public transport::Transport {
  public:
    std::vector<Rank> fenced;

    const transport::Capabilities& capabilities() const override { return capabilities_; }
    transport::Counters counters() const override { return {}; }
    std::vector<std::byte> address() const override { return {}; }
    Result<void> add_peer(Rank, std::span<const std::byte>) override { return {}; }
    void watch(Rank) override {}
    transport::SendStatus send(Rank, std::span<const std::byte>, std::span<const std::byte>, std::uint32_t*) override {
        return transport::SendStatus::sent;
    }
    transport::SendStatus write(Rank, std::span<const std::byte>, std::span<const std::byte>, std::uint32_t*) override {
        return transport::SendStatus::sent;
    }
    std::size_t poll(transport::Receiver&) override { return 0; }
    void release(transport::Buffer) override {}
    void fence(Rank peer) override { fenced.push_back(peer); }
    void forget(Rank) override {}
    bool leave() override { return true; }

  private:
    transport::Capabilities capabilities_{"wire", false, 0, transport::kMaxPayload};
};

class SomeGroup final : public SetUser {
  public:
    std::set<Rank> dead;

    bool is_done_with(Rank there) const override { return dead.contains(there); }
    bool message(Rank, std::span<const std::byte>, std::span<const std::byte>, transport::Buffer) override {
        return false;
    }
    void peer_failed(Rank peer, transport::FailureCause) override { dead.insert(peer); }
    void peer_left(Rank) override {}
    void fenced(Rank) override {}
    void alive(Rank) override {}
};

struct Set {
    TransportSet groups{kRanks};
    Wire* wire = nullptr;
    SomeGroup first;
    SomeGroup second;

    Set() {
        auto made = std::make_unique<Wire>();
        wire = made.get();
        const std::uint8_t index = groups.add(std::move(made));
        for (std::uint32_t peer = 0; peer < kRanks; ++peer)
            groups.route(Rank(peer), index);
        groups.attach(1, first);
    }
    void suspect(SomeGroup& group) {
        group.dead.insert(kPeer);
        groups.fence(kPeer);
    }
    bool is_cut_off() const { return wire->fenced == std::vector<Rank>{kPeer}; }
};

TEST(TransportSet, CutsOffARankThatItsOnlyGroupTakesForDead) {
    Set set;
    set.suspect(set.first);
    EXPECT_TRUE(set.is_cut_off());
}

TEST(TransportSet, LetsARankLiveThatIsWellInAnotherGroup) {
    Set set;
    set.groups.attach(2, set.second);
    set.suspect(set.first);
    EXPECT_TRUE(set.wire->fenced.empty());
    set.suspect(set.second);
    EXPECT_TRUE(set.is_cut_off());
}

TEST(TransportSet, LetsARankLiveThatIsWellInAGroupThatThisRankLeaves) {
    Set set;
    set.groups.attach(2, set.second);
    set.suspect(set.first);
    set.groups.detach(set.second);
    set.groups.expect_group();
    set.groups.expect_no_more();
    EXPECT_TRUE(set.wire->fenced.empty());
}

TEST(TransportSet, CutsARankOffThoughAGroupThatWasDoneWithItIsLeftBefore) {
    Set set;
    set.groups.attach(2, set.second);
    set.suspect(set.first);
    SomeGroup third;
    set.groups.attach(3, third);
    set.suspect(third);
    set.groups.detach(third);
    EXPECT_TRUE(set.wire->fenced.empty());
    set.suspect(set.second);
    EXPECT_TRUE(set.is_cut_off());
}

TEST(TransportSet, WaitsForTheGroupThatIsBeingMade) {
    Set set;
    set.groups.expect_group();
    set.suspect(set.first);
    EXPECT_TRUE(set.wire->fenced.empty());
    set.groups.attach(2, set.second);
    EXPECT_TRUE(set.wire->fenced.empty());  // it may be a member there
    set.suspect(set.second);
    EXPECT_TRUE(set.is_cut_off());
}

TEST(TransportSet, CutsARankOffWhenTheGroupThatIsMadeIsWithoutIt) {
    Set set;
    set.groups.expect_group();
    set.suspect(set.first);
    set.second.dead.insert(kPeer);
    set.groups.attach(2, set.second);
    EXPECT_TRUE(set.is_cut_off());
}

TEST(TransportSet, CutsARankOffWhenNoGroupIsMadeAfterAll) {
    Set set;
    set.groups.expect_group();
    set.suspect(set.first);
    set.groups.expect_no_more();
    EXPECT_TRUE(set.is_cut_off());
}

}  // namespace
}  // namespace coppice::engine
