// One peer: its address, the endpoint to it once there is one, and the messages that UCX has not finished with.
//
// Memory of a connection is allocated when it is opened, never per message.
#pragma once

#include <ucp/api/ucp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/words.hpp"
#include "transport/transport.hpp"
#include "transport/ucx/get.hpp"
#include "transport/ucx/put.hpp"
#include "transport/ucx/wire.hpp"

namespace coppice::transport {
class UcxTransport;
}

namespace coppice::transport::ucx {

struct Peer;

// Messages of the engine that may be under way to one peer before send() answers `again`. A few more are kept for our
// own (handshake, goodbye), so that these never have to wait.
inline constexpr std::uint32_t kMaxPending = 64;
inline constexpr std::uint32_t kReserved = 4;
// Reads that may be under way from one peer.
inline constexpr std::uint32_t kMostReads = 24;
// A written payload of up to this leaves together with its header, in one put.
inline constexpr std::size_t kTogether = 256;

// A message under way: UCX reads `bytes` until it is done with it. Prefix and header, and of writes the payload if it is small.
struct alignas(64) Slot {
    std::array<std::byte, sizeof(Prefix) + kMaxHeader + kTogether> bytes;
    Peer* peer = nullptr;
    Slot* next = nullptr;  // free or waiting
    const std::byte* payload = nullptr;
    std::uint32_t payload_size = 0;
    std::uint32_t header_size = 0;
    std::uint32_t* in_flight = nullptr;  // the engine's count for the payload; null: nothing is referred to
    std::uint32_t parts = 0;             // of a write: puts that UCX has not finished with
};
static_assert(sizeof(SlotPrefix) == sizeof(Prefix), "writes and messages have the same room for their headers");

using Slots = std::array<Slot, kMaxPending + kReserved>;

// A read under way, or one that has ended behind one that has not.
struct Get {
    Peer* peer = nullptr;
    PeerKey* key = nullptr;
    Reads* reads = nullptr;  // null: nobody's any more
    bool has_ended = false;
    bool has_arrived = false;
};

enum class Link : std::uint8_t {
    none,     // never opened
    opening,  // the connection is being set up: UCX gets no message yet, see Peer::open
    open,     // the endpoint works as far as we know
    broken,   // an error came, or the peer is fenced: the endpoint is closed by the next poll
    closed,   // for good
};

struct Peer {
    Peer(UcxTransport& transport, Seat number) : owner(transport), rank(number) {}
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    // Opens the endpoint; nothing waits for the peer, and `opened` is called by UCX once messages may be sent.
    // Until then they wait here: UCX would queue a set-up message of its own behind the connection, and if the peer
    // dies just before that is sent, an assertion of UCX 1.13 ends this process (wireup_ep.c, pending_count == 0).
    // A flush waits for the connection without that message. `on_error` gets this Peer as its argument and is called from
    // within UCX: it may do no more than take a note.
    // `ended`: a read has; likewise.
    ucs_status_t open(ucp_worker_h worker, ucp_err_handler_cb_t on_error, void (*opened)(Peer&), void (*ended)(Peer&));

    // Hands a message to UCX. UCS_INPROGRESS: accepted, and the payload is referred to until *in_flight is decremented.
    // UCS_ERR_NO_RESOURCE: no room now. UCS_OK: accepted and already copied. Else the link is broken.
    ucs_status_t post(const Prefix& prefix, std::span<const std::byte> header, std::span<const std::byte> payload,
                      std::uint32_t* in_flight);

    // The same, into the peer's slots, which it has given. UCS_ERR_NO_RESOURCE may come while a part is under way already;
    // then *in_flight says so, and the whole is written again.
    ucs_status_t put(std::span<const std::byte> header, std::span<const std::byte> payload, std::uint32_t* in_flight);

    // Reads out of a piece of the peer's. UCS_OK: accepted; settle_reads() tells of the end. UCS_ERR_NO_RESOURCE: no room now.
    ucs_status_t get(PeerKey& key, std::uint64_t from, std::span<std::byte> into, Reads* reads);
    // Tells the owners of reads that have ended, in the order in which they were asked for; how many. None arrives behind one that has not.
    std::size_t settle_reads();
    void attach_key(PeerKey& key) { PeerKeys::attach(key, endpoint_); }

    // Makes use of the slots that the peer has given; the link is open. `seed`: of the writes there.
    void attach_slots(std::uint32_t seed) { theirs.attach(endpoint_, seed); }

    // Hands over what was posted while the connection was opening. UCS_ERR_NO_RESOURCE: not all of it yet.
    ucs_status_t post_waiting();

    // Starts to close the endpoint without waiting for the peer; the request to be watched, or null when done.
    ucs_status_ptr_t close();

    // UCX has finished with all of its messages, and it has no endpoint.
    bool is_over() const { return endpoint_ == nullptr && pending == 0 && reads_ == 0; }

    // Forgets the engine's counters: what completes from now on is nobody's any more.
    void disown();

    UcxTransport& owner;
    Seat rank;
    Link link = Link::none;
    bool fenced = false;
    bool owes_fence = false;      // it has yet to be told that it is fenced
    bool fences_us = false;       // it takes this rank for dead, which the receiver has yet to be told
    bool failed = false;          // to be reported by the next poll, unless it is fenced or departed
    bool reported = false;        // and nothing of it is delivered any more
    bool heard = false;           // a message came from it, so it has a connection to us
    bool owes_handshake = false;  // it is watched
    bool departed = false;        // it said goodbye
    bool owes_ack = false;        // to its goodbye
    bool said_goodbye = false;
    bool goodbye_acked = false;
    bool queued = false;                     // in the transport's list of peers to attend to
    bool owes_slots = false;                 // it has yet to be given slots of ours
    std::uint16_t written = 0;               // messages of Kind::written to it, since the beginning,
    std::uint16_t its_written = 0;           // and from it
    std::uint32_t writes = 0;                // into its slots
    std::uint32_t its_writes = 0;            // into ours, as it said when it departed
    OwnSlots ours;                           // where its writes land; none unless puts are wanted
    PeerSlots theirs;                        // where ours do
    PeerKeys keys;                           // to its memory
    std::vector<std::uint32_t> wanted_keys;  // to ours, which it has yet to be told
    std::uint32_t pending = 0;
    std::uint64_t opening_since_ns = 0;  // as far as anybody looked
    std::vector<std::byte> address;      // the worker's; empty: not added yet
    std::uint32_t incarnation = 0;

  private:
    static void on_flushed(void* request, ucs_status_t status, void* peer);
    ucs_status_ptr_t submit(Slot& slot);
    ucs_status_t put_part(Slot& slot, const std::byte* bytes, std::size_t size, std::uint64_t where);
    void finish(Slot& slot);
    static void on_sent(void* request, ucs_status_t status, void* slot);
    static void on_put(void* request, ucs_status_t status, void* slot);
    static void on_got(void* request, ucs_status_t status, void* get);

    ucp_ep_h endpoint_ = nullptr;
    void (*opened_)(Peer&) = nullptr;
    void (*ended_)(Peer&) = nullptr;
    Slot* free_ = nullptr;
    Slot* waiting_ = nullptr;  // posted while the connection was opening, oldest first
    Slot* last_waiting_ = nullptr;
    std::unique_ptr<Slots> slots_;
    std::unique_ptr<std::array<Get, kMostReads>> gets_;  // a ring; made by the first read
    std::uint32_t first_read_ = 0;
    std::uint32_t reads_ = 0;
    bool has_lost_read_ = false;
};

}  // namespace coppice::transport::ucx
