// The handshake: two ranks prove to each other that they know the group's secret, before anything else is parsed.
//
// A pure machine: bytes go in, bytes come out; the owner has the socket, the clock and the source of chance. It takes exactly
// as many bytes as it says that it wants, 72 from a stranger at most, and allocates nothing.
//
//     initiator                                        acceptor
//        ---- Opening: who, to whom, room, a nonce --------->
//        <--- Challenge: which incarnation, room, a nonce -
//        ---- Proof: hash of all that, keyed, initiator -->     the acceptor knows who it is
//        <--- Welcome: hash of all that, keyed, acceptor -      the acceptor takes it; the initiator knows it
//
// A rank that leaves says so to a rank with which it has no connection, and waits for no answer: that one may be stopped.
//
//        ---- Opening, with that purpose; Proof ----------->     the acceptor knows that this rank has left
//
// - Who repeats a recorded farewell says nothing new: the rank that said it has left.
// - Both nonces are in both hashes: what was recorded proves nothing to a rank that draws another nonce.
// - Ranks, incarnations, group token and the side are in them, too: a proof is good for one pair, one group and one direction.
// - An initiator takes no other incarnation of its peer than the one whose address it has. What an acceptor makes of the
//   initiator's is its owner's business, once that is proven.
// - The connection stands for the initiator with the welcome, never before: what ends earlier may be tried again.
// - In place of its challenge or its welcome the acceptor may say `busy`, as many zeros: try again. Nobody has to prove that.
// - It authenticates the other end of a connection when that begins. What follows is neither secret nor protected
//   against a party that can change packets on their way.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/words.hpp"
#include "transport/secret.hpp"

namespace coppice::transport::tcp {

inline constexpr std::uint8_t kWireVersion = 3;

using Nonce = std::array<std::byte, 16>;
Nonce draw_nonce();  // of cryptographic quality

// What this rank is; the same for all of its handshakes.
struct Identity {
    std::uint64_t token = 0;
    Seat self;
    std::uint32_t incarnation = 0;
    std::uint32_t group_size = 0;
    std::uint32_t room = 0;    // what peers may have under way to this rank, see wire.hpp
    std::uint32_t buffer = 0;  // what is asked of the kernel for a socket
    GroupSecret secret{};
};

enum class Purpose : std::uint8_t { connection, farewell };

struct Opening {
    std::array<char, 4> magic{'C', 'P', 'T', 'C'};
    std::uint8_t version = kWireVersion;
    Purpose purpose = Purpose::connection;
    std::uint8_t reserved[2] = {};
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint32_t room = 0;
    std::uint32_t incarnation = 0;
    Nonce nonce{};
};
static_assert(sizeof(Opening) == 40);

struct Challenge {
    std::uint32_t room = 0;
    std::uint32_t incarnation = 0;
    Nonce nonce{};
};
static_assert(sizeof(Challenge) == 24);

using Proof = std::array<unsigned char, 32>;

// All that a rank says that leaves.
using FarewellWord = std::array<std::byte, sizeof(Opening) + sizeof(Proof)>;

class Handshake {
  public:
    // `identity` stays where it is for as long as this lives.
    // `incarnation`: the peer's.
    static Handshake initiate(const Identity& identity, Seat peer, std::uint32_t incarnation, const Nonce& nonce);
    static Handshake accept(const Identity& identity, const Nonce& nonce);
    // No handshake: what a rank that leaves says to a peer.
    static FarewellWord farewell(const Identity& identity, Seat peer, const Nonce& nonce);

    enum class State : std::uint8_t {
        under_way,
        departed,  // acceptor: the peer has proved which rank it is, and that it has left in peace
        proven,    // acceptor: the peer has proved which rank it is; welcome() is to be sent, or the connection closed
        done,      // the connection stands
        busy,      // initiator: the acceptor has no place or no time at present
        refused,   // what came was not what a rank of the group says
    };
    State state() const { return state_; }

    // The initiator's first word.
    std::span<const std::byte> opening() const { return std::as_bytes(std::span(&opening_, 1)); }
    // So many bytes are taken next; 0 when none are.
    std::size_t wanted() const;
    // Takes exactly wanted() bytes; returns what is to be sent now.
    std::span<const std::byte> take(std::span<const std::byte> bytes);
    // The acceptor's last word. Only when proven.
    std::span<const std::byte> welcome();
    // In its place, or in that of the challenge.
    std::span<const std::byte> busy() const;

    // Of the other side, once known (peer and incarnation: from the opening on, and only believed when proven).
    Seat peer() const { return peer_; }
    std::uint32_t incarnation() const { return incarnation_; }
    std::uint32_t room() const { return room_; }
    // The initiator has shown its proof, so that the acceptor may hold the connection to stand; the acceptor has heard an opening
    // that a rank might have said.
    bool committed() const { return step_ >= Step::welcome; }

  private:
    enum class Step : std::uint8_t { opening, challenge, proof, welcome, over };  // what comes in next

    Handshake(const Identity& identity, bool initiator) : identity_(&identity), initiator_(initiator) {}
    void take_opening(std::span<const std::byte> bytes);
    Proof prove(bool initiator) const;
    bool is_proof(std::span<const std::byte> bytes, bool initiator) const;

    const Identity* identity_;
    bool initiator_;
    State state_ = State::under_way;
    Step step_ = Step::opening;
    Seat peer_{};
    std::uint32_t incarnation_ = 0;
    std::uint32_t room_ = 0;
    Opening opening_;
    Challenge challenge_;
    Proof proof_{};  // what this side says
};

// The longest that wanted() ever is.
inline constexpr std::size_t kLongestStep = sizeof(Opening);

}  // namespace coppice::transport::tcp
