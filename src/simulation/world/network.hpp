// What joins the ranks of one transport set in a world: a port for each rank and each of the two wires, and a segment of host
// memory for each rank. All of it is the world's, and outlives the ranks.
//
//   near   between ranks of one host, as over shared memory: a message is there at once, and outlives its sender
//   far    between hosts: it takes time, and what has not left its sender when that dies is lost, the last messages first.
//          A connection is made when one side first needs it. Until it stands the other side knows nothing of it, and of its end
//          neither; with a rank that has ended it is refused.
//
// Each pair of ranks has a bounded queue in each direction, first in, first out. Nothing is lost but by death, and by cuts that last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "simulation/world/clockwork.hpp"
#include "simulation/world/segment.hpp"
#include "transport/transport.hpp"

namespace coppice::world {

enum class Wire : std::uint8_t { near, far };

struct Message {
    enum class Kind : std::uint8_t { data, goodbye, fenced };
    Kind kind = Kind::data;
    std::uint64_t arrives_ns = 0;
    std::uint64_t leaves_ns = 0;
    std::vector<std::byte> bytes;  // header, then payload
    std::size_t header = 0;
    // A payload that has not left yet: where it is, and the sender's count of these.
    std::uint64_t reference = 0;
};

// What else than an arrival happens to a port.
inline constexpr std::uint64_t kConnectEvent = std::uint64_t{1} << 62;
inline constexpr std::uint64_t kReadEvent = std::uint64_t{1} << 61;

class Network;

// One rank's end of one of the wires. What the Transport of that rank says is told to its port.
class Port final : private Happening {
  public:
    Port(Network& network, Wire wire, std::uint32_t rank);

    void open() { there_ = true; }
    // The transport is gone. Without a goodbye before that looks like a death.
    void close();
    bool is_there() const { return there_; }

    void add_peer(std::uint32_t peer);
    void watch(std::uint32_t peer);
    transport::SendStatus send(std::uint32_t to, std::span<const std::byte> header, std::span<const std::byte> payload,
                               std::uint32_t* in_flight);
    std::size_t poll(transport::Receiver& receiver);
    // reads.cpp
    transport::Exposure expose(std::span<std::byte> memory);
    void withdraw(const transport::Exposure& memory);
    transport::SendStatus read(std::uint32_t from, const transport::RemoteMemory& what, std::span<std::byte> into,
                               transport::Reads* reads);
    bool may_be_read_by(std::uint32_t peer) const;
    void release(transport::Buffer buffer);
    void fence(std::uint32_t peer);
    void forget(std::uint32_t peer);
    bool leave();
    // Until a poll brings something whatever arrives wakes a rank that sleeps; so does ring().
    void arm() { armed_ = true; }
    void ring();

    bool left() const { return left_; }
    std::size_t kept() const { return kept_.size(); }
    const transport::Counters& counters() const { return counters_; }
    // That rank has died, or is out of reach from now on.
    void lose(std::uint32_t peer, std::uint64_t within_ns);
    // The network between them is cut, and the connection breaks here: what has not arrived by then does not any more.
    void lose_by_cut(std::uint32_t peer, std::uint64_t within_ns);
    bool is_joined_to(std::uint32_t peer) const { return wire_ == Wire::near ? peers_[peer].added : peers_[peer].open; }
    // This rank has died.
    void die();

  private:
    struct Peer {
        bool added = false;
        bool is_forgotten = false;   // another one may have its seat
        bool asked = false;          // this side has begun to connect
        bool open = false;           // the connection stands
        bool gone = false;           // its end was told
        std::uint64_t ready_ns = 0;  // when it stands, if this side has begun
        bool fenced = false;
        bool wants_room = false;
        std::uint64_t detected_ns = kNever;
        bool is_cut_off = false;  // it is lost by a cut
        std::uint64_t last_arrival_ns = 0;
        std::uint64_t last_leaving_ns = 0;
        std::uint64_t latency_ns = 0;
        std::uint64_t last_read_ns = 0;
        std::uint64_t last_landing_ns = 0;
        std::deque<Message> in;  // from that peer
    };
    struct Exposed {
        std::uint32_t key;
        std::span<std::byte> memory;
    };
    // Of memory of `from`: it is read at one time, and lands at another.
    struct Read {
        std::uint32_t from;
        transport::RemoteMemory what;
        std::span<std::byte> into;
        transport::Reads* reads;
        std::vector<std::byte> bytes{};
        bool is_taken = false;
        bool has_arrived = false;  // poll() tells it
    };
    struct Reference {
        std::uint32_t to;
        const std::byte* payload;
        std::size_t bytes;
        std::uint32_t* in_flight;
    };

    void happen(std::uint64_t what) override;
    void connect(std::uint32_t peer);
    void meet(std::uint32_t peer);
    bool tries_in_vain(std::uint32_t peer);
    bool has_waiting(std::uint32_t peer) const;
    void say(std::uint32_t to, Message::Kind kind);
    void put(std::uint32_t to, Message message);
    void leave_from(std::uint64_t reference);
    void read_happens(std::uint64_t number);
    void take_from_memory(Read& read);
    std::size_t tell_of_reads();
    void drop_reads(std::uint32_t from);
    std::size_t poll_all(transport::Receiver& receiver);
    bool may_take_from(std::uint32_t from) const;
    std::size_t take(std::uint32_t from, transport::Receiver& receiver);
    bool deliver(std::uint32_t from, Message& message, transport::Receiver& receiver);
    void tell_of_message(std::uint32_t from, const Message& message) const;
    void tell_of_read(const Read& read) const;
    void look_again_at(std::uint64_t time_ns);
    void drop_what_is_inside();
    void drop_what_has_not_arrived(std::uint32_t peer);
    Port& port_of(std::uint32_t rank) const;

    Network& network_;
    Clockwork& clockwork_;
    const Wire wire_;
    const std::uint32_t rank_;
    bool there_ = false;
    bool left_ = false;
    bool goodbye_said_ = false;
    bool armed_ = false;
    std::size_t told_fencers_ = 0;  // near: of those that its segment names
    std::vector<Peer> peers_;
    std::uint64_t next_look_ns_ = 0;                 // nothing arrives before
    std::map<std::uint64_t, Reference> references_;  // payloads that have not left, by number
    std::uint64_t next_reference_ = 0;
    std::vector<std::uint32_t*> completed_;
    std::vector<Exposed> exposed_;
    std::uint32_t next_key_ = 1;
    std::map<std::uint64_t, Read> reads_;  // by number
    std::uint64_t next_read_ = 0;
    std::vector<transport::Reads*> dropped_reads_;
    std::map<transport::Buffer, std::vector<std::byte>> kept_;
    transport::Buffer next_buffer_ = 1;
    transport::Counters counters_;
};

class Network {
  public:
    // `stir`: something has arrived at a rank, or gone from it, or its peer is gone.
    // `regions`: of the host memory of each rank.
    Network(Clockwork& clockwork, std::uint32_t window, std::span<const transport::Region> regions,
            std::function<void(std::uint32_t rank, bool armed)> stir);

    Clockwork& clockwork() { return clockwork_; }
    std::uint32_t ranks() const { return clockwork_.fate().processes(); }
    // Seats are what engines count by. Which rank of the world has one, as `observer` was told last.
    Seat seat_of(std::uint32_t rank) const { return Seat(clockwork_.fate().seat_of(rank)); }
    std::uint32_t rank_at(std::uint32_t observer, Seat seat) const { return rank_at_[observer][seat.value]; }
    void note_seat(std::uint32_t observer, Seat seat, std::uint32_t rank) { rank_at_[observer][seat.value] = rank; }
    Port& port(Wire wire, std::uint32_t rank) { return *(wire == Wire::near ? near_ : far_)[rank]; }
    Segment& segment(std::uint32_t rank) { return *segments_[rank]; }
    const transport::Regions& regions() const { return regions_; }
    bool same_host(std::uint32_t a, std::uint32_t b) const {
        return clockwork_.fate().host_of[a] == clockwork_.fate().host_of[b];
    }
    void rank_died(std::uint32_t rank);
    void cut(const Cut& cut);
    // For so long from now that it is noticed.
    bool is_broken(std::uint32_t a, std::uint32_t b) const;
    // From when on something can pass between these two, not before `time_ns`; kNever: never again.
    std::uint64_t passable_ns(std::uint32_t a, std::uint32_t b, std::uint64_t time_ns) const;
    // How long it takes that rank to notice a death.
    std::uint64_t detection_ns(Wire wire, std::uint32_t observer);
    void stir(std::uint32_t rank, bool armed) { stir_(rank, armed); }

  private:
    Clockwork& clockwork_;
    std::function<void(std::uint32_t, bool)> stir_;
    std::vector<std::unique_ptr<Port>> near_;
    std::vector<std::unique_ptr<Port>> far_;
    transport::Regions regions_;
    std::vector<std::unique_ptr<Segment>> segments_;
    std::vector<std::vector<std::uint32_t>> rank_at_;  // by observer, then by seat
};

}  // namespace coppice::world
