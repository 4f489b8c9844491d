// What applications called and were told: all that the promises of coppice.h are checked against (promises.hpp).
//
// Nothing here knows of engines, wires or simulators. Ranks are those of the job; a group has a number, the same at all
// its ranks. Times are on one clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "coppice/coppice.h"

namespace coppice::promises {

inline constexpr std::uint64_t kNever = UINT64_MAX;
inline constexpr std::uint32_t kNone = UINT32_MAX;

enum class Action : std::uint8_t {
    create,
    broadcast,
    agree,
    shrink,
    revoke,
    destroy,
    learn,     // asks which ranks have failed until all that were dead when it began are among them, and were told of
    callback,  // is told of a failure
    view,      // finds that one has changed
    leak,      // ends: it destroys its context
};

struct Call {
    Action action = Action::create;
    std::uint32_t rank = 0;
    std::uint32_t group = kNone;
    std::uint32_t step = 0;  // of the program: calls of one step belong together
    std::uint64_t began_ns = 0;
    std::uint64_t ended_ns = kNever;
    std::uint64_t kept_ns = 0;  // how long its rank was kept from running meanwhile
    std::uint64_t timeout_ns = COPPICE_NO_TIMEOUT;
    coppice_status_t status = COPPICE_IN_PROGRESS;
    std::string sentence;  // of an error

    std::uint32_t root = kNone;  // broadcasts
    std::uint64_t payload = 0;   // a hash of what a root gave, or of what was delivered
    std::uint64_t bytes = 0;     // its size
    std::uint64_t value = 0;     // agreements: contributed
    std::uint64_t result = 0;    // and what was agreed
    coppice_operation_t operation = COPPICE_AND;
    std::vector<std::uint32_t> failed;        // agreed upon; learn: known in the end; a callback: the one; ascending
    std::vector<std::uint32_t> acknowledged;  // by this rank, before an agreement
    bool left = false;                        // shrink: this rank wanted to leave
    std::uint32_t made = kNone;               // create, shrink: the group that came of it
    std::uint32_t epoch = 0;                  // of that
    int pending = -1;                         // agreements: whether a renewal is worth while; −1: was not asked
    std::vector<std::uint32_t> members;       // of that, as this rank sees them; learn: the dead that it asks for
};

// For people: which rank called what, where, and how it ended.
std::string describe(const Call& call);

struct Group {
    std::uint32_t parent = kNone;           // from which it was shrunk
    std::vector<std::uint32_t> started_by;  // members when it was made by exchange
};

// For a while, or for good, nothing passed between ranks of the two sides, for so long that they may have noticed.
struct Cut {
    std::vector<bool> side;  // by rank
    std::uint64_t began_ns = 0;
    std::uint64_t ended_ns = kNever;
};

// Which ranks may go on where others can't be reached.
enum class Quorum : std::uint8_t { certain, majority, any };

struct History {
    std::uint32_t ranks = 0;
    std::uint32_t first_ranks = 0;              // of these; the others come later
    std::vector<std::uint32_t> seat_of;         // by rank
    std::vector<std::uint32_t> incarnation_of;  // how many had that seat before
    Quorum quorum = Quorum::any;
    std::vector<std::uint32_t> host_of;   // by rank
    bool local_peers_see_deaths = false;  // by themselves
    std::vector<Cut> cuts;
    std::vector<Call> calls;               // in the order of their starts
    std::vector<std::uint64_t> died_ns;    // by rank, kNever: it lives
    std::vector<std::uint64_t> killed_ns;  // likewise, of the processes: one that is taken for dead has not ended
    std::uint64_t ended_ns = 0;            // of all
    // By rank: it was silent for longer than the bound, and was told so, or others that it failed. It counts as dead, if it is or not.
    std::vector<bool> taken_for_dead;
    bool over = false;               // every rank that lives has come to its end
    std::uint64_t slack_ns = 0;      // what a call may take longer than its deadline says
    std::uint64_t accounted_ns = 0;  // what a call may take: absences, links, deaths to be noticed

    bool lives(std::uint32_t rank) const { return died_ns[rank] == kNever; }
    // Whether the two may take each other for dead by then, because the network between them was cut.
    bool apart(std::uint32_t a, std::uint32_t b, std::uint64_t time_ns = kNever) const {
        return std::ranges::any_of(
            cuts, [&](const Cut& cut) { return cut.side[a] != cut.side[b] && cut.began_ns <= time_ns; });
    }
    // Whether `observer` may hold the other one to be dead by then. When a cut is over a rank that had no connection across it hears from both
    // sides that those of the other one are dead.
    bool may_seem_dead(std::uint32_t observer, std::uint32_t rank, std::uint64_t time_ns) const {
        return apart(observer, rank, time_ns) ||
               std::ranges::any_of(cuts, [&](const Cut& cut) { return cut.ended_ns <= time_ns; });
    }
};

inline bool contains(const std::vector<std::uint32_t>& ranks, std::uint32_t rank) {
    return std::ranges::find(ranks, rank) != ranks.end();
}

}  // namespace coppice::promises
