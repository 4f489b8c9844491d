// RDMA between hosts, straight on libibverbs and librdmacm: sends into a shared receive queue, and one-sided writes into
// the writer's own landing slots at the receiver.
//
// What is particular to it
//  - Connections are opened when first needed, one for each pair of ranks. When both sides open at once, the request of
//    the lower rank counts. The request and its answer carry version, group, rank, incarnation and keys; a peer that does not
//    belong to the group is refused and counted (Counters::garbage). Until a connection stands, messages wait here.
//  - Payloads leave from where they are if that is registered memory: a kept buffer, or memory that register_memory() was
//    told of. Small ones ride in the work request, others are copied into a buffer first (Counters::copies).
//  - write() and send() may pass each other. A payload that was written cannot be kept: its slot belongs to its writer.
//  - Death of a peer: its kernel ends the connection (tens of milliseconds after SIGKILL); where nobody is left to do so,
//    retries run out: options.timeout and .retries bound that, and a probe, an RDMA READ of the peer's liveness word every
//    probe_interval, makes something to be retried where nothing is said. The device answers it, so a peer that computes or is
//    stopped lives, however long. A child that the peer forked shares the connection and keeps it alive.
//  - A peer that does not come into the library while somebody wants to open a connection to it is waited for, as long as its
//    kernel answers for it (with MRA messages). It counts as dead when nobody answers, after a minute, or after connect_timeout
//    where there is one.
//  - A peer's right to write here is a memory window bound to its queue pair, where the device has those (type 2): nobody else
//    can use its key. Elsewhere it is a registration of the peer's slots alone.
//  - Reads of payloads and of the word beside them go through the same queue pair: what is read that is not exposed breaks it.
//  - fence() ends that right and the queue pair at once, in this order: a late write finds neither.
#pragma once

#include <rdma/rdma_cma.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/attention.hpp"
#include "transport/incarnations.hpp"
#include "transport/transport.hpp"
#include "transport/verbs/hub.hpp"
#include "transport/verbs/link.hpp"
#include "transport/verbs/open_device.hpp"
#include "transport/verbs/peer.hpp"
#include "transport/verbs/tuning.hpp"

namespace coppice::transport {

struct VerbsOptions : VerbsTuning {
    Seat self{};
    std::uint32_t group_size = 0;
    std::uint64_t group_token = 0;  // the same at all ranks of the group, and nowhere else
    std::uint32_t incarnation = 0;  // of this rank
    std::uint32_t window = 32;
};

class VerbsTransport final : public Transport {
  public:
    // Opens a listener on the chosen device; connects to nobody. The error says what is missing and how to get it.
    static Result<std::unique_ptr<VerbsTransport>> create(const VerbsOptions& options);

    // Closes at once, without a goodbye: peers with open connections take this rank for dead unless leave() was done.
    // Kept buffers end with it. Counters of payloads in flight are not touched any more.
    ~VerbsTransport() override;
    VerbsTransport(const VerbsTransport&) = delete;
    VerbsTransport& operator=(const VerbsTransport&) = delete;

    const Capabilities& capabilities() const override { return capabilities_; }
    std::string description() const override { return "verbs (" + device().name + ")"; }
    std::vector<Fact> facts() const override;
    Counters counters() const override { return hub_->counters; }
    std::string_view last_error() const override { return last_error_; }
    std::vector<std::byte> address() const override { return address_; }
    Result<void> add_peer(Seat peer, std::span<const std::byte> address) override;
    void watch(Seat peer) override;
    SendStatus send(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                    std::uint32_t* in_flight) override;
    SendStatus write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                     std::uint32_t* in_flight) override;
    std::size_t poll(Receiver& receiver) override;
    int arm() override;
    Result<void> register_memory(std::span<const std::byte> memory) override;
    void deregister_memory(const std::byte* begin) override;
    Result<Exposure> expose(std::span<std::byte> memory) override;
    void withdraw(const Exposure& memory) override { hub_->withdraw(memory); }
    SendStatus read(Seat from, const RemoteMemory& what, std::span<std::byte> into, const Exposure& own,
                    Reads* reads) override;
    bool may_be_read_by(Seat peer) const override;
    void release(Buffer buffer) override;
    void probe(Seat peer) override;
    void fence(Seat peer) override;
    void forget(Seat peer) override;
    // Peers are told, and everything accepted has arrived at their devices; one that does not answer within
    // kLeavePatience is not waited for any longer.
    bool leave() override;
    static constexpr Nanoseconds kLeavePatience{2'000'000'000};

    const verbs::Device& device() const { return hub_->device(); }
    // Peers write here by memory windows, as far as the device has enough of them.
    bool memory_windows() const { return hub_->has_windows(); }
    verbs::Link link(Seat peer) const;

  private:
    using Peer = verbs::Peer;
    // What of an event of rdma_cm is needed after it has been acknowledged.
    struct Event {
        rdma_cm_event_type type;
        rdma_cm_id* id;
        int status;
        std::vector<std::byte> data;
    };

    // An event of a connection, and what comes with it: why it ends; the peer's request and card.
    struct Happening {
        verbs::LinkEvent event;
        std::string why{};
        rdma_cm_id* id = nullptr;
        const verbs::Card* card = nullptr;
    };

    explicit VerbsTransport(const VerbsOptions& options) : options_(options) {}

    // verbs_transport.cpp: messages
    Peer* find(Seat rank) const { return rank.value < peers_.size() ? peers_[rank.value].get() : nullptr; }
    Peer& obtain(Seat rank);
    SendStatus post(Seat to, bool one_sided, std::span<const std::byte> header, std::span<const std::byte> payload,
                    std::uint32_t* in_flight);
    void drain_received();
    void receive(const ibv_wc& completion);
    bool deliver(const Peer& peer, const verbs::Prefix& prefix, std::span<const std::byte> message, Buffer buffer);
    void drain_sent();
    void drain_landing(Peer& peer);
    void queue(Peer& peer) { attention_.queue(peer); }
    void attend_to(Peer& peer);
    void say_goodbye(Peer& peer);

    // verbs_create.cpp
    Result<void> listen(const verbs::Device& device);
    verbs::Card own_card(const Peer& peer) const;
    verbs::Card expected_card() const;
    verbs::LinkOptions link_options() const;

    // verbs_connect.cpp: events of connections, reported to the table
    bool connect(Peer& peer);
    std::uint64_t set_up_deadline() const;
    void look_up();
    void keep_time(std::uint64_t now_ns);
    void handle(const Event& event);
    void on_request(const Event& event);
    void on_peer_event(Peer& peer, const Event& event);
    void on_response(Peer& peer, const Event& event);
    void on_rejected(Peer& peer, const Event& event);
    void break_link(Peer& peer, const std::string& why);
    // What it means for the caller; breaks the link where the device takes no more.
    SendStatus outcome(Peer& peer, verbs::Posted posted);
    void no_window(Peer& peer);
    void happened(Peer& peer, const Happening& what);
    // and what the table asks for
    void perform(Peer& peer, verbs::LinkAction action, const Happening& what);
    void attempt(Peer& peer, const Result<void>& result);
    Result<void> prepare(Peer& peer);
    Result<void> start_request(Peer& peer);
    Result<void> request_connection(Peer& peer);
    Result<void> renew(Peer& peer);
    void admit(Peer& peer, const Happening& what, bool anew);
    void open_window(Peer& peer);
    void accept(Peer& peer);
    void welcome(Peer& peer);
    void note_failure(const Peer& peer, const std::string& why);
    void close(Peer& peer);
    void forget_request(Peer& peer);

    VerbsOptions options_;
    Capabilities capabilities_;
    std::string last_error_;
    std::vector<std::byte> address_;
    rdma_event_channel* channel_ = nullptr;
    rdma_cm_id* listener_ = nullptr;
    verbs::OpenDevice device_;
    std::unique_ptr<verbs::Hub> hub_;
    std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null: never heard of, or forgotten
    Incarnations incarnations_;
    std::vector<Peer*> links_;                           // with a connection, or one being set up
    std::vector<Peer*> open_;                            // whose landing slots are looked at
    std::unordered_map<std::uint32_t, Peer*> by_queue_;  // queue pair number
    Attention<Peer> attention_;
    Receiver* receiver_ = nullptr;
    std::size_t delivered_ = 0;
    bool found_ = false;  // by this poll
    std::uint32_t setting_up_ = 0;
    std::uint32_t polls_ = 0;
    bool look_soon_ = false;
    std::uint64_t next_probe_ns_ = 0;
    std::uint64_t leave_until_ns_ = 0;  // 0: not leaving
};

}  // namespace coppice::transport
