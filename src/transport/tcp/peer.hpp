// What the TCP transport knows of one peer with which it has to do. Where ranks listen stands in address_book.hpp.
#pragma once

#include <memory>
#include <optional>

#include "transport/silence.hpp"
#include "transport/socket_end.hpp"
#include "transport/tcp/address.hpp"
#include "transport/tcp/attempt.hpp"
#include "transport/tcp/connection.hpp"
#include "transport/tcp/strangers.hpp"

namespace coppice::transport::tcp {

enum class Link : std::uint8_t {
    none,        // never wanted
    connecting,  // this side tries to connect; what is sent waits
    open,
    closed,  // for good
};

struct Peer {
    explicit Peer(Seat number) : rank(number) {}

    Seat rank;
    Link link = Link::none;
    bool known = false;  // it was added: its addresses are in the book
    bool fenced = false;
    bool failed = false;        // to be reported by the next poll, unless it is fenced or departed
    bool reported = false;      // and nothing of it is delivered any more
    bool departed = false;      // it said goodbye
    bool broken = false;        // nothing can be sent to it any more; what has arrived is still read
    int error = 0;              // why it is broken
    bool owes_fenced = false;   // it has yet to be told that it is fenced
    bool owes_goodbye = false;  // that this rank leaves
    bool owes_ack = false;      // that its goodbye was read
    bool goodbye_acked = false;
    bool queued = false;              // in the transport's list of peers to attend to
    bool watches_write = false;       // the epoll set waits for room
    bool in_batch = false;            // something waits for the batch to end
    Silence silence;                  // of its kernel
    std::uint32_t seen_tries = 0;     // the try whose socket is in the epoll set
    bool seen_writing = false;        // and what for
    std::optional<SocketEnd> remote;  // of the connection that stands; none: it was reset as soon as it stood
    std::optional<Attempt> attempt;
    // Of the two attempts of a pair the lower rank's is taken; the other waits here until that is settled.
    std::optional<Strangers::Proven> held;
    std::unique_ptr<Connection> connection;
};

}  // namespace coppice::transport::tcp
