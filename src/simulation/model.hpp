// The LogP model (PPoPP'19 §2.2), the faults of one run, and what comes out of it.
//
// Time is counted in integer steps from the root's first send. A send that starts at t keeps its sender's port until t
// + g (g = o unless given larger) and arrives at t + o + L; there it keeps the receiver's port for o, first come, first
// served, and takes effect when that is over. At equal times: receptions start, then receptions end and take effect,
// then sends are decided, in the order of positions: what is received at t influences the send at t. Of messages that
// arrive at one position at one time those of the dissemination are served before those of the ring; otherwise the
// lower sender first.
//
// A message to a dead position costs its sender the same and vanishes on arrival. A position that dies at t takes no
// part in step t any more; what it has sent by then is under way and arrives.
//
// Positions and members are the same here: the root is member 0.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/words.hpp"

namespace coppice::simulation {

using Step = std::uint32_t;

// A run that is not over by then is given up: the sum of two times must not wrap.
inline constexpr Step kLastStep = 1U << 31;

struct LogP {
    Step latency = 2;     // L
    Step overhead = 1;    // o, at least 1
    Step gap = 0;         // g; what is below o means o
    bool overlap = true;  // sending and receiving at once; otherwise each position has one port, and receives first
    // Ring messages are written into the receiver's memory: they cost it nothing and take effect on arrival.
    bool one_sided_ring = false;

    Step interval() const { return gap > overhead ? gap : overhead; }
    bool operator==(const LogP&) const = default;
};

// Why no simulation can run on this clock; nothing if one can.
std::optional<std::string> reason_against(const LogP& model);

struct Death {
    Position position;
    Step at = 0;

    bool operator==(const Death&) const = default;
};

struct Faults {
    std::vector<Position> dead{};  // from before the start; nobody knows of them. Not the root
    std::vector<Death> dying{};    // in the midst of it
    // How long after a death every machine is told (peer_failed), all at once; those dead from before the start count
    // as having died at 0. Nothing: nobody is ever told, as in the papers.
    std::optional<Step> notice_after{};
};

// Whether position 0 is among them.
bool root_dies(const Faults& faults);

// Machines have at most so many kinds of messages.
inline constexpr std::size_t kMaxKinds = 32;

// A run of positions that the dissemination did not reach, dead ones included, on the ring.
struct Gaps {
    std::uint32_t largest = 0;                                       // g_max
    std::vector<std::pair<std::uint32_t, std::uint32_t>> histogram;  // length, how many; ascending

    bool operator==(const Gaps&) const = default;
};

struct Outcome {
    Step coloring_latency = 0;    // until the last of the live positions that were reached had the payload
    Step quiescence_latency = 0;  // until the last port was idle and the last message to the dead had arrived
    std::uint64_t messages = 0;   // sent, those to the dead included
    std::array<std::uint64_t, kMaxKinds> by_kind{};
    // On a network: those that stayed below their leaf switch, below their pod's, and the others (network.hpp).
    std::array<std::uint64_t, 3> by_level{};
    std::uint64_t refused = 0;        // received, but nothing that its receiver could expect
    std::uint32_t failed = 0;         // dead at the end
    std::uint32_t reached = 0;        // live and colored
    std::vector<Position> unreached;  // live and not colored, ascending
    std::uint32_t most_sent = 0;      // by one position
    std::uint32_t most_received = 0;  // by one live position
    Gaps gaps;

    bool operator==(const Outcome&) const = default;
};

// One line of a conversation. A send occupies its sender from `time` on for o; a reception takes effect at `time` and
// has occupied its receiver for o before.
struct Event {
    enum class What : std::uint8_t {
        send,
        receive,
        vanish,  // arrived at a dead position
        ignore,  // received from a position known to have failed, or refused by the machine
        color,   // `to` has the payload from now on, by the message before
        die,     // `to`
    };
    Step time = 0;
    What what = What::send;
    Position from;
    Position to;
    std::uint8_t kind = 0;
    std::string_view kind_name;  // of a literal
    bool payload = false;

    bool operator==(const Event&) const = default;
};

// "      12  send     3 -> 19  tree"
std::string to_string(const Event& event);

}  // namespace coppice::simulation
