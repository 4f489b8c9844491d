#include "transport/verbs/wire.hpp"

#include <arpa/inet.h>

#include <array>
#include <cstring>

#include "transport/address_check.hpp"
#include "transport/crc32c.hpp"

namespace coppice::transport::verbs {
namespace {

constexpr std::array<char, 4> kMagic = {'C', 'P', 'V', 'B'};

struct CardBytes {
    std::array<char, 4> magic = kMagic;
    std::uint8_t version = kWireVersion;
    std::uint8_t reads = 0;
    std::uint16_t slots = 0;
    std::uint32_t rank = 0;
    std::uint32_t incarnation = 0;
    std::uint64_t token = 0;
    std::uint64_t landing_address = 0;
    std::uint64_t word_address = 0;
    std::uint32_t landing_key = 0;
    std::uint32_t word_key = 0;
    std::uint16_t mtu = 0;
    std::uint16_t unused = 0;
    std::uint32_t crc = 0;  // of all before it
};
static_assert(sizeof(CardBytes) == kCardBytes);

// What precedes the order mark are single bytes, which every byte order reads alike.
struct AddressBytes {
    std::array<char, 4> magic = kMagic;
    std::uint8_t version = kWireVersion;
    std::uint8_t word_size = sizeof(void*);
    std::uint16_t family = 0;
    std::uint32_t byte_order = kByteOrderMark;
    std::uint32_t rank = 0;
    std::uint32_t group_size = 0;
    std::uint32_t scope = 0;
    std::uint32_t incarnation = 0;
    std::array<std::byte, 16> ip{};
    std::uint16_t port = 0;  // in network order
    std::uint16_t unused = 0;
    std::uint32_t crc = 0;  // of all before it
};
static_assert(sizeof(AddressBytes) == 52);

struct RefusalBytes {
    std::array<char, 4> magic = kMagic;
    std::uint8_t reason = 0;
    std::array<std::uint8_t, 3> unused{};
};

template <class T>
std::uint32_t crc_of(const T& bytes) {
    return crc32c(std::as_bytes(std::span(&bytes, 1)).first(sizeof(T) - sizeof bytes.crc));
}

template <class T>
std::vector<std::byte> bytes_of(const T& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    return {bytes.begin(), bytes.end()};
}

}  // namespace

std::optional<Prefix> parse_message(std::span<const std::byte> bytes) {
    Prefix prefix;
    if (bytes.size() < sizeof prefix) return std::nullopt;
    std::memcpy(&prefix, bytes.data(), sizeof prefix);
    if (!fits(prefix, bytes.size())) return std::nullopt;
    return prefix;
}

const char* to_string(Refusal refusal) {
    switch (refusal) {
        case Refusal::none:
            return "no reason given";
        case Refusal::garbage:
            return "it did not understand the request";
        case Refusal::version:
            return "it speaks another version of this transport; install the same Coppice on all hosts";
        case Refusal::stranger:
            return "it belongs to another group";
        case Refusal::fenced:
            return "it takes this rank for dead";
        case Refusal::duplicate:
            return "it opens the connection itself";
        case Refusal::no_resources:
            return "it has no queue pair or memory left for one more; see its own message";
    }
    return "unknown reason";
}

std::vector<std::byte> encode(const Card& card) {
    CardBytes bytes;
    bytes.slots = card.slots;
    bytes.rank = card.rank;
    bytes.incarnation = card.incarnation;
    bytes.token = card.token;
    bytes.landing_address = card.landing_address;
    bytes.word_address = card.word_address;
    bytes.landing_key = card.landing_key;
    bytes.word_key = card.word_key;
    bytes.mtu = card.mtu;
    bytes.reads = card.reads;
    bytes.crc = crc_of(bytes);
    return bytes_of(bytes);
}

CardOrRefusal decode_card(std::span<const std::byte> data, const Card& expected) {
    CardBytes bytes;
    if (data.size() < sizeof bytes) return {{}, Refusal::garbage};
    std::memcpy(&bytes, data.data(), sizeof bytes);
    if (bytes.magic != kMagic) return {{}, Refusal::garbage};
    if (bytes.version != kWireVersion) return {{}, Refusal::version};
    const bool sound = bytes.crc == crc_of(bytes) && bytes.slots >= 1 && bytes.slots <= kMaxSlots && bytes.mtu >= 256 &&
                       bytes.reads >= 1;
    if (!sound) return {{}, Refusal::garbage};
    if (bytes.token != expected.token || bytes.rank >= expected.rank) return {{}, Refusal::stranger};
    return {{.rank = bytes.rank,
             .incarnation = bytes.incarnation,
             .token = bytes.token,
             .landing_address = bytes.landing_address,
             .word_address = bytes.word_address,
             .landing_key = bytes.landing_key,
             .word_key = bytes.word_key,
             .slots = bytes.slots,
             .mtu = bytes.mtu,
             .reads = bytes.reads},
            Refusal::none};
}

std::vector<std::byte> encode(Refusal refusal) {
    RefusalBytes bytes;
    bytes.reason = static_cast<std::uint8_t>(refusal);
    return bytes_of(bytes);
}

Refusal decode_refusal(std::span<const std::byte> data) {
    RefusalBytes bytes;
    if (data.size() < sizeof bytes) return Refusal::none;
    std::memcpy(&bytes, data.data(), sizeof bytes);
    if (bytes.magic != kMagic || bytes.reason > static_cast<std::uint8_t>(Refusal::no_resources)) return Refusal::none;
    return static_cast<Refusal>(bytes.reason);
}

std::vector<std::byte> encode(const Address& address) {
    AddressBytes bytes;
    bytes.family = address.where.sin6_family;
    bytes.rank = address.rank;
    bytes.group_size = address.group_size;
    bytes.incarnation = address.incarnation;
    bytes.port = address.where.sin6_port;
    if (bytes.family == AF_INET) {
        const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.where);
        std::memcpy(bytes.ip.data(), &v4.sin_addr, sizeof v4.sin_addr);
    } else {
        std::memcpy(bytes.ip.data(), &address.where.sin6_addr, bytes.ip.size());
        bytes.scope = address.where.sin6_scope_id;
    }
    bytes.crc = crc_of(bytes);
    return bytes_of(bytes);
}

Result<Address> decode_address(Seat peer, std::span<const std::byte> data) {
    AddressBytes bytes;
    const bool readable = data.size() == sizeof bytes;
    if (readable) std::memcpy(&bytes, data.data(), sizeof bytes);
    const AddressHead head{.ours = readable && bytes.magic == kMagic,
                           .version = bytes.version,
                           .word_size = bytes.word_size,
                           .byte_order = bytes.byte_order};
    if (auto known = check_address("verbs", peer, head, kWireVersion, data.size()); !known)
        return tl::unexpected(std::move(known.error()));
    if (bytes.crc != crc_of(bytes) || (bytes.family != AF_INET && bytes.family != AF_INET6))
        return damaged_address("verbs", peer);
    Address address;
    address.rank = bytes.rank;
    address.group_size = bytes.group_size;
    address.incarnation = bytes.incarnation;
    address.where.sin6_family = bytes.family;
    address.where.sin6_port = bytes.port;
    if (bytes.family == AF_INET) {
        auto& v4 = reinterpret_cast<sockaddr_in&>(address.where);
        std::memcpy(&v4.sin_addr, bytes.ip.data(), sizeof v4.sin_addr);
    } else {
        std::memcpy(&address.where.sin6_addr, bytes.ip.data(), bytes.ip.size());
        address.where.sin6_scope_id = bytes.scope;
    }
    return address;
}

std::string text_of(const sockaddr_in6& where) {
    char text[INET6_ADDRSTRLEN] = "";
    const void* const ip = where.sin6_family == AF_INET
                               ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(where).sin_addr)
                               : static_cast<const void*>(&where.sin6_addr);
    inet_ntop(where.sin6_family, ip, text, sizeof text);
    return fmt::format("{} port {}", text, ntohs(where.sin6_port));
}

}  // namespace coppice::transport::verbs
