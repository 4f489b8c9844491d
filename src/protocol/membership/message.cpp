#include "protocol/membership/message.hpp"

namespace coppice::protocol {

std::string_view to_string(MembershipKind kind) {
    switch (kind) {
        case MembershipKind::node_failure:
            return "NODE_FAILURE";
        case MembershipKind::root_failure:
            return "ROOT_FAILURE";
        case MembershipKind::failure_det_ack:
            return "FAILURE_DET_ACK";
        case MembershipKind::root_dead:
            return "ROOT_DEAD";
        case MembershipKind::root_and_node_failure:
            return "ROOT_AND_NODE_FAILURE";
        case MembershipKind::root_dead_ack:
            return "ROOT_DEAD_ACK";
        case MembershipKind::failed_node:
            return "FAILED_NODE";
        case MembershipKind::new_node_join:
            return "NEW_NODE_JOIN";
        case MembershipKind::alive_node_join:
            return "ALIVE_NODE_JOIN";
        case MembershipKind::failure_ack:
            return "FAILURE_ACK";
        case MembershipKind::new_node_join_ack:
            return "NEW_NODE_JOIN_ACK";
        case MembershipKind::alive_node_join_ack:
            return "ALIVE_NODE_JOIN_ACK";
        case MembershipKind::stable:
            return "STABLE";
        case MembershipKind::no_quorum:
            return "NO_QUORUM";
        case MembershipKind::excluded:
            return "EXCLUDED";
        case MembershipKind::new_node:
            return "NEW_NODE";
        case MembershipKind::node_alive:
            return "NODE_ALIVE";
        case MembershipKind::join_det_ack:
            return "JOIN_DET_ACK";
        case MembershipKind::alive_node_join_det_ack:
            return "ALIVE_NODE_JOIN_DET_ACK";
        case MembershipKind::seat_taken:
            return "SEAT_TAKEN";
        case MembershipKind::group_full:
            return "GROUP_FULL";
        case MembershipKind::leave:
            return "LEAVE";
        case MembershipKind::consent:
            return "CONSENT";
    }
    return "?";
}

Phase order_of(MembershipKind kind) {
    switch (kind) {
        case MembershipKind::root_dead:
        case MembershipKind::root_and_node_failure:
            return Phase::asking;
        case MembershipKind::failed_node:
        case MembershipKind::new_node_join:
        case MembershipKind::alive_node_join:
            return Phase::voting;
        default:
            return Phase::idle;
    }
}

Phase acknowledged_by(MembershipKind kind) {
    switch (kind) {
        case MembershipKind::root_dead_ack:
            return Phase::asking;
        case MembershipKind::failure_ack:
        case MembershipKind::new_node_join_ack:
        case MembershipKind::alive_node_join_ack:
            return Phase::voting;
        default:
            return Phase::idle;
    }
}

namespace {

void append_state(const std::optional<Change>& change, std::vector<std::uint32_t>& words) {
    words.push_back(change ? 1 : 0);
    if (change) append_state(*change, words);
}

}  // namespace

void append_state(const std::vector<Consent>& consents, std::vector<std::uint32_t>& words) {
    words.push_back(static_cast<std::uint32_t>(consents.size()));
    for (const Consent& one : consents) {
        append_state(one.change, words);
        append_state(one.members, words);
    }
}

void append_state(const MembershipMessage& message, std::vector<std::uint32_t>& words) {
    words.insert(words.end(), {static_cast<std::uint32_t>(message.kind), message.from.value, message.to.value,
                               message.epoch, message.root, message.failures.followed});
    append_state(message.failures.suspected, words);
    append_state(message.failures.certain, words);
    append_state(message.proposal, words);
    words.push_back(message.latest ? message.latest->root + 1 : 0);
    if (message.latest) append_state(message.latest->change, words);
    append_state(message.made, words);
    words.push_back(message.view ? 1 : 0);
    if (message.view) message.view->append_state(words);
    words.push_back(message.request ? 1 : 0);
    if (message.request) {
        words.insert(words.end(),
                     {message.request->process.value, message.request->seat, message.request->waits ? 1U : 0U});
    }
    append_state(message.offer, words);
    append_state(message.leaves, words);
    append_state(message.consents, words);
}

}  // namespace coppice::protocol
