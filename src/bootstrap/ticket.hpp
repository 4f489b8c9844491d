// A ticket: what a process has to have in order to join a group that did not start it. And where groups listen for such processes.
//
// A ticket's key is a keyed hash of all that it says, by the group's secret: so each member of the group can check a ticket that any
// other has made, and nobody can make one, or change how often and how long it is good, without the secret. Who has a ticket may join: it is
// to be kept as a password is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace coppice::bootstrap {

using Key = std::array<unsigned char, 32>;
using TicketId = std::array<unsigned char, 16>;

inline constexpr std::size_t kMostDoors = 8;
inline constexpr std::size_t kMostDoorAddresses = 8;
inline constexpr std::uint16_t kTicketVersion = 1;

// Where a member listens.
struct DoorAddress {
    struct Ip {
        std::uint8_t version = 4;              // or 6
        std::array<std::uint8_t, 16> bytes{};  // as on the wire; the first four of version 4

        bool operator==(const Ip&) const = default;
    };
    std::uint16_t port = 0;
    std::vector<Ip> ips;  // 1 … kMostDoorAddresses, in the order in which they are tried

    bool operator==(const DoorAddress&) const = default;
    std::vector<std::byte> bytes() const;
    // Strictly: every address has one form.
    static std::optional<DoorAddress> parse(std::span<const std::byte> bytes);
    std::string text() const;  // for people: the first one
};

// What of a ticket is said to a door, in the clear.
struct Terms {
    TicketId id{};
    std::uint32_t uses = 0;
    std::uint64_t expires_ns = 0;  // CLOCK_REALTIME; UINT64_MAX: never

    bool operator==(const Terms&) const = default;
};

struct Ticket {
    Terms terms;
    Key key{};
    std::vector<DoorAddress> doors;  // 1 … kMostDoors

    bool operator==(const Ticket&) const = default;
    std::vector<std::byte> bytes() const;

    enum class Reading : std::uint8_t { whole, damaged, of_another_version };
    static Reading read(std::span<const std::byte> bytes, Ticket& ticket);
    // What the first bytes say of how many it has; 1 at least, also where they are no ticket.
    static std::size_t length_of(std::span<const std::byte> bytes);
};
// That one process may bring along.
inline constexpr std::size_t kMostTickets = 16;
// Of a ticket with all that it may have; COPPICE_TICKET_BYTES is as much.
inline constexpr std::size_t kLongestTicket = 2048;

// Of the group with that secret.
Key key_of(std::span<const unsigned char> group_secret, const Terms& terms);
// With which its members know each other at their doors.
Key member_key(std::span<const unsigned char> group_secret);

std::uint64_t wall_clock_ns();

}  // namespace coppice::bootstrap
