// What coppice-sim can do: one file for each, and a row in the table of main.cpp. check/ has those that look for broken promises,
// reproduce/ those that run the papers' experiments again.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace coppice::sim {

inline constexpr int kFine = 0;
inline constexpr int kFailed = 1;      // something did not hold, or could not be written
inline constexpr int kBadOptions = 2;  // said what is wrong with them

struct Subcommand {
    const char* group;    // what it is for
    const char* words;    // "broadcast", "fuzz broadcast"
    const char* summary;  // one line
    // argv[0] is the subcommand's last word. Returns the exit code.
    int (*run)(int argc, char** argv);
};

int run_broadcast(int argc, char** argv);
int run_fuzz_broadcast(int argc, char** argv);
int run_advise(int argc, char** argv);
int run_models(int argc, char** argv);
int run_reproduce(int argc, char** argv);
int run_timeline(int argc, char** argv);
int run_explore_agreement(int argc, char** argv);
int run_fuzz_agreement(int argc, char** argv);
int run_explore_broadcast(int argc, char** argv);
int run_explore_stability(int argc, char** argv);
int run_explore_revocation(int argc, char** argv);
int run_explore_leaving(int argc, char** argv);
int run_explore_membership(int argc, char** argv);
int run_fuzz_membership(int argc, char** argv);
int run_promise(int argc, char** argv);
int run_placement(int argc, char** argv);
int run_host(int argc, char** argv);
int run_agree(int argc, char** argv);
int run_membership(int argc, char** argv);
int run_world(int argc, char** argv);

// Parses; an exit code if there is nothing more to do (--help, or a complaint that was printed).
std::optional<int> parse(CLI::App& app, int argc, char** argv);

// Prints "coppice-sim: SENTENCE" and where help is. Returns kBadOptions.
int refuse(const std::string& sentence);

}  // namespace coppice::sim
