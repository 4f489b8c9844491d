// What the verbs transport puts on the wire: the prefix of every message, the card that two ranks exchange when they
// connect, and a rank's address.
//
// Nothing that is read here is trusted: every parser looks only at bytes that are there, and says no to everything that
// a rank of this group and version would not have written.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/words.hpp"
#include "transport/landing.hpp"

namespace coppice::transport::verbs {

inline constexpr std::uint8_t kWireVersion = 3;

// Sends have the prefix of landing slots, too. There stamp and CRC are 0: their completion proves them.
using Prefix = SlotPrefix;
using Kind = SlotPrefix::Kind;

// The prefix of a message that was received whole, or nothing if no rank of ours wrote it.
std::optional<Prefix> parse_message(std::span<const std::byte> bytes);

// What each side gives the other in the private data of the connection's set-up (room for 56 bytes with rdma_cm).
struct Card {
    std::uint32_t rank = 0;
    std::uint32_t incarnation = 0;  // of the rank
    std::uint64_t token = 0;        // the group's
    std::uint64_t landing_address = 0;
    std::uint64_t word_address = 0;  // of the liveness word
    std::uint32_t landing_key = 0;
    std::uint32_t word_key = 0;
    std::uint16_t slots = 0;  // how many writes, and how many sends, the other may be ahead
    std::uint16_t mtu = 0;    // bytes; the smaller of both is used
    std::uint8_t reads = 1;   // of the other's that are answered at a time
};

inline constexpr std::size_t kCardBytes = 56;
inline constexpr std::uint16_t kMaxSlots = 1024;  // far below 2^16: see Prefix

// Why a connection was refused; travels in the refusal.
enum class Refusal : std::uint8_t {
    none = 0,
    garbage = 1,    // no card of ours
    version = 2,    // a card of another version
    stranger = 3,   // another group, or a rank that is none
    fenced = 4,     // taken for dead
    duplicate = 5,  // this pair of ranks has, or is about to have, a connection that the other side opened
    no_resources = 6,
};
const char* to_string(Refusal refusal);

std::vector<std::byte> encode(const Card& card);
struct CardOrRefusal {
    Card card;
    Refusal refusal = Refusal::none;
};
// `expected` names the group, and its size in `rank`.
CardOrRefusal decode_card(std::span<const std::byte> bytes, const Card& expected);

std::vector<std::byte> encode(Refusal refusal);
Refusal decode_refusal(std::span<const std::byte> bytes);

// Where a rank listens.
struct Address {
    sockaddr_in6 where{};  // AF_INET6, or AF_INET in the same place
    std::uint32_t rank = 0;
    std::uint32_t group_size = 0;
    std::uint32_t incarnation = 0;  // of the rank
};

// "192.0.2.1 port 4711"
std::string text_of(const sockaddr_in6& where);

std::vector<std::byte> encode(const Address& address);
// `peer` is named in errors. Refuses other versions, word sizes, byte orders and damaged bytes.
Result<Address> decode_address(Seat peer, std::span<const std::byte> bytes);

}  // namespace coppice::transport::verbs
