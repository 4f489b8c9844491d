// What a rank and the launcher say to each other over the launcher's Unix socket.
//
// Every frame is a FrameHeader and `length` bytes. Both ends are on one machine, so numbers are in its own
// byte order; a peer of another word size or byte order is told so and refused. The header's layout never
// changes between versions, so that two versions can at least name each other.
//
//   rank → launcher
//     handshake   HandshakeBody; of some ranks only, their list: u32 each, in the order of the group's own numbers
//     contribute  u32 round, blob
//     query       u32 round
//     bye         nothing
//   and on another connection, where processes may be started late (lobby.hpp):
//     enter       EnterBody
//     card        u32 length, what newcomers have to know of the group; how to reach this one
//     wired       u32 serial
//     unwired     u32 serial, text
//     formed      twice u32 count, PersonBody of each (without serial): newcomers that the next group has, members that it has no more; then
//                 what these newcomers have to know of that group
//
//   launcher → rank
//     welcome     u32 generation, u32 whether processes may be started late
//     refused     text; then the connection ends
//     gathered    u32 round, per rank u32 length and bytes (0: dead)
//     left        u32 round, u32 rank: that rank lives, and will never contribute
//     missing     u32 round, per missing rank MissingEntry
//   and there:
//     invitation  PersonBody of the receiver, what newcomers have to know of the group
//     introduce   PersonBody, how to reach it
//     gone        u32 serial
//     ready       PersonBody
//     formed      what the receiver has to know of the group that has it
//
// At a member's door (door/door.hpp) they are the same but for the greeting: `enter` has more behind it, and the door may answer with
//     welcome_in  PersonBody of the member whose door it is, its ledger (door/ledger.hpp)
//     elsewhere   DoorAddress: ask there
//     again       nothing: not now
//
// Generation: the n-th connection of one rank meets the n-th connections of the others, so groups may be made
// one after the other or nested, as long as all ranks make them in the same order; and so for each list of some ranks. Within an
// exchange, ranks are numbered as in the list; `left` and `missing` have the launcher's numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace coppice::bootstrap {

inline constexpr std::uint32_t kFrameMagic = 0x72706f43;  // "Copr"
inline constexpr std::uint16_t kProtocolVersion = 2;
inline constexpr std::uint32_t kByteOrderProbe = 0x01020304;
inline constexpr std::size_t kMaxBlob = 64UL * 1024;
inline constexpr std::uint32_t kMaxLauncherRanks = 16384;
inline constexpr std::size_t kMaxRefusal = 1024;
// Of how often a number is used again.
inline constexpr std::uint32_t kIncarnationBits = 17;
inline constexpr std::uint32_t kMostIncarnation = (1U << kIncarnationBits) - 1;

enum class FrameKind : std::uint16_t {
    handshake = 1,
    welcome = 2,
    refused = 3,
    contribute = 4,
    gathered = 5,
    left = 6,
    query = 7,
    missing = 8,
    bye = 9,
    enter = 10,
    card = 11,
    wired = 12,
    unwired = 13,
    formed = 14,
    invitation = 15,
    introduce = 16,
    gone = 17,
    ready = 18,
    // At doors alone (door/door.hpp):
    welcome_in = 19,
    elsewhere = 20,
    again = 21,
};

struct FrameHeader {
    std::uint32_t magic = kFrameMagic;
    std::uint16_t version = kProtocolVersion;
    FrameKind kind = FrameKind::bye;
    std::uint32_t length = 0;
};
static_assert(sizeof(FrameHeader) == 12);

struct HandshakeBody {
    std::uint32_t rank = 0;
    std::uint32_t size = 0;
    std::uint32_t word_size = sizeof(void*);
    std::uint32_t byte_order = kByteOrderProbe;
};
static_assert(sizeof(HandshakeBody) == 16);

struct WelcomeBody {
    std::uint32_t generation = 0;
    std::uint32_t admits = 0;  // processes may be started late, and join the first group
};
static_assert(sizeof(WelcomeBody) == 8);

struct EnterBody {
    std::uint32_t number = 0;
    std::uint32_t is_newcomer = 0;
    std::uint32_t word_size = sizeof(void*);
    std::uint32_t byte_order = kByteOrderProbe;
};
static_assert(sizeof(EnterBody) == 16);

// A process: the launcher's number of it, how many had that before, and a number that no other process of the job gets.
struct PersonBody {
    std::uint32_t number = 0;
    std::uint32_t incarnation = 0;
    std::uint32_t serial = 0;
};
static_assert(sizeof(PersonBody) == 12);

// Why a rank has not contributed.
enum class MissingState : std::uint32_t {
    never_called = 0,  // its process lives (or has not been seen) and never connected for this exchange
    connected = 1,     // it is connected and has not contributed to this round
};

struct MissingEntry {
    std::uint32_t rank = 0;
    MissingState state = MissingState::never_called;
};

// The largest body of `formed`, of a group that has numbers below `capacity`: it names each process twice at most, each member, and the
// switches above the hosts of those that were members and of those that are (Birth in engine/newcomers/cards.hpp).
inline constexpr std::size_t kMaxFormedPart = 2 * 12 + 28 + 2UL * (4 + 255);
constexpr std::size_t max_formed_bytes(std::uint32_t capacity) {
    return kMaxBlob + std::size_t{capacity} * kMaxFormedPart;
}

// The largest body that a rank accepts from the launcher of a group of `size`.
constexpr std::uint64_t max_gathered_bytes(std::uint32_t size) {
    return 4 + std::uint64_t{size} * (4 + kMaxBlob);
}

template <class Value>
void append(std::vector<std::byte>& bytes, const Value& value) {
    const std::size_t at = bytes.size();
    bytes.resize(at + sizeof(Value));
    std::memcpy(bytes.data() + at, &value, sizeof(Value));
}

// Not to be inlined: GCC 12 takes the length for a huge one then, and warns.
[[gnu::noinline]] inline void append_bytes(std::vector<std::byte>& bytes, std::span<const std::byte> more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
}

// Takes a value from the front of `bytes`; false when there are too few.
template <class Value>
[[nodiscard]] bool take(std::span<const std::byte>& bytes, Value& value) {
    if (bytes.size() < sizeof(Value)) return false;
    std::memcpy(&value, bytes.data(), sizeof(Value));
    bytes = bytes.subspan(sizeof(Value));
    return true;
}

// A whole frame.
inline std::vector<std::byte> make_frame(FrameKind kind, std::span<const std::byte> body) {
    std::vector<std::byte> frame;
    frame.reserve(sizeof(FrameHeader) + body.size());
    append(frame, FrameHeader{kFrameMagic, kProtocolVersion, kind, static_cast<std::uint32_t>(body.size())});
    append_bytes(frame, body);
    return frame;
}

inline std::vector<std::byte> make_frame(FrameKind kind, std::string_view text) {
    return make_frame(kind, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace coppice::bootstrap
