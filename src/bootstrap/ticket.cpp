#include "bootstrap/ticket.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <string_view>

#include "bootstrap/launcher_protocol.hpp"

namespace coppice::bootstrap {
namespace {

constexpr std::array<char, 4> kMagic{'C', 'P', 'T', 'K'};
constexpr std::size_t kChecksumBytes = 8;

struct Head {
    std::array<char, 4> magic = kMagic;
    std::uint16_t version = kTicketVersion;
    std::uint16_t length = 0;  // of all of it
};
static_assert(sizeof(Head) == 8);

// Numbers travel as any host reads them: the first byte is the lowest.
template <class Number>
void put(std::vector<std::byte>& bytes, Number number) {
    for (std::size_t i = 0; i < sizeof number; ++i)
        bytes.push_back(static_cast<std::byte>(number >> 8 * i & 0xff));
}
template <class Number>
bool get(std::span<const std::byte>& bytes, Number& number) {
    if (bytes.size() < sizeof number) return false;
    number = 0;
    for (std::size_t i = 0; i < sizeof number; ++i)
        number = static_cast<Number>(number | static_cast<Number>(static_cast<Number>(bytes[i]) << 8 * i));
    bytes = bytes.subspan(sizeof number);
    return true;
}

std::size_t ip_bytes(std::uint8_t version) {
    return version == 4 ? 4 : 16;
}

void put_door(std::vector<std::byte>& bytes, const DoorAddress& door) {
    put(bytes, door.port);
    put(bytes, static_cast<std::uint8_t>(door.ips.size()));
    for (const DoorAddress::Ip& ip : door.ips) {
        put(bytes, ip.version);
        for (std::size_t i = 0; i < ip_bytes(ip.version); ++i)
            put(bytes, ip.bytes[i]);
    }
}

bool get_door(std::span<const std::byte>& bytes, DoorAddress& door) {
    std::uint8_t count = 0;
    if (!get(bytes, door.port) || door.port == 0 || !get(bytes, count) || count == 0 || count > kMostDoorAddresses)
        return false;
    for (std::uint8_t n = 0; n < count; ++n) {
        DoorAddress::Ip ip;
        if (!get(bytes, ip.version) || (ip.version != 4 && ip.version != 6)) return false;
        for (std::size_t i = 0; i < ip_bytes(ip.version); ++i)
            if (!get(bytes, ip.bytes[i])) return false;
        door.ips.push_back(ip);
    }
    return true;
}

// Against what happens to a file, or on the way through somebody's mail; the key is what protects it against people.
std::uint64_t checksum_of(std::span<const std::byte> bytes) {
    std::array<unsigned char, kChecksumBytes> sum{};
    crypto_generichash_state state;
    crypto_generichash_init(&state, nullptr, 0, crypto_generichash_BYTES_MIN);
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    std::array<unsigned char, crypto_generichash_BYTES_MIN> hash{};
    crypto_generichash_final(&state, hash.data(), hash.size());
    std::copy_n(hash.begin(), sum.size(), sum.begin());
    std::uint64_t number = 0;
    std::memcpy(&number, sum.data(), sizeof number);
    return number;
}

Key derive(std::span<const unsigned char> secret, std::string_view purpose, std::span<const std::byte> said) {
    crypto_generichash_state state;
    Key key;
    crypto_generichash_init(&state, secret.data(), secret.size(), key.size());
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(purpose.data()), purpose.size() + 1);
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(said.data()), said.size());
    crypto_generichash_final(&state, key.data(), key.size());
    return key;
}

void put_terms(std::vector<std::byte>& bytes, const Terms& terms) {
    append_bytes(bytes, std::as_bytes(std::span(terms.id)));
    put(bytes, terms.uses);
    put(bytes, terms.expires_ns);
}

}  // namespace

std::vector<std::byte> DoorAddress::bytes() const {
    std::vector<std::byte> bytes;
    put_door(bytes, *this);
    return bytes;
}

std::optional<DoorAddress> DoorAddress::parse(std::span<const std::byte> bytes) {
    DoorAddress door;
    if (!get_door(bytes, door) || !bytes.empty()) return std::nullopt;
    return door;
}

std::string DoorAddress::text() const {
    if (ips.empty()) return "nowhere";
    char text[INET6_ADDRSTRLEN] = "?";
    inet_ntop(ips[0].version == 4 ? AF_INET : AF_INET6, ips[0].bytes.data(), text, sizeof text);
    return ips[0].version == 4 ? fmt::format("{}:{}", text, port) : fmt::format("[{}]:{}", text, port);
}

std::vector<std::byte> Ticket::bytes() const {
    std::vector<std::byte> body;
    put_terms(body, terms);
    append_bytes(body, std::as_bytes(std::span(key)));
    put(body, static_cast<std::uint8_t>(doors.size()));
    for (const DoorAddress& door : doors)
        put_door(body, door);
    std::vector<std::byte> all;
    append_bytes(all, std::as_bytes(std::span(kMagic)));
    put(all, kTicketVersion);
    put(all, static_cast<std::uint16_t>(sizeof(Head) + body.size() + kChecksumBytes));
    append_bytes(all, body);
    const std::uint64_t sum = checksum_of(all);
    append(all, sum);
    return all;
}

Ticket::Reading Ticket::read(std::span<const std::byte> bytes, Ticket& ticket) {
    ticket = Ticket{};
    const std::span<const std::byte> whole = bytes;
    std::uint16_t version = 0;
    std::uint16_t length = 0;
    if (bytes.size() < sizeof(Head) || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
        return Reading::damaged;
    bytes = bytes.subspan(kMagic.size());
    if (!get(bytes, version) || !get(bytes, length)) return Reading::damaged;
    if (version != kTicketVersion) return Reading::of_another_version;
    if (length != whole.size() || length < sizeof(Head) + kChecksumBytes || length > kLongestTicket)
        return Reading::damaged;
    std::uint64_t sum = 0;
    std::memcpy(&sum, whole.data() + whole.size() - kChecksumBytes, sizeof sum);
    if (sum != checksum_of(whole.first(whole.size() - kChecksumBytes))) return Reading::damaged;
    bytes = bytes.first(bytes.size() - kChecksumBytes);
    std::uint8_t doors = 0;
    if (!take(bytes, ticket.terms.id) || !get(bytes, ticket.terms.uses) || !get(bytes, ticket.terms.expires_ns) ||
        !take(bytes, ticket.key) || !get(bytes, doors) || doors == 0 || doors > kMostDoors)
        return Reading::damaged;
    for (std::uint8_t n = 0; n < doors; ++n) {
        DoorAddress door;
        if (!get_door(bytes, door)) return Reading::damaged;
        ticket.doors.push_back(std::move(door));
    }
    return bytes.empty() ? Reading::whole : Reading::damaged;
}

std::size_t Ticket::length_of(std::span<const std::byte> bytes) {
    constexpr std::size_t kAt = sizeof(Head) - sizeof(std::uint16_t);
    if (bytes.size() < sizeof(Head)) return std::max<std::size_t>(bytes.size(), 1);
    bytes = bytes.subspan(kAt);
    std::uint16_t length = 0;
    [[maybe_unused]] const bool is_there = get(bytes, length);
    return std::max<std::size_t>(length, 1);
}

Key key_of(std::span<const unsigned char> group_secret, const Terms& terms) {
    std::vector<std::byte> said;
    put_terms(said, terms);
    return derive(group_secret, "coppice: ticket", said);
}

Key member_key(std::span<const unsigned char> group_secret) {
    return derive(group_secret, "coppice: members at the door", {});
}

std::uint64_t wall_clock_ns() {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace coppice::bootstrap
