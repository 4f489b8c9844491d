// The channels of a group's messages: one for each component of the engine that talks to its like at other ranks.
//
// A message is a kind within a channel. What has to be known of a kind before its component sees it stands in one table,
// made from what the protocols say of their kinds; headers are checked and dispatched by it. A new component adds a
// channel, its kinds and a row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "protocol/agreement/agreement.hpp"
#include "protocol/broadcast.hpp"
#include "protocol/failure_proof_broadcast.hpp"
#include "protocol/membership/message.hpp"
#include "protocol/placed_broadcast.hpp"
#include "protocol/pull/pull.hpp"
#include "protocol/stability/stability.hpp"

namespace coppice::engine {

enum class Channel : std::uint8_t {
    members,     // which ranks are here: MembersKind
    window,      // what has been consumed: protocol::StabilityKind; `sequence` is the count, `detail` the slowest rank
    revocation,  // RevocationKind
    // A broadcast's machine, one for each family: the kinds are those of protocol/.
    broadcast,
    failure_proof,
    // 5 and 6 are nobody's: they have no kinds, and what comes with them is refused.
    agreement = 7,  // the body of the agreement machine's message is the payload, or a part of it (assembly.hpp)
    succession,     // the same of the membership machine's: which ranks go on in a group that is shrunk from this one
    payload,  // protocol::PullKind; `more` is what it is about, `detail` the CRC-32C of a chunk, or of a part of one, between hosts; of an ask: kReads
    placed,   // a broadcast's machine, where the network's switches are known
    reading,  // ReadingKind: payloads that are read out of their holders' memory; `sequence` says which
    addresses,  // AddressesKind: no group's, but the transport set's (addresses/)
};
inline constexpr std::size_t kChannels = 13;

enum class MembersKind : std::uint8_t {
    failure_notice,  // rank `detail` has failed; `sequence` kAnswered: an answer, by one that has given this group up, or takes you for dead
    heartbeat,       // its sender lives; `sequence` is a Beat
    left,            // the sender has left this group in peace
    leaving_ask,     // the sender leaves and waits for you: for which rank do you wait?
    leaving_answer,  // for rank `detail`; `sequence` 1: which has said that it does not leave yet
    never_here,      // the sender's process does not have this group and never had: it counts as failed
    still_lives,     // rank `detail` has failed, and lives, as a rank of its host sees that has lost its quorum
};
inline constexpr std::uint64_t kAnswered = 1;
// The `sequence` of the word that a rank has left, where it has voted for no next view (Membership::voteless).
inline constexpr std::uint64_t kNeverVoted = 1;

enum class Beat : std::uint64_t {
    unasked,
    asks,  // whether you live: answered whatever the two ranks think of each other
    answers,
};
enum class ReadingKind : std::uint8_t {
    here,  // the answer to PullKind::ask with `detail` kReads: read it here; the payload is an Offer (collectives/payload/offer.hpp)
    done,  // nothing more is read there
};
inline constexpr std::uint32_t kReads = 1;
// Of ranks that copy addresses from each other (addresses/letter.hpp).
enum class AddressesKind : std::uint8_t {
    wanted,        // whose addresses the sender lacks
    page,          // some of them
    introduction,  // the sender's own: it has just learnt the receiver's
    complete,      // the sender lacks none
};
enum class RevocationKind : std::uint8_t {
    revoked,  // rank `detail` has revoked the group
    known,    // the answer: the sender knows
};

// A kind of a channel, as it travels.
struct Tag {
    Channel channel = Channel::members;
    std::uint8_t kind = 0;

    constexpr Tag() = default;
    template <class Kind>
    constexpr Tag(Channel of, Kind which) : channel(of), kind(static_cast<std::uint8_t>(which)) {}
    bool operator==(const Tag&) const = default;
};

// What a channel's kinds are like, a bit for each kind.
struct ChannelRow {
    std::uint8_t kinds = 0;
    std::uint32_t with_payload = 0;   // may bring one along
    std::uint32_t corrections = 0;    // go as one-sided writes
    std::uint32_t with_failures = 0;  // their receiver has to know of the deaths of which their sender knows
    bool is_long = false;             // `more` is used
    bool is_frequent = false;         // come with every operation, and change nothing that is looked at rarely
};

namespace detail {

template <class Kind>
constexpr std::uint32_t bits(std::uint8_t kinds, bool (*holds)(Kind)) {
    std::uint32_t mask = 0;
    for (std::uint8_t kind = 0; kind < kinds; ++kind)
        if (holds(static_cast<Kind>(kind))) mask |= std::uint32_t{1} << kind;
    return mask;
}
template <class... Kinds>
constexpr std::uint32_t bits_of(Kinds... kinds) {
    return (0U | ... | (std::uint32_t{1} << static_cast<std::uint8_t>(kinds)));
}
template <std::uint8_t count>
constexpr std::uint32_t kAll = (std::uint32_t{1} << count) - 1;

constexpr std::array<ChannelRow, kChannels> channel_rows() {
    using namespace protocol;
    std::array<ChannelRow, kChannels> rows{};
    const auto row = [&rows](Channel channel) -> ChannelRow& { return rows[static_cast<std::size_t>(channel)]; };
    row(Channel::members) = {.kinds = 7};
    row(Channel::window) = {.kinds = 3};
    row(Channel::revocation) = {.kinds = 2};
    row(Channel::broadcast) = {.kinds = kMessageKinds,
                               .with_payload = bits<MessageKind>(kMessageKinds, carries_payload),
                               .corrections = bits<MessageKind>(kMessageKinds, is_correction),
                               .with_failures = bits_of(MessageKind::query, MessageKind::denial),
                               .is_frequent = true};
    row(Channel::failure_proof) = {.kinds = kFailureProofKinds,
                                   .with_payload = bits<FailureProofKind>(kFailureProofKinds, carries_payload),
                                   .corrections = bits<FailureProofKind>(kFailureProofKinds, is_correction),
                                   .with_failures = bits_of(FailureProofKind::query, FailureProofKind::denial),
                                   .is_long = true};
    row(Channel::placed) = {.kinds = kPlacedKinds,
                            .with_payload = bits<PlacedKind>(kPlacedKinds, carries_payload),
                            .corrections = bits<PlacedKind>(kPlacedKinds, is_correction),
                            .with_failures = bits_of(PlacedKind::query, PlacedKind::denial),
                            .is_frequent = true};
    row(Channel::agreement) = {.kinds = kAgreementKinds, .with_payload = kAll<kAgreementKinds>};
    row(Channel::succession) = {.kinds = kMembershipKinds, .with_payload = kAll<kMembershipKinds>};
    row(Channel::addresses) = {.kinds = 4, .with_payload = kAll<4>};
    row(Channel::payload) = {.kinds = kPullKinds,
                             .with_payload = bits<PullKind>(kPullKinds, carries_payload),
                             .with_failures = bits_of(PullKind::query, PullKind::denial),
                             .is_long = true,
                             .is_frequent = true};
    row(Channel::reading) = {.kinds = 2, .with_payload = bits_of(ReadingKind::here)};
    return rows;
}

}  // namespace detail

inline constexpr std::array<ChannelRow, kChannels> kChannelRows = detail::channel_rows();

// The row of a channel that is_known().
constexpr const ChannelRow& row_of(Channel channel) {
    return kChannelRows[static_cast<std::size_t>(channel)];
}
constexpr bool is_known(Tag tag) {
    return static_cast<std::size_t>(tag.channel) < kChannels && tag.kind < row_of(tag.channel).kinds;
}
constexpr bool carries_payload(Tag tag) {
    return (row_of(tag.channel).with_payload >> tag.kind & 1) != 0;
}
constexpr bool is_correction(Tag tag) {
    return (row_of(tag.channel).corrections >> tag.kind & 1) != 0;
}
constexpr bool carries_failures(Tag tag) {
    return (row_of(tag.channel).with_failures >> tag.kind & 1) != 0;
}

}  // namespace coppice::engine
