// Which pages there are on this host, and what the kernel says of their owners.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "status/reader.hpp"

namespace coppice::show {

// A page and its owner.
struct Seen {
    status::Snapshot page;
    pid_t pid = 0;            // the owner's, as this process knows it; of one that has ended: as it was there
    bool ended = false;       // another process has kept the page
    status::Process process;  // of one that lives
    std::vector<pid_t> ancestors;
    std::string bytes{};     // of the page, where these are wanted
    bool elsewhere = false;  // on another host, whose numbers of processes these are
};

// A page that can't be shown.
struct Problem {
    pid_t pid = 0;  // 0: of a host
    status::ReadError error{};
    std::string host{};  // another one
};

struct Everything {
    std::vector<Seen> pages;        // by job, then by rank in the first group, then by pid
    std::vector<Problem> problems;  // of pages
    std::uint32_t hidden = 0;       // processes of other users
    std::uint64_t now_ns = 0;       // CLOCK_MONOTONIC
};
enum class Bytes : std::uint8_t { dropped, kept };
Everything gather(Bytes bytes = Bytes::dropped);
void sort_pages(Everything& all);

// "running", "stopped", "held by a debugger (pid 12)" …
std::string state_of(const Seen& seen);
inline bool is_held(const Seen& seen) {
    return !seen.ended && (seen.process.state == 'T' || seen.process.state == 't');
}

}  // namespace coppice::show
