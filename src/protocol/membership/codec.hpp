// What members say to each other, as bytes. A message's sender, receiver and kind travel beside.
//
//   flags  epoch  root  followed  offer  suspected  certain  leaves  [proposal]  [latest: root, change]  [made]  count (change, members)×count
//   change: offer  gone  left  count (seat, incarnation, process)×count
//   offer: bits, terms (8 bytes)
//
// Numbers are 4 bytes, little endian; sets of ranks or seats as in failed_codec.hpp. What only newcomers are told (a whole view), and what
// they ask for, is not written: in the engine they are told by other means.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "protocol/agreement/failed_codec.hpp"
#include "protocol/membership/membership.hpp"

namespace coppice::protocol {

// The longest in a group that may have so many seats: nine sets, three for each consent, newcomers in three changes (members consent to none),
// and numbers.
constexpr std::size_t longest_membership_body(std::uint32_t seats) {
    return (9 + 3 * kMostConsents) * longest_failed(seats) + 3 * sizeof(Occupant) * seats +
           4 * (21 + 4 * kMostConsents);
}
static_assert(sizeof(Occupant) == 12);

// Appends.
void write_membership(const MembershipMessage& message, std::vector<std::byte>& out);

// Into all but kind, sender and receiver of a message. False for bytes that write_membership() would not have written in a group
// of so many seats.
bool read_membership(std::span<const std::byte> bytes, std::uint32_t seats, MembershipMessage& message);

// What the dead leave behind:  flags  epoch  followed  made  [latest: root, change]  [consent]
void write_last_vote(const LastVote& vote, std::vector<std::byte>& out);
std::optional<LastVote> read_last_vote(std::span<const std::byte> bytes, std::uint32_t seats);

}  // namespace coppice::protocol
