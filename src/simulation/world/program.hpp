// What the applications of a world do: the same steps at each rank, in the same order, drawn from a seed. Which of a step's liberties
// a rank takes (how long it stays away, whether it waits at once) follows from seed, step and rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coppice/coppice.h"
#include "simulation/world/fate.hpp"

namespace coppice::world {

// Bytes of a broadcast, at most: some go in chunks.
inline constexpr std::uint32_t kMostBytes = 48 * 1024;

struct Step {
    enum class Kind : std::uint8_t {
        broadcast,
        agree,
        settle,       // waits for all that is under way
        away,         // some ranks do something else for a while
        learn,        // waits to be told of all deaths so far; its own caller looks, and nothing else is said
        acknowledge,  // all failures that are known
        revoke,       // by one rank
        shrink,
        renew,  // a new group of all by exchange
        drop,   // one rank destroys the groups that it has kept; not drawn
    };
    enum class Mode : std::uint8_t { blocking, request, view };
    Kind kind = Kind::broadcast;
    Mode mode = Mode::blocking;
    std::uint32_t number = 0;  // which step it was when it was drawn; stays when others are left out
    std::uint32_t who = 0;     // root, or revoker: modulo the group's size
    std::uint32_t bytes = 8;
    coppice_operation_t operation = COPPICE_AND;
    bool is_barrier = false;  // agree: on nothing
    std::uint64_t timeout_ns = COPPICE_NO_TIMEOUT;
    std::uint64_t away_ns = 0;
    bool keep_old = false;  // shrink: the old group is destroyed at the end
    bool leaves = false;    // shrink: one rank leaves with it, and sits out until there is a group of all again
    bool admits = false;    // shrink: a renewal, which takes in whoever waits
    bool renews = false;    // agree: asks whether a renewal is pending, and makes it where it is
};

struct Program {
    std::uint64_t seed = 0;
    std::vector<Step> steps;
    std::uint32_t window = 8;
    std::uint32_t agreement_window = 8;
    std::uint32_t chunk = 8192;  // of payloads that go in chunks
    std::uint32_t ahead = 64;
    std::string tree = "auto";
    std::string correction = "optimized:2";
    std::string hierarchy = "host";
    std::string transport = "shm,tcp";
    std::string addresses = "all";
    std::string quorum = "any";
    bool has_thread = true;
    bool calls_back_on_thread = false;
    std::uint64_t detection_bound_ns = 0;
};

struct Drawn {
    Fate fate;
    Program program;
};

struct Bounds {
    std::uint32_t fewest_ranks = 2;
    std::uint32_t most_ranks = 16;
    std::uint32_t hosts = 0;  // 0: drawn
    bool kills = true;
    bool silence = false;  // is evidence in half of the worlds
    bool chunks = true;    // some broadcasts go in chunks in half of the worlds
    bool joins = true;  // processes come later in a quarter of the worlds, and ranks that have died are started again
    bool cuts = true;   // the network between hosts is cut in a quarter of the worlds
};

Drawn draw(std::uint64_t seed, const Bounds& bounds);

// For people: a line for each step, and one for what happens to whom.
std::string describe(const Step& step);
std::string describe(const Drawn& drawn);
std::string describe(const Cut& cut, const Fate& fate);

}  // namespace coppice::world
