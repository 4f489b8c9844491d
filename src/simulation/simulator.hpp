// Any protocol on a LogP clock, behind one front for tools: runs by faults and seed, checked. The virtual call is per
// run.
//
// A family says how one protocol's machines are made and what they promise; family_simulator.hpp turns it into a
// Simulator.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "simulation/model.hpp"

namespace coppice::simulation {

// A run in which something did not hold. The same faults and seed bring it about again.
struct Violation {
    std::string what;
    Step at = 0;
    std::uint64_t seed = 0;
    Faults faults;
    std::vector<Event> conversation;  // up to there, the last kConversation events of it
};
inline constexpr std::size_t kConversation = 2000;

// Sentence, seed, faults and conversation, for people; the last `most` events.
std::string to_string(const Violation& violation, std::size_t most = kConversation);

struct RunOptions {
    bool check = true;
    // A run that is not over at this step is given up, and reported as a violation.
    Step give_up_at = kLastStep;
};

// One per thread; keeps its memory between runs.
class Simulator {
  public:
    virtual ~Simulator() = default;

    // `seed` is for machines that draw lots; the faults are drawn already.
    virtual tl::expected<Outcome, Violation> run(const Faults& faults, std::uint64_t seed) = 0;
    // In an order drawn by the seed, without a clock (shuffle.hpp): only for what is promised, not for what it costs.
    virtual tl::expected<Outcome, Violation> run_shuffled(const Faults& faults, std::uint64_t seed) = 0;
    // run(), written down: the last `most` events, in order of time.
    virtual std::vector<Event> conversation(const Faults& faults, std::uint64_t seed, std::size_t most) = 0;

    virtual std::uint32_t processes() const = 0;
    // By kind, as Outcome::by_kind; shorter than kMaxKinds.
    virtual std::vector<std::string_view> kinds() const = 0;
    // When the correction starts, if it does so everywhere at one time: L_SCC is the quiescence latency less this.
    virtual std::optional<Step> correction_start() const = 0;
};

}  // namespace coppice::simulation
