// What members and newcomers say to each other: the messages of Varma et al. (ICS'06, §3.3 to §3.7) under their names,
// and the few that the paper lacks.
#pragma once

#include <optional>
#include <string_view>

#include "protocol/membership/view.hpp"

namespace coppice::protocol {

enum class MembershipKind : std::uint8_t {
    // From a member that has noticed a death to the root, and the root's answer.
    node_failure,
    root_failure,  // the old root is among the dead: the receiver is the next one
    failure_det_ack,
    // A new root asks: down the tree, and up with the latest vote below.
    root_dead,
    root_and_node_failure,  // others have died besides the root
    root_dead_ack,
    // The root proposes: down the tree, and up as a vote.
    failed_node,      // nobody joins
    new_node_join,    // somebody joins
    alive_node_join,  // in a seat that was taken before
    failure_ack,
    new_node_join_ack,
    alive_node_join_ack,
    // Ours: the tree is stable, and the proposal is the next view. The paper tells nobody but joiners.
    stable,
    no_quorum,  // ours: too few are left on this side
    excluded,   // ours: the views have gone on without the receiver, who asks about an old one
    // A process that wants to join, to any member; members pass it on to the root.
    new_node,
    node_alive,  // it wants the seat that it had
    // To the joiner.
    join_det_ack,
    alive_node_join_det_ack,
    seat_taken,  // ours: the holder of the seat lives
    group_full,  // ours
    leave,       // ours: a member leaves with the next change; to the root
    consent,     // ours: all from the sender down want the next view, and what they would propose; to the parent
};

inline constexpr std::uint8_t kMembershipKinds = 23;

enum class Phase : std::uint8_t { idle, asking, voting };

constexpr bool carries_payload(MembershipKind /*kind*/) {
    return false;
}
std::string_view to_string(MembershipKind kind);

// Orders go down, acknowledgements up. Idle: neither.
Phase order_of(MembershipKind kind);
Phase acknowledged_by(MembershipKind kind);

// What the sender knows of who can't be reached, by their ranks in the view of the message.
struct Failures {
    FailedSet suspected;  // all of them
    FailedSet certain;    // those that are dead for certain, their last votes known
    // One more than the highest root that one of those has followed: 0 is none.
    std::uint32_t followed = 0;

    bool operator==(const Failures&) const = default;
};

struct Vote {
    std::uint32_t root = 0;  // for whose proposal, by its rank
    Change change;

    bool operator==(const Vote&) const = default;
};

// What members would propose, said as soon as they want the next view and before anybody has asked. Once in a view: so a
// change to which all that it leaves have consented is a decree as good as a voted one.
struct Consent {
    Change change;
    FailedSet members;  // that have consented to it, by rank

    bool operator==(const Consent&) const = default;
};
// Different ones that a member keeps, and tells. Of those that may have been decided there is hardly more than one for each side of a cut.
inline constexpr std::size_t kMostConsents = 64;

struct JoinRequest {
    static constexpr std::uint32_t kAnySeat = UINT32_MAX;

    Process process;
    std::uint32_t seat = kAnySeat;
    bool waits = false;  // where the group is full

    bool operator==(const JoinRequest&) const = default;
};

struct MembershipMessage {
    MembershipKind kind = MembershipKind::stable;
    Process from;
    Process to;
    std::uint32_t epoch = 0;  // of the sender's view; of the view that ends, where it is stable
    std::uint32_t root = 0;   // in whose name: its rank in that view
    Failures failures{};
    std::optional<Change> proposal{};  // orders to vote, and stable
    std::optional<Vote> latest{};      // the latest vote that the sender knows of
    std::optional<Change> made{};      // what made the sender's view: the receiver may be one behind
    std::optional<View> view{};        // the sender's, to those who joined with it
    std::optional<JoinRequest> request{};
    std::vector<Consent> consents{};  // that the sender knows of
    Offer offer{};                    // what those have in common that the sender speaks for
    FailedSet leaves{};               // ranks that want to leave, with the consents

    bool operator==(const MembershipMessage&) const = default;
};

// Equal words, equal messages.
void append_state(const std::vector<Consent>& consents, std::vector<std::uint32_t>& words);
void append_state(const MembershipMessage& message, std::vector<std::uint32_t>& words);

}  // namespace coppice::protocol
