// What the UCX transport itself puts on the wire: the prefix in front of every message, and a rank's address.
//
// Nothing that is read here is trusted: both parsers look only at bytes that are there, and say no to everything that
// a peer of this version would not have written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/words.hpp"
#include "transport/ip_addresses.hpp"
#include "transport/transport.hpp"

namespace coppice::transport::ucx {

inline constexpr std::uint8_t kWireVersion = 5;
inline constexpr std::size_t kMaxAddress = 2048;

// The active message that carries everything of ours; all others below kMessageIds are a stranger's.
inline constexpr unsigned kMessageId = 42;
inline constexpr unsigned kMessageIds = 64;

enum class Kind : std::uint8_t {
    data = 1,         // the engine's; everything below is ours
    handshake = 2,    // "I watch you": makes the watcher known to the one watched, so that it can say goodbye
    goodbye = 3,      // the sender leaves in peace; it has written so often into the receiver's slots (32 bits)
    goodbye_ack = 4,  // and may now close: nothing of ours is under way to it
    ping = 5,         // says nothing: it is sent for the device to notice when nobody is there any more
    fenced = 6,       // the sender takes the receiver for dead, and ends the connection
    slots = 7,        // the receiver may write into memory of the sender (Offer), whose key is the payload
    credit = 8,       // so many of the receiver's writes there were consumed (32 bits)
    written = 9,      // the engine's, which was to be written and was sent, for want of slots at that time
    key_wanted = 10,  // of the receiver's memory with that number (32 bits), to read it
    key = 11,         // the payload, of the sender's memory with that number; empty: it has none with that
};

// In front of the engine's header, in the active message's header. Both sides have the same byte order and word size
// (Address checks that), so it is copied as it is.
struct Prefix {
    std::uint64_t token =
        0;  // the group's, with the sender's incarnation added bit by bit; a stranger does not know it
    std::uint32_t from = 0;
    std::uint8_t version = kWireVersion;
    Kind kind = Kind::data;
    std::uint16_t header_size = 0;  // of the engine's header behind it
};
static_assert(sizeof(Prefix) == 16 && kMaxHeader + sizeof(Prefix) == 64, "one cache line in all");

// The prefix of a message of this group, or nothing if the message is not one that a rank of it has written.
std::optional<Prefix> parse_prefix(std::span<const std::byte> header, std::size_t payload_size, std::uint64_t token,
                                   std::uint32_t group_size);

// Which incarnation of its rank has sent it: larger than 32 bits for none of this group.
inline std::uint64_t incarnation_in(const Prefix& prefix, std::uint64_t token) {
    return prefix.token ^ token;
}

// Landing slots of the sender (landing.hpp) for the receiver alone.
struct Offer {
    std::uint64_t address = 0;
    std::uint16_t slots = 0;
    std::uint16_t reserved[3] = {};
};
static_assert(sizeof(Offer) == 16);
inline constexpr std::uint16_t kMaxSlots = 1024;  // far below the 2^16 that credits count to
inline constexpr std::size_t kMaxKey = 1024;

// What the rest of a message of our own says, or nothing if it does not have the form. An offer comes with its key.
std::optional<Offer> parse_offer(std::span<const std::byte> header, std::size_t key_size);
std::optional<std::uint32_t> parse_count(std::span<const std::byte> header);

// UCX reads a key without knowing its length. In the zeros behind it, it finds no more to read.
std::vector<std::byte> padded_key(std::span<const std::byte> key);

// "major.minor" of the UCX that is loaded, as one number. Ranks must agree on it: UCX keeps its wire within it only. 0: there is none.
std::uint32_t ucx_release();

// Wraps a UCX worker's address so that a peer can tell whether it understands it.
// `put`: this rank writes, and is written to, one-sided. `host`: from where it connects, for peers that do not know that otherwise; none
// where they do. Where there is no room for all its addresses everybody is meant.
Result<std::vector<std::byte>> pack_address(std::span<const std::byte> worker_address, bool put = false,
                                            std::uint32_t incarnation = 0,
                                            const std::optional<HostAddresses>& host = {});

struct Address {
    std::uint32_t incarnation = 0;
    std::vector<std::byte> worker;
    std::optional<HostAddresses> host;
};
// What is in it; `rank` is named in errors. Refuses other versions, word sizes, byte orders, other UCX
// releases, another setting of `put`, and damaged bytes: UCX itself would take those for what they are not.
Result<Address> unpack_address(Seat rank, std::span<const std::byte> address, bool put = false);

// Whether a worker with that address (UCX's own) listens there: UCX writes the IP addresses of its TCP devices as they are on the wire.
bool listens_at(std::span<const std::byte> worker_address, const IpAddress& host);

}  // namespace coppice::transport::ucx
