// The life of one connection, as a table: what happens in which state leads where, and what has to be done then.
//
// Each side may open it. A request and its answer carry cards (wire.hpp); when both sides ask at once, the request of the lower rank
// counts. Before the other side is told anything that lets it write, the device has opened the landing slots to it ("granted").
//
//   this side asks:   none ─ resolving ─ requesting ─ granting ─ open        yielding: told to wait for the peer's own request
//   the peer asks:    none ─ admitting ─ accepting ─ open
//   it ends:          any ─ broken ─ closed                                  broken: to be closed by the next poll
//
// Nothing here calls a device or reads a clock: VerbsTransport (verbs_connect.cpp) reports events and performs actions. An action
// that fails is an event in turn.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace coppice::transport::verbs {

enum class Link : std::uint8_t {
    none,        // never tried, or to be tried anew by the peer
    resolving,   // this side opens it: address and route
    requesting,  // this side's request is on its way
    yielding,    // both sides opened; the peer's request is the one that counts, and is awaited
    granting,    // the peer has answered; the device opens the landing slots to it
    admitting,   // the peer has asked; likewise, before it is answered
    accepting,   // the peer's request was accepted, its confirmation is awaited
    open,
    broken,  // to be closed by the next poll
    closed,  // for good
};
inline constexpr int kLinks = 10;

enum class LinkEvent : std::uint8_t {
    wanted,           // this side has something to say
    address_found,    //
    route_found,      //
    answered,         // the peer accepts this side's request, with a sound card
    told_to_wait,     // it refuses: its own request counts
    refused,          // it refuses for another reason, or has withdrawn its own request
    asked_by_lower,   // the peer's request has come, with a sound card: its rank is below this one's, so it counts
    asked_by_higher,  // likewise; this side's own would count
    granted,          // the device has opened the landing slots
    not_granted,      //
    not_admitted,     // the peer's request could not be followed or answered
    confirmed,        // the peer has seen the answer
    long_silent,      // its host has the request, its process has long not come for it
    time_to_ask,      // while yielding: its request should have come
    failed,           // an error, a deadline, the end of the peer's process
    fenced,           // this rank takes the peer for dead
    settled,          // what had arrived has been delivered, and the queue pair is gone
};
inline constexpr int kLinkEvents = 17;

enum class LinkAction : std::uint8_t {
    none,
    resolve,     // begin a request: address
    find_route,  //
    request,     // make queue pair and memory, send the request
    grant,       // follow the answer's card, have the slots opened
    establish,   // confirm the answer
    yield,       // forget the own request, ask again later
    ask_again,   // forget the request, take a new queue pair, begin a request
    admit,       // forget the own request, follow the peer's card, have the slots opened
    admit_anew,  // the same with a new queue pair: the peer has seen the number of the old one
    decline,     // tell the peer that this side's own request counts
    turn_away,   // tell it that there is a connection; counted
    accept,      // answer
    welcome,     // messages may flow
    retire,      // forget the peer's request, be ready for its next one
    deny,        // tell the peer that there are no resources for it, then as report
    report,      // note the reason; the next poll closes the connection and reports the failure
    cut,         // end the device's part now; the next poll closes the connection
    close,       // give everything back
};

struct LinkStep {
    Link to;
    LinkAction action;
    bool foreseen = true;  // false: that event means nothing in that state; nothing is to be done
};

// `has_address`: this side knows where the peer listens, and so could ask in turn.
LinkStep step(Link from, LinkEvent event, bool has_address);

// Deadlines run, and the connection manager is looked at often.
constexpr bool is_being_set_up(Link link) {
    return link > Link::none && link < Link::open;
}
// It has a request, a queue pair or a peer that was told of it.
constexpr bool is_alive(Link link) {
    return link != Link::none && link != Link::closed;
}

std::string_view to_string(Link link);
std::string_view to_string(LinkEvent event);
std::string_view to_string(LinkAction action);

}  // namespace coppice::transport::verbs
