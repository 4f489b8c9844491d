// What can be asked of coppice-perf, as its command line gives it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace perf {

// Rounds of logp with --for and without --rounds, at most: the ranks tell them each other.
inline constexpr std::uint64_t kMostRoundsByTime = 1000;

// How a program of ours ends.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // the run failed, or something was lost, corrupt or duplicate
inline constexpr int kExitUsage = 2;   // an option or setting is wrong; it is named
inline constexpr int kExitCutOff = 3;  // this rank lives, and the others go on without it

// Operations measured with --for and without -n, at most.
inline constexpr std::uint64_t kMostByTime = 1'000'000;

// Of every group, whatever is measured. Empty or 0: the environment's value, else the library's default.
struct GroupSettings {
    std::string tree;
    std::string algorithm;
    std::string correction;
    std::string hierarchy;
    std::string agreement_tree;
    std::uint32_t window = 0;
    double timeout_s = 60;
    bool without_thread = false;  // no progress while this rank is outside of the library
};

struct BroadcastSettings {
    std::uint64_t bytes = 8;
    bool all_sizes = false;
    std::uint64_t iterations = 1000;
    std::uint64_t warmup = 100;
    double for_s = 0;        // measure no longer than that, per size; 0: all iterations
    std::string root = "0";  // a rank, or "rotate"
    std::string metric = "both";
    std::vector<std::uint32_t> dead;
    std::string json_file;
    bool verify = false;
    bool view = false;
    bool allocated = false;
    bool rewrites = false;
    bool back_to_back = false;
    bool staggered = false;
    bool count = false;
};

// Of put_lat and send_lat: a transport's own ping-pong between two ranks.
struct LatencySettings {
    std::string transport = "verbs";
    std::uint64_t bytes = 8;
    std::uint64_t iterations = 1000;
    std::uint64_t warmup = 100;
    double for_s = 0;  // as above
    bool one_sided = false;
};

struct LogpSettings {
    std::uint64_t iterations = 2000;  // messages of the row of each round
    std::uint64_t rounds = 9;
    double for_s = 0;  // rounds for no longer than that, per level
    std::string json_file;
};

struct AgreeSettings {
    std::uint64_t bytes = 8;
    std::uint64_t iterations = 1000;
    std::uint64_t warmup = 100;
    double for_s = 0;
    std::uint64_t resident = 0;  // bytes of private memory that each rank touches
    std::vector<std::uint32_t> victims;
    std::uint64_t at = 0;  // the measured agreement before which the victims die
    bool silent = false;   // or fall silent
    std::string json_file;
    bool back_to_back = false;
};

struct ShrinkSettings {
    std::uint64_t iterations = 100;
    std::uint64_t warmup = 10;
    double for_s = 0;
    std::vector<std::uint32_t> victims;
    std::uint64_t at = 0;  // the measured shrink before which the victims die
    std::string json_file;
};

// Of stabilize and join.
struct ViewSettings {
    std::uint64_t iterations = 100;  // rounds of agreement at least
    double for_s = 0;                // or as many of them as fit into this time
};

}  // namespace perf
