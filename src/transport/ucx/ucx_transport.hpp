// The transport between hosts: UCX active messages over whatever lane UCX has there, always with peer error handling.
//
// What is particular to it
//  - write() is send() unless options.put is on. One-sided puts are safe only on lanes with native RMA, and this UCX does
//    not say which those are; its emulated puts (tcp) let any connected peer write anywhere, so RMA is not even switched on.
//  - With options.put (RC alone) each rank gives each connected peer slots of its own, in memory mapped for that peer,
//    and write() puts into them from the moment the peer's offer is here; before that it is send(). Then write() and
//    send() may pass each other, and a payload that was written can't be kept. fence() unmaps the peer's slots at once.
//    What it costs: UCX switches emulated puts on as well, which any process that has connected to this worker may
//    send, and which write anywhere in this process. So it is for networks that can be trusted, and off by default.
//    Then there are reads, too, under the same condition; the key to a piece of memory is asked for by its first reader.
//  - Which peers are watched: UCX tells of a peer's death only where this side has an endpoint of its own. So a rank
//    that hears from a peer opens the way back (over the same connection), and either end notices the other's death. A
//    peer with which nothing was ever exchanged is watched from watch() on. Over RDMA the device notices only when
//    something is sent to it: each connection gets a message of 64 bytes every kPingInterval, so that death is known
//    about a second and a half later. (See worker.cpp for why not UCX's keepalive.) Over TCP the kernel asks, and this side
//    looks at what it gets no acknowledgement of (silent_hosts.hpp).
//  - A peer that is connected to only after it has left looks dead; one that left while connected does not. Either way
//    send() to it answers `failed`.
//  - Messages are delivered straight from UCX's progress, within poll(). What the receiver sends there is put off (`again`),
//    and so are watch() and fence(): on tcp a send that fails, or an endpoint that takes over the very connection that is
//    being read, pulls it away from under UCX 1.13's reader, which then dies.
//  - A payload can be kept where UCX hands over its buffer (rc, ud), not on tcp; at most kMaxKept at a time.
//  - `again`: peer.hpp's kMaxPending messages to one peer are under way, or wait for the connection to be set up.
//    One slow peer does not hold up the others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/attention.hpp"
#include "transport/incarnations.hpp"
#include "transport/transport.hpp"
#include "transport/ucx/peer.hpp"
#include "transport/ucx/silent_hosts.hpp"
#include "transport/ucx/worker.hpp"

namespace coppice::transport {

struct UcxOptions {
    Seat self{};
    std::uint32_t incarnation = 0;
    std::uint32_t group_size = 0;
    std::uint64_t group_token = 0;  // the same at all ranks of the group, and nowhere else
    std::string net_devices;        // as UCX_NET_DEVICES, and wins over it; empty: the environment's, else all
    std::string tls;                // as UCX_TLS, likewise
    bool loopback_only = false;     // all ranks of the group are on this host: one device less to poll
    bool put = false;               // write() is one-sided; refused where UCX has more than RC
    // Which hosts may connect to UCX's TCP listeners, which trust anything that connects; none: any. Where they cannot
    // be closed to others, open_to_strangers() says why.
    std::optional<Admission> admitted{};
    // For peers that have closed theirs before they heard of this host.
    std::optional<HostAddresses> host{};
    // Over RDMA: a peer that has not answered the first word for so long is taken for dead. One that computes answers all
    // the same (a thread of UCX does), one that is stopped does not.
    Nanoseconds connect_patience{30'000'000'000};
};

class UcxTransport final : public Transport {
  public:
    static constexpr std::uint32_t kMaxKept = 256;

    // Opens a listener; connects to nobody. Fails with a remedy when there is no device, no transport, too few file
    // descriptors, or an address above 2 KiB, and when puts are wanted that would not all be native.
    static Result<std::unique_ptr<UcxTransport>> create(const UcxOptions& options);

    // Closes at once, without a goodbye: peers with open connections take this rank for dead unless leave() was done.
    // Kept buffers are given back. Counters of payloads in flight are not touched any more.
    ~UcxTransport() override;
    UcxTransport(const UcxTransport&) = delete;
    UcxTransport& operator=(const UcxTransport&) = delete;

    const Capabilities& capabilities() const override { return capabilities_; }
    std::string description() const override { return worker_.over_rdma() ? "ucx (RDMA)" : "ucx (TCP)"; }
    std::vector<Fact> facts() const override;
    Counters counters() const override { return counters_; }
    std::vector<std::byte> address() const override { return address_; }
    Result<void> add_peer(Seat peer, std::span<const std::byte> address) override;
    void watch(Seat peer) override;
    SendStatus send(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                    std::uint32_t* in_flight) override;
    SendStatus write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                     std::uint32_t* in_flight) override;
    std::size_t poll(Receiver& receiver) override;
    int arm() override;
    void release(Buffer buffer) override;
    void fence(Seat peer) override;
    void forget(Seat peer) override;
    Result<Exposure> expose(std::span<std::byte> memory) override;
    void withdraw(const Exposure& memory) override;
    SendStatus read(Seat from, const RemoteMemory& what, std::span<std::byte> into, const Exposure& own,
                    Reads* reads) override;
    bool may_be_read_by(Seat peer) const override;

    // Every peer with an open connection is told, and answers when it polls: then nothing is under way to it. One that
    // does not answer within kLeavePatience (it computes, or is stopped) is not waited for any longer.
    bool leave() override;
    static constexpr Nanoseconds kLeavePatience{500'000'000};

    static constexpr Nanoseconds kPingInterval{500'000'000};

    // Whether an endpoint to that peer is open, whichever side began; nothing is known of whether it is alive.
    bool connected(Seat peer) const;
    bool is_connected(Seat peer) const override { return connected(peer); }

    // Why a stranger to the job may reach a TCP listener of UCX's; empty: none may.
    const std::string& open_to_strangers() const { return worker_.open_to_strangers(); }
    unsigned listeners() const { return worker_.listeners(); }

    std::string_view last_error() const override { return last_error_; }

    // Of Counters::writes, those that were one-sided.
    std::uint64_t puts() const { return puts_; }

  private:
    using Peer = ucx::Peer;

    UcxTransport(const UcxOptions& options, ucx::Worker worker);
    Result<void> listen(const std::optional<HostAddresses>& host);

    Peer* find(Seat rank) { return rank.value < peers_.size() ? peers_[rank.value].get() : nullptr; }
    Peer& obtain(Seat rank);
    Peer* meet(Seat rank, std::uint32_t incarnation);
    bool connect(Peer& peer);
    void greet(Peer& peer);
    bool notify(Peer& peer, ucx::Kind kind, std::span<const std::byte> what = {}, std::span<const std::byte> key = {},
                std::uint32_t* in_flight = nullptr);
    bool give_slots(Peer& peer);
    void give_keys(Peer& peer);
    bool find_key(Peer& peer, ucx::PeerKey& key);
    SendStatus post(Seat to, bool one_sided, std::span<const std::byte> header, std::span<const std::byte> payload,
                    std::uint32_t* in_flight);
    void break_link(Peer& peer, ucs_status_t status);
    void say_what_it_lacks(bool is_closed);
    void tell(std::string what);

    static ucs_status_t on_message(void* argument, const void* header, size_t header_size, void* data, size_t size,
                                   const ucp_am_recv_param_t* param);
    static ucs_status_t on_stranger(void* argument, const void* header, size_t header_size, void* data, size_t size,
                                    const ucp_am_recv_param_t* param);
    static void on_opened(Peer& peer);
    static void on_read(Peer& peer);
    static void on_error(void* peer, ucp_ep_h endpoint, ucs_status_t status);
    void note(Peer& peer, ucx::Kind kind, std::span<const std::byte> what, std::span<const std::byte> key);
    ucs_status_t deliver(const Peer& peer, std::span<const std::byte> header, void* data, std::size_t size,
                         bool can_be_kept);

    void drain_slots();
    void drain_slots(Peer& peer);
    void queue(Peer& peer) { attention_.queue(peer); }
    void attend(Receiver& receiver);
    void attend_to(Peer& peer, Receiver& receiver);
    void close(Peer& peer);
    void look_after_connections();
    void look_at_sockets();
    void begin_to_talk();
    void reap_closed();

    Seat self_;
    std::uint32_t group_size_;
    std::uint64_t token_;
    std::uint64_t own_token_;  // as this rank's messages have it
    bool put_;
    Nanoseconds connect_patience_;
    Capabilities capabilities_;
    Counters counters_;
    Receiver* receiver_ = nullptr;  // while poll() is on the stack
    bool connections_changed_ = false;
    bool progressing_ = false;  // UCX is on the stack: no send, no new endpoint now
    std::size_t delivered_ = 0;
    Attention<Peer> attention_;
    std::vector<ucs_status_ptr_t> closing_;
    std::vector<Peer*> writers_;  // with slots here
    std::uint64_t puts_ = 0;
    std::vector<std::unique_ptr<Peer>> peers_;      // by rank; null: never heard of, or forgotten
    std::vector<std::unique_ptr<Peer>> forgotten_;  // that UCX has yet to finish with
    Incarnations incarnations_;
    std::uint64_t leave_until_ns_ = 0;          // 0: not leaving
    std::uint64_t next_ping_ns_ = 0;            // over RDMA
    Looks looks_;                               // over TCP, at sockets
    bool connects_ = false;                     // while some may be opening
    bool is_blind_ = false;                     // the last look at sockets found no new ones
    std::uint32_t polls_ = 0;                   // that brought something
    std::vector<ucx::SilentHosts::Lost> lost_;  // that the last look at sockets found
    std::string lacks_;                         // what it does without, at the end of each error
    std::string last_error_;
    std::vector<std::byte> address_;
    std::array<void*, kMaxKept> kept_{};  // UCX's buffers, by Buffer − 1
    std::array<std::uint16_t, kMaxKept> kept_free_{};
    std::uint32_t kept_free_count_ = kMaxKept;
    ucx::Worker worker_;
    ucx::SilentHosts silent_hosts_;
    ucx::OwnMemory open_memory_;
};

}  // namespace coppice::transport
