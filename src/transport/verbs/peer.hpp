// One peer: the connection's queue pair and memory, what is under way to it, and what lands from it.
//
// A work request asks for a completion only when its payload is referred to, or every kSignalEvery-th time; a queue pair
// completes in order, so one completion settles all before it. Memory of a connection is made when it is opened.
//
// Sends are bounded as writes are: a sender is at most so many ahead of what the receiver has taken (class Credit), so that a
// send never finds the receive queue empty. Receiver-not-ready would be harmless to most devices, but soft-RoCE counts the
// time it takes as lack of an answer and gives the connection up. The counts come back in the prefix of every message in
// the other direction; a side that hears nothing reads them from the other's memory.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/shared_words.hpp"
#include "base/words.hpp"
#include "transport/landing.hpp"
#include "transport/transport.hpp"
#include "transport/verbs/hub.hpp"
#include "transport/verbs/link.hpp"
#include "transport/verbs/wire.hpp"

namespace coppice::transport::verbs {

// How the work requests of a connection behave; the same for all of them.
struct LinkOptions {
    std::uint8_t timeout = 14;  // exponent: 4.096 µs · 2^timeout
    std::uint8_t retries = 6;
    std::uint8_t service_level = 0;
    std::uint8_t traffic_class = 0;
    std::uint16_t slots = 16;  // writes, and sends, that either side may be ahead
};

enum class Posted : std::uint8_t { yes, full, broken };

class Peer {
  public:
    Peer(Hub& hub, Seat number) : rank(number), hub_(hub) {}
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;
    ~Peer();

    // Makes queue pair and memory, unless they are there. `seed_in`: of the writes that land here.
    Result<void> prepare(const LinkOptions& options, std::uint32_t seed_in, std::uint32_t seed_out);
    // Another queue pair: the number of one whose request was given up is known to the peer, which would take a second
    // connection with it for a leftover.
    Result<void> renew();
    bool prepared() const { return queue_pair_ != nullptr; }
    // What the other side has to know; rank, incarnation and token are the caller's to add.
    Card card() const;
    // Brings the queue pair to where it can send and receive, as the connection `id` says and `card` allows.
    Result<void> activate(const LinkOptions& options, const Card& card);
    // Only the peer's own queue pair will write to the slots, by a memory window; else any process with the key.
    bool has_window() const { return static_cast<bool>(window_); }
    // Opens the window by the queue pair, which must be active. Its completion is the connection's first.
    Posted open_window();

    // Sends, or writes into the next landing slot at the peer. The payload is copied into the work request where it fits,
    // referred to (*in_flight) where it lies in registered memory, and else copied into a buffer of the pool.
    Posted post(bool one_sided, Kind kind, std::span<const std::byte> header, std::span<const std::byte> payload,
                std::uint32_t* in_flight);
    // Accepts a message while the connection is being set up. The payload is referred to.
    bool defer(bool one_sided, std::span<const std::byte> header, std::span<const std::byte> payload,
               std::uint32_t* in_flight);
    // Posts what was deferred. `full`: not all of it yet.
    Posted post_deferred();
    bool has_deferred() const { return deferred_first_ != deferred_end_; }
    // Reads the peer's liveness word, if that is not under way already. Its failure breaks the queue pair.
    bool probe();

    // Reads what the peer has exposed. Its failure breaks the queue pair.
    Posted read(const RemoteMemory& what, std::span<std::byte> into, std::uint32_t own_key, Reads* reads);

    // A completion with this number: all before it have left, too.
    // How many of them were reads of what the peer has exposed is returned.
    std::uint32_t completed(std::uint32_t number);
    bool all_left() const { return posted_ == completed_ && !has_deferred(); }
    bool outstanding() const { return posted_ != completed_; }

    void learn_consumed(const Prefix& prefix) {
        writes_.learn(prefix.writes_consumed);
        sends_.learn(prefix.sends);
    }
    // One of its writes, or sends, was consumed: the peer may read so, and hears so with the next message.
    void consumed_write();
    void consumed_send();

    // Ends the device's part at once: nothing of the peer lands from here on, nothing refers to payloads. Idempotent.
    void cut();
    // Settles the counters of payloads (unless they are nobody's any more), and gives the memory back.
    void settle(bool owners_live);
    std::uint32_t queue_pair_number() const { return queue_pair_number_; }

    const Seat rank;
    Link link = Link::none;
    rdma_cm_id* id = nullptr;
    std::optional<Address> address;
    bool fenced = false;
    bool failed = false;    // to be reported, unless fenced or departed
    bool departed = false;  // said goodbye
    bool reported = false;
    bool said_goodbye = false;
    bool queued = false;             // for the transport's attention
    bool probed = false;             // a probe was answered: for alive()
    bool heard = false;              // something completed or arrived since the last probe was due
    std::uint64_t ask_again_ns = 0;  // while yielding
    std::uint64_t requested_ns = 0;  // when this side's latest request began
    std::uint64_t deadline_ns = 0;   // for the set-up
    Landing landing;

  private:
    enum class Purpose : std::uint8_t { message, probe, window, read };
    struct Sent {
        std::uint32_t* in_flight = nullptr;
        std::uint32_t bounce = kNone;
        Reads* reads = nullptr;
        Purpose purpose = Purpose::message;
    };
    struct Deferred {
        std::array<std::byte, kMaxHeader> header;
        std::uint8_t header_size = 0;
        bool one_sided = false;
        const std::byte* payload = nullptr;
        std::uint32_t payload_size = 0;
        std::uint32_t* in_flight = nullptr;
    };
    static constexpr std::uint32_t kNone = ~0U;
    static constexpr std::uint32_t kDepth = kSendDepth + kReserved;

    // The desk: memory of this side that the peer may read (the word) and this side sends from.
    struct Desk {
        alignas(64) shared::Published<
            std::uint64_t> word;         // writes consumed, and above them sends consumed: what the peer's probe reads
        alignas(64) std::uint64_t read;  // where ours lands
        alignas(64) std::array<std::array<std::byte, kLine>, kDepth> lines;
    };
    Desk& desk() const { return *reinterpret_cast<Desk*>(desk_.base()); }

    Result<void> make_slots(int for_others);
    Result<void> make_window();
    void publish_consumed();
    Posted submit(ibv_send_wr& request, const Sent& sent, bool signal);

    Hub& hub_;
    ibv_qp* queue_pair_ = nullptr;
    std::uint32_t queue_pair_number_ = 0;
    Region landing_region_;
    Window window_;  // to the landing region, which is open to nobody else then
    Region desk_;
    Card theirs_;
    Credit writes_;
    Credit sends_;
    std::uint32_t sends_consumed_ = 0;
    std::uint32_t seed_in_ = 0;
    std::uint32_t seed_out_ = 0;
    std::uint16_t slots_ = 0;
    std::uint64_t posted_ = 0;
    std::uint64_t completed_ = 0;
    std::uint32_t unsignalled_ = 0;
    bool probing_ = false;
    std::uint32_t reads_under_way_ = 0;
    std::array<Sent, kDepth> sent_{};
    std::unique_ptr<std::array<Deferred, kSendDepth>> deferred_;
    std::uint32_t deferred_first_ = 0;  // free running
    std::uint32_t deferred_end_ = 0;
};

}  // namespace coppice::transport::verbs
