// What every part of a rank of the chaos soak needs: numbers that follow from the seed, a log that survives SIGKILL,
// and the way to end when something is wrong.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "coppice/coppice.h"

namespace chaos {

using Clock = std::chrono::steady_clock;

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
    hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93U;
    return hash ^ (hash >> 29);
}

// Contents that follow from a seed.
inline std::uint64_t word_of(std::uint64_t seed, std::uint64_t i) {
    return (seed + i) * 0x9e3779b97f4a7c15U ^ (i << 7);
}

// Numbers of one place in the program; the same wherever the same place is reached.
class Draw {
  public:
    explicit Draw(std::uint64_t seed) : state_(seed) {}
    std::uint64_t operator()() { return state_ = mix(state_, 0x51ed270b7a6d8c39U); }
    std::uint64_t below(std::uint64_t bound) { return (*this)() % bound; }
    bool one_in(std::uint64_t chances) { return below(chances) == 0; }

  private:
    std::uint64_t state_;
};

struct Options {
    std::string directory;  // of logs and exchanges
    std::uint64_t seed = 1;
    std::uint64_t steps = 20;     // of a life's main thread
    std::uint64_t lives = 1;      // contexts, one after the other
    std::uint64_t threads = 0;    // beside the main one, each with groups of its own
    double patience = 60;         // seconds after which a call counts as hung
    bool multiple = false;        // COPPICE_THREAD_MULTIPLE without further threads
    bool polls = false;           // nobody but this program moves the library: no progress thread
    bool poller = false;          // a thread of this program does that
    bool no_create = false;       // no groups but the first one and what is shrunk
    bool may_be_fenced = false;   // silence is evidence in this job, or a cable is cut for long
    bool may_not_create = false;  // a cable may be cut while a transport is made that needs it
    bool may_miss = false;        // the correction promises nothing after a death
    // "LIFE:STEP:MICROSECONDS": this rank dies so long after it has begun that step. Where the job grows "POINT:COUNT:MICROSECONDS": so long
    // after that point, "create", "step" or "renew", for that time.
    std::string die;

    // Jobs with large payloads, and what the library goes by there.
    std::uint64_t large = 0;                                 // bytes of the largest; 0: all go whole
    std::uint64_t eager = 8192;                              // COPPICE_EAGER
    std::uint64_t payload_window = std::uint64_t{64} << 20;  // COPPICE_PAYLOAD_WINDOW

    // Jobs that grow (chaos_grower.hpp).
    bool grows = false;
    std::uint32_t most = 0;    // members; 0: as many as come
    std::uint32_t expect = 0;  // members at the end; 0: as many as are there
    std::uint64_t leave = 0;   // the step in which this rank says that it will leave; 0: in none
};

// Ends this process: something that coppice.h promises did not hold. `kind` is lost, corrupt, hung or leaked.
[[noreturn]] void wrong(const char* kind, const std::string& what);
// The same where the job allows it; `line` says what.
[[noreturn]] void leave(const std::string& line);

// One line of this rank's log, by one system call. Any thread.
void open_log(const std::string& path);
void log_line(const std::string& line);

// SIGKILL in so many microseconds, wherever this process is by then.
void die_in(std::uint64_t microseconds);

// As a program that computes; one that has to move the library by itself does so.
void stay_away(const Options& options, Draw& own, coppice_context_t* context);

// On this machine's clock.
inline std::uint64_t microseconds_now() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch()).count());
}

// "what: status: last error".
std::string describe(const std::string& what, coppice_status_t status);

}  // namespace chaos
