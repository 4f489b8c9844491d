// How to add a protocol: all that a new one takes to be simulated, checked and fuzzed (docs/simulator.md). A star
// without any correction: the root sends to everybody, one after the other.
#include <gtest/gtest.h>

#include "protocol/machine.hpp"
#include "simulation/family_simulator.hpp"
#include "simulation/faults.hpp"

// BEGIN (docs/simulator.md shows what follows)
namespace coppice::example {

// 1. What it sends. The names are for reports; a payload is checked to come from a member that has it. Messages that
//    travel on a ring
// would say so with is_correction(kind).
enum class StarKind : std::uint8_t { payload };
constexpr std::string_view to_string(StarKind kind) {
    return kind == StarKind::payload ? "payload" : "unknown";
}
constexpr bool carries_payload(StarKind /*kind*/) {
    return true;
}

struct StarMessage {
    StarKind kind = StarKind::payload;
    Position from;
    Position to;
};

// 2. The machine of one member: facts in, sends pulled out one at a time (protocol/machine.hpp).
class Star {
  public:
    using Message = StarMessage;

    Star(std::uint32_t ranks, Position self, const protocol::FailedSet& failed)
        : failed_(&failed), ranks_(ranks), self_(self), colored_(self.value == 0) {}

    // False for what cannot be.
    bool receive(const StarMessage& message) {
        if (message.from.value != 0 || self_.value == 0) return false;
        colored_ = true;
        return true;
    }
    void peer_failed(Position /*position*/) {}  // it will be asked of failed_

    std::optional<StarMessage> next_send(Nanoseconds /*now*/) {
        while (self_.value == 0 && next_ < ranks_) {
            const Position to{next_++};
            if (!failed_->contains(to.value)) return StarMessage{StarKind::payload, self_, to};
        }
        return std::nullopt;
    }
    Nanoseconds next_timer() const { return kNever; }

    bool colored() const { return colored_; }
    bool finished() const { return colored_ && (self_.value != 0 || next_ >= ranks_); }

  private:
    const protocol::FailedSet* failed_;
    std::uint32_t ranks_;
    std::uint32_t next_ = 1;
    Position self_;
    bool colored_;
};

static_assert(protocol::Machine<Star>);

// 3. How its machines are made, and what it promises under which faults.
struct StarFamily {
    using Machine = Star;

    std::uint32_t ranks = 2;

    std::uint32_t processes() const { return ranks; }
    Star make(Position position, const protocol::FailedSet& failed, std::uint64_t /*seed*/) const {
        return Star(ranks, position, failed);
    }
    std::optional<simulation::Step> correction_start() const { return std::nullopt; }
    simulation::Promise promise(const simulation::Faults& faults) const {
        simulation::Promise promise{.refuses_nothing = true};
        if (root_dies(faults)) return promise;
        promise.covers = simulation::kAnyGap;  // nobody but the dead stays out
        promise.finishes = true;
        return promise;
    }
};

}  // namespace coppice::example
// END

namespace coppice::simulation {
namespace {

using example::StarFamily;

TEST(NewProtocol, RunsOnTheClockAndInOrdersByChanceAndIsChecked) {
    FamilySimulator<StarFamily> simulator(StarFamily{64}, LogP{}, RunOptions{});
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        const Faults faults = FaultPlan{.dead_rate = 0.1, .dying_count = 2, .dying_until = 40}.draw(64, seed);
        const auto outcome = simulator.run(faults, seed);
        ASSERT_TRUE(outcome) << to_string(outcome.error(), 20);
        EXPECT_TRUE(outcome->unreached.empty());
        EXPECT_EQ(outcome->messages, 63U);
        ASSERT_TRUE(simulator.run_shuffled(faults, seed));
    }
    // The last of 63 sends starts at 62 and takes effect 2o + L later.
    EXPECT_EQ(simulator.run({}, 1)->coloring_latency, 62U + 4U);
    EXPECT_EQ(simulator.kinds(), std::vector<std::string_view>{"payload"});
}

}  // namespace
}  // namespace coppice::simulation
