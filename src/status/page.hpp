// A status page: what a process shows of its groups and of what they wait for, to anybody of its user who looks.
//
// The page is a memory file without a name (memfd): /proc/<pid>/fd leads to it, and it is gone with the last process that
// has it open, however they ended. Its owner alone writes it (the file is sealed against every other writer), and a
// reader copies it with plain reads: the owner takes no part, so it may hang or be stopped.
//
//   Header | Report, place 0 | Report, place 1
//
// Reports are numbered from 1; number n lies in place n mod 2, and Header::reports is the last that is whole. An owner that is
// stopped in the middle of a report leaves the one before it readable. Each call that begins an operation is counted in
// Header::entered at once, by a plain store; reports are written only when something waits or has changed.
//
// The first 64 bytes look the same in all versions: by them a reader of another one says whose page it can't read.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "base/shared_words.hpp"

namespace coppice::status {

inline constexpr const char* kFileName = "coppice-status";
inline constexpr std::array<char, 8> kMagic{'C', 'o', 'p', 'p', 'S', 't', 'a', 't'};
inline constexpr std::uint32_t kVersion = 3;
// What is beyond these is counted and left out.
inline constexpr std::uint32_t kMostGroups = 32;
inline constexpr std::uint32_t kMostOperations = 32;
inline constexpr std::uint32_t kMostWaits = 12;
inline constexpr std::uint32_t kMostFailed = 32;

// Text that ends with a zero, cut off where there is no room.
template <std::size_t size>
using Text = std::array<char, size>;
template <std::size_t size>
void set_text(Text<size>& text, std::string_view from) {
    text.fill('\0');
    from.copy(text.data(), size - 1);
}

// What an operation is. Numbers are for good: new ones come behind.
enum class Kind : std::uint8_t { none, broadcast, agreement, barrier, renewal, leaving, creation };
inline constexpr std::uint32_t kKinds = 7;

// Why it waits for a rank.
enum class Why : std::uint8_t {
    none,
    payload,       // the rank is to send the payload of broadcast `number`, as the root or as the parent in the tree
    leader,        // the same, because it speaks for this host
    room,          // the window is full: the rank has not consumed broadcast `number`
    transport,     // it takes no messages just now
    contribution,  // to agreement `number`
    recovery,      // it is to agree with others on the dead, in agreement `number`
    vote,          // on which ranks go on
    departure,     // it does not leave the group yet
    chunks,        // it is to send parts of a large payload
    members,       // which rank it is can't be known: too few are there
};
inline constexpr std::uint32_t kWhys = 11;

struct Wait {
    std::uint32_t rank = 0;
    Why why = Why::none;
    std::array<std::uint8_t, 3> unused{};
    std::uint64_t number = 0;
};

// The ranks that an operation waits for, as far as there is room.
struct Waits {
    std::uint32_t count = 0;    // of `ranks`
    std::uint32_t omitted = 0;  // more than that
    std::array<Wait, kMostWaits> ranks{};

    void add(std::uint32_t rank, Why why, std::uint64_t number = 0) {
        if (count == ranks.size()) {
            ++omitted;
            return;
        }
        ranks[count++] = {.rank = rank, .why = why, .unused = {}, .number = number};
    }
    bool is_full() const { return count == ranks.size(); }
};

inline constexpr std::uint32_t kNoGroup = UINT32_MAX;

struct Operation {
    std::uint32_t group = kNoGroup;  // index in Report::groups
    Kind kind = Kind::none;
    std::uint8_t blocking = 0;  // a caller is inside the call
    std::uint8_t begun = 0;     // 0: it waits for room to begin
    std::uint8_t unused = 0;
    std::uint32_t root = 0;  // of a broadcast
    std::uint32_t unused_too = 0;
    std::uint64_t number = 0;    // which one in its group
    std::uint64_t since_ns = 0;  // seen waiting since; the owner's CLOCK_MONOTONIC
    Waits waits;
};

struct Counters {
    std::uint64_t sends = 0;
    std::uint64_t writes = 0;
    std::uint64_t received = 0;
    std::uint64_t garbage = 0;
    std::uint64_t refused = 0;
    std::uint64_t connections = 0;
    // Of large payloads (coppice_group_counts_t).
    std::uint64_t chunks = 0;
    std::uint64_t chunks_damaged = 0;
    std::uint64_t unregistered = 0;
};

enum class Standing : std::uint8_t { member, revoked, fenced, without_quorum };

struct Group {
    std::uint32_t token = 0;  // with the epoch: which group, the same at all its ranks
    std::uint32_t epoch = 0;
    std::uint32_t rank = 0;
    std::uint32_t size = 0;
    std::uint32_t hosts = 0;
    std::uint32_t host = 0;  // this rank's, counted from 0
    std::uint32_t leader = 0;
    std::uint32_t window = 0;
    std::uint32_t leaves = 0;
    std::uint32_t slot = 0;    // of Header::entered
    std::uint32_t failed = 0;  // how many, the lowest of them in `failed_ranks`
    Standing standing = Standing::member;
    std::uint8_t left = 0;  // its caller has left it, and it only answers
    std::array<std::uint8_t, 2> unused{};
    std::array<std::uint32_t, kMostFailed> failed_ranks{};
    std::uint64_t consumed = 0;  // broadcasts that its caller has had
    std::uint64_t stable = 0;    // that all live ranks have had
    Counters counters;
    Text<96> transports{};
};

struct Report {
    std::uint64_t number = 0;
    std::uint64_t written_ns = 0;  // CLOCK_MONOTONIC
    std::uint32_t groups_count = 0;
    std::uint32_t groups_omitted = 0;
    std::uint32_t operations_count = 0;
    std::uint32_t operations_omitted = 0;
    std::array<Group, kMostGroups> groups{};
    std::array<Operation, kMostOperations> operations{};
};

// How many operations a rank has begun in a group: written by each call, so always true.
struct Entered {
    shared::Relaxed<std::uint64_t> broadcasts{};
    shared::Relaxed<std::uint64_t> agreements{};  // barriers, too
};

enum class State : std::uint32_t { none, open, closed };  // closed: the context was destroyed

struct Header {
    // As in all versions.
    std::array<char, 8> magic = kMagic;
    std::uint32_t version = kVersion;
    std::uint32_t bytes = 0;  // of the page
    std::int32_t pid = 0;     // as its own process-id namespace numbers it
    std::uint32_t unused = 0;
    std::uint64_t start_time = 0;  // of the process, in the kernel's ticks
    Text<32> library{};            // its version

    Text<128> job{};
    Text<64> host{};
    Text<32> program{};
    std::uint64_t made_ns = 0;
    shared::Published<std::uint64_t> reports;
    shared::Published<std::uint32_t> state;
    std::uint32_t unused_too = 0;
    std::array<Entered, kMostGroups> entered{};
    // On which hosts its groups' ranks are: as these call themselves, a space behind each. It only grows; what has no room is left out.
    Text<8192> hosts{};
};
static_assert(offsetof(Header, job) == 64);

struct Page {
    Header header;
    std::array<Report, 2> places;
};
static_assert(std::is_trivially_copyable_v<Report>);
static_assert(std::is_trivially_destructible_v<Page>);

}  // namespace coppice::status
