// Finding and reading the status pages of other processes (page.hpp): system calls alone, whatever their owners do.
//
// Nothing that a page says is trusted: what comes from here has counts within bounds, texts that end, and enumerations that
// exist.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "status/page.hpp"
#include "tl/expected.hpp"

namespace coppice::status {

struct EnteredCounts {
    std::uint64_t broadcasts = 0;
    std::uint64_t agreements = 0;
};

// A page at one moment.
struct Snapshot {
    pid_t pid = 0;  // as its owner's own process-id namespace numbers it
    std::uint64_t start_time = 0;
    std::string library, job, host, program;
    std::uint64_t made_ns = 0;
    State state = State::none;
    std::vector<std::string> hosts;  // of its groups' ranks
    std::array<EnteredCounts, kMostGroups> entered{};
    Report report;
};

enum class Trouble : std::uint8_t {
    gone,       // there is no such page or process (any more)
    forbidden,  // another user's
    garbage,    // not a page, or a damaged one
    newer,      // of a later version of the library than this one
    older,
    unreached,  // a host that can't be asked
    restless,   // it was written again and again while it was read
};
struct ReadError {
    Trouble trouble = Trouble::gone;
    std::string message{};
};

tl::expected<Snapshot, ReadError> read_page(int descriptor);
// Its bytes, of which read_page() makes the same as of the page. Of one that read_page() has read.
tl::expected<std::string, ReadError> copy_page(int descriptor);

// Whether its context was destroyed in peace. One word is read of it.
bool is_page_closed(int descriptor);

// A descriptor of a process that is a page: of its own context, or of one that it keeps for the post mortem.
struct PagePlace {
    pid_t holder = 0;
    int number = -1;  // among the holder's descriptors
    bool operator==(const PagePlace&) const = default;
};
tl::expected<std::vector<PagePlace>, ReadError> pages_of(pid_t holder);
// Whether that descriptor is one, by its name.
bool is_page(const PagePlace& place);
// Read-only; the caller closes it.
tl::expected<int, ReadError> open_page(const PagePlace& place);

// What the kernel says of a process.
struct Process {
    char state = '?';  // R, S, D, T, t, Z …
    pid_t parent = 0;
    pid_t tracer = 0;  // a debugger, 0: none
    uid_t user = 0;
    std::uint64_t start_time = 0;
    std::vector<pid_t> numbers;  // its pid in each of its process-id namespaces, from the caller's on
};
std::optional<Process> look_at(pid_t pid);
// Its own page, and not one that it keeps for another process.
bool is_owner(const Snapshot& page, const Process& holder);
// Every process that there is here, ascending.
std::vector<pid_t> all_processes();

}  // namespace coppice::status
