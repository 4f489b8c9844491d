// The transport for Ethernet between hosts: one TCP connection a pair, made when it is needed, by ranks of the group alone.
//
// What is particular to it
//  - It listens to no peer that has not proved that it knows the group's secret (handshake.hpp). Strangers are few at a
//    time, and short (strangers.hpp).
//  - A lost host or cable is found within 4 s, idle or busy, at both ends (socket.hpp); a rank that is stopped or computes is
//    not mistaken for one, however much is sent to it (wire.hpp, credits).
//  - Payloads are copied or in the kernel when send() returns; in_flight is never touched. Payloads can't be kept. write() is
//    send(), in order with it.
//  - What is sent before the connection stands waits here, up to kLeastRoom.
//  - Both may connect at once: the connection that the lower rank began is taken. Where only one can reach the other, its is.
//  - A peer that is connected to only after it has left looks dead, unless it has said farewell (farewell.hpp); one that left
//    while connected does not.
//  - arm() shows everything: arrivals, room, deaths, and what has to be done at a time.
//  - A forked child has none of the sockets (descriptor.hpp), and destroying its copy of this object does nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/attention.hpp"
#include "transport/incarnations.hpp"
#include "transport/tcp/address_book.hpp"
#include "transport/tcp/farewell.hpp"
#include "transport/tcp/peer.hpp"
#include "transport/transport.hpp"

namespace coppice::transport {

struct TcpOptions {
    Seat self{};
    std::uint32_t incarnation = 0;
    std::uint32_t group_size = 0;
    std::uint64_t group_token = 0;  // the same at all ranks of the group
    GroupSecret secret{};           // likewise, and known to nobody else
    std::string interfaces{};       // names, separated by commas; empty: all that are up, but loopback
    std::uint16_t port = 0;         // rank r listens at this plus r; 0: anywhere
    std::uint32_t buffer = 0;       // asked of the kernel for each connection and direction; 0: 2 MiB
    bool loopback_only = false;     // all ranks of the group are on this host
};

class TcpTransport final : public Transport {
  public:
    // Opens listeners; connects to nobody. Fails with a remedy when there is no address, no port, or too few descriptors.
    static Result<std::unique_ptr<TcpTransport>> create(const TcpOptions& options);

    // Closes at once, without a goodbye: peers with open connections take this rank for dead unless leave() was done.
    ~TcpTransport() override;
    TcpTransport(const TcpTransport&) = delete;
    TcpTransport& operator=(const TcpTransport&) = delete;

    const Capabilities& capabilities() const override { return capabilities_; }
    std::vector<Fact> facts() const override;
    Counters counters() const override;
    std::string_view last_error() const override { return last_error_; }
    std::vector<std::byte> address() const override { return tcp::pack_address(endpoints_, identity_.incarnation); }
    Result<void> add_peer(Seat peer, std::span<const std::byte> address) override;
    void watch(Seat peer) override;
    SendStatus send(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                    std::uint32_t* in_flight) override;
    SendStatus write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                     std::uint32_t* in_flight) override;
    std::size_t largest(Seat to) const override;
    void begin_batch() override { is_batch_ = true; }
    void end_batch() override;
    bool keep_batch() override {
        is_batch_ = false;
        return !batch_.empty();
    }
    std::size_t poll(Receiver& receiver) override;
    int arm() override { return epoll_.get(); }
    void release(Buffer /*buffer*/) override {}
    void fence(Seat peer) override;
    void forget(Seat peer) override;

    // Every peer with an open connection is told, and answers when it polls: then nothing is under way to it. One that
    // does not answer within kLeavePatience (it computes, or is stopped) is not waited for any longer.
    bool leave() override;
    void say_farewell(Seat peer) override;
    static constexpr std::uint64_t kLeavePatienceNs = 500'000'000;

    // Whether a connection with that peer stands, whichever side began.
    bool connected(Seat peer) const;
    bool is_connected(Seat peer) const override { return connected(peer); }
    std::span<const tcp::Endpoint> endpoints() const { return endpoints_; }

  private:
    using Peer = tcp::Peer;
    using Descriptor = tcp::Descriptor;
    enum class Tag : std::uint8_t { listener, timer, stranger, attempt, held, connection };

    explicit TcpTransport(const TcpOptions& options);
    Result<void> listen(const TcpOptions& options);

    Peer* find(Seat rank) const { return rank.value < peers_.size() ? peers_[rank.value].get() : nullptr; }
    // Makes it where there is none.
    Peer& obtain(Seat rank);
    // One that was added, for the first message to it; null: it was not.
    Peer* find_added(Seat rank) {
        if (Peer* const peer = find(rank); peer != nullptr) [[likely]]
            return peer;
        return book_.has(rank) ? &obtain(rank) : nullptr;
    }
    SendStatus post(Seat to, tcp::Kind kind, std::span<const std::byte> header, std::span<const std::byte> payload,
                    std::uint64_t& counter);

    // tcp_send.cpp
    void gather(Peer& peer);
    bool notify(Peer& peer, tcp::Kind kind);
    void flush(Peer& peer);

    // tcp_connect.cpp: how connections come to be
    bool connect(Peer& peer);
    void accept(std::size_t listener);
    void look_at_listeners(bool looks);
    void meet(std::size_t place);
    void hear_farewells();
    void learn_departure(const tcp::Handshake& word);
    void admit(tcp::Strangers::Proven proven);
    void welcome(Peer& peer, tcp::Strangers::Proven proven);
    void turn_away(tcp::Strangers::Proven proven);
    void open(Peer& peer, Descriptor socket, std::uint32_t room);
    void settle(Peer& peer, tcp::Attempt::Outcome outcome);
    void give_up_attempt(Peer& peer);
    void look_at_held(Peer& peer);
    void look_at_clock();
    void look_at_strangers(std::uint64_t now_ns);
    void begin_to_talk();
    void look_for_silence(std::uint64_t now_ns);
    void set_timer(std::uint64_t at_ns);
    void watch_attempt(Peer& peer);

    // what happens on those that stand
    void look();
    void dispatch(std::uint64_t what, std::uint32_t events);
    void read(Peer& peer);
    void place_large(Peer& peer);
    void take_frames(Peer& peer);
    void take(Peer& peer, const tcp::Frame& frame);
    void say_what_is_owed(Peer& peer);
    void find_broken(Peer& peer);
    std::string whereabouts(const Peer& peer) const;
    // An empty remedy: what lets a rank be reached.
    void break_link(Peer& peer, std::string_view why, std::string_view remedy = {});
    void close(Peer& peer);
    void queue(Peer& peer) { attention_.queue(peer); }
    void attend_to(Peer& peer);

    void add_to_epoll(int socket, Tag tag, std::size_t index, std::uint32_t events, bool known = false);
    void remove_from_epoll(int socket);

    tcp::Identity identity_;
    Capabilities capabilities_{.name = "tcp",
                               .native_write = false,
                               .inline_size = 0,
                               .eager_size = tcp::kMaxLarge,
                               .keeps_batches = true,
                               .arm_is_complete = true,
                               .hears_unknown = true};
    Counters counters_;
    std::uint64_t forks_;
    Descriptor epoll_;
    Descriptor timer_;
    std::uint64_t timer_ns_ = UINT64_MAX;  // when it goes off
    std::vector<tcp::Endpoint> endpoints_;
    std::vector<Descriptor> listeners_;
    // Nothing was left to take a connection with, and nobody looks at them until then. UINT64_MAX: somebody does.
    std::uint64_t listen_again_ns_ = UINT64_MAX;
    tcp::Strangers strangers_;
    tcp::AddressBook book_;                     // of all that were added
    std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null: nothing was to do with it yet, or it is forgotten
    std::size_t made_ = 0;                      // of these, so far
    Incarnations incarnations_;
    std::vector<Peer*> connecting_;
    std::vector<Peer*> open_;
    Looks looks_;  // for silence, at those
    Attention<Peer> attention_;
    bool is_batch_ = false;     // between begin_batch() and end_batch()
    std::vector<Peer*> batch_;  // to which something waits that was sent since
    Peer* hot_ = nullptr;       // whose message came last: looked at first
    std::uint32_t fruitless_ = 0;
    std::uint32_t in_a_row_ = 0;
    bool asks_hot_ = false;
    Receiver* receiver_ = nullptr;  // while poll() is on the stack
    std::size_t delivered_ = 0;
    std::uint64_t leave_until_ns_ = 0;      // 0: not leaving
    std::vector<tcp::Farewell> farewells_;  // that are under way
    std::string last_error_;
};

}  // namespace coppice::transport
