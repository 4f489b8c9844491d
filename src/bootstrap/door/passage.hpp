// How two processes get to know each other at a door, and what they say afterwards: a pure machine, without a socket.
//
//     who knocks                                    the door
//        ---- Knock: who, by which ticket, a nonce --->
//        <--- Answer: a nonce, hash of all that, keyed, door -     who knocks knows that this is a door of the ticket's group
//        ---- Proof: hash of all that, keyed, who knocks ----->    the door knows that it has the ticket
//        <=== frames, sealed both ways ===>
//
// - The key is that of a ticket (ticket.hpp), or that of members; the door makes it from what the knock says, and keeps no list of tickets.
// - Both nonces are in all hashes, and so is the side: what was recorded, or is sent back, proves nothing.
// - Frames are encrypted and authenticated, each direction with a key of its own, by their number: one that is changed, left out, repeated or
//   out of order ends the connection. For the door tells a newcomer the group's secret.
// - Before the proof 112 bytes are read of whoever knocks, and nothing is allocated for more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "bootstrap/launcher_protocol.hpp"
#include "bootstrap/ticket.hpp"

namespace coppice::bootstrap {

inline constexpr std::uint16_t kDoorVersion = 2;
using DoorNonce = std::array<unsigned char, 32>;
DoorNonce draw_door_nonce();  // of cryptographic quality

enum class Role : std::uint8_t { newcomer = 1, member = 2 };

struct Knock {
    std::array<char, 4> magic{'C', 'P', 'T', 'D'};
    std::uint16_t version = kDoorVersion;
    Role role = Role::newcomer;
    std::uint8_t word_size = sizeof(void*);
    std::uint32_t byte_order = kByteOrderProbe;
    std::uint32_t uses = 0;  // these three are the ticket's terms
    TicketId id{};
    std::uint64_t expires_ns = 0;
    std::uint32_t number = 0;  // of a member: which one; of a newcomer: drawn, the same whenever it begins anew
    std::uint32_t incarnation = 0;
    DoorNonce nonce{};

    Terms terms() const { return {id, uses, expires_ns}; }
    std::uint64_t joiner() const { return std::uint64_t{number} << 32 | incarnation; }
};
static_assert(sizeof(Knock) == 80);

using DoorProof = std::array<unsigned char, 32>;

struct Answer {
    std::array<char, 4> magic{'C', 'P', 'T', 'D'};
    std::uint16_t version = kDoorVersion;
    std::uint16_t refuses = 0;  // 1: it can't understand who knocks
    DoorNonce nonce{};
    DoorProof proof{};
};
static_assert(sizeof(Answer) == 72);

class Passage {
  public:
    // A frame and what is around it, unless this side has said otherwise.
    static constexpr std::size_t kMostFrame = sizeof(FrameHeader) + 4 + kMaxBlob + 64;
    using FindKey = std::function<std::optional<Key>(const Knock&)>;  // none: nobody knocks like that here

    static Passage knock(const Key& key, const Knock& knock);
    // The door's side. `find_key` may be called until the proof has come.
    static Passage answer(FindKey find_key, const DoorNonce& nonce);

    enum class State : std::uint8_t {
        under_way,
        open,
        misunderstood,  // the other side is of another version, word size or byte order
        forged,         // who knocks: the door does not know this ticket. The door: who knocks does not have it
        broken,         // what came is not what these two say
    };
    State state() const { return state_; }
    bool is_over() const { return state_ != State::under_way && state_ != State::open; }
    const Knock& knocked() const { return knock_; }
    std::uint16_t their_version() const { return their_version_; }

    void receive(std::span<const std::byte> bytes);
    // The next frame that has come, header and body. Only when open.
    std::optional<std::vector<std::byte>> next();
    // Seals a frame. Only when open. One that is longer than what the other side takes ends the connection there.
    void send(std::span<const std::byte> frame);
    // How long a frame of the other side may be from now on.
    void take_frames_of(std::size_t most) { most_frame_ = most; }
    std::size_t most_frame() const { return most_frame_; }
    // What is to be sent; the owner takes it from the front.
    std::vector<std::byte>& output() { return output_; }
    const std::vector<std::byte>& output() const { return output_; }
    // Bytes that wait for the rest of their frame.
    std::size_t waiting() const { return input_.size(); }

  private:
    explicit Passage(bool knocks) : knocks_(knocks) {}
    bool take_knock();
    bool take_answer();
    bool take_proof();
    void open();
    DoorProof prove(bool of_knocker) const;
    Key key_for(const char* purpose) const;
    void say(const void* bytes, std::size_t size);

    bool knocks_;
    State state_ = State::under_way;
    bool knock_came_ = false;  // at the door
    FindKey find_key_;
    Key key_{};
    Knock knock_;
    Answer answer_;
    std::uint16_t their_version_ = kDoorVersion;
    Key seal_{};
    Key unseal_{};
    std::uint64_t sent_ = 0;
    std::uint64_t received_ = 0;
    std::size_t most_frame_ = kMostFrame;  // that comes
    std::vector<std::byte> input_;
    std::vector<std::byte> output_;
};

}  // namespace coppice::bootstrap
