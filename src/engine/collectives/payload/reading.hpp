// A large payload's memory while it is open to one-sided reads (offer.hpp), those that read it there, and what this rank reads of others'.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "base/error.hpp"
#include "engine/collectives/payload/memory.hpp"
#include "engine/collectives/payload/offer.hpp"
#include "engine/router.hpp"
#include "protocol/pull/pull.hpp"
#include "transport/transport.hpp"

namespace coppice::engine {

// Registered once for all reads of one payload, those of this rank into it and those of others out of it. Ends before the payload's
// memory does, and not before the last read of a peer that is connected.
class OpenPayload {
  public:
    // How many ranks this one may read one payload of at a time: one, and those that it has left in the middle of a read.
    static constexpr std::uint32_t kMostReadings = 8;

    // An error: the wire can't have it open, or there is no memory for a desk.
    static Result<std::unique_ptr<OpenPayload>> make(transport::Transport& wire, std::span<std::byte> payload,
                                                     const Descriptor& descriptor, std::uint64_t seed);
    OpenPayload(const OpenPayload&) = delete;
    OpenPayload& operator=(const OpenPayload&) = delete;
    ~OpenPayload();

    bool is_open_to(const transport::Transport& wire) const { return &wire_ == &wire; }
    // Stays where it is.
    const Offer& offer() const { return offer_; }
    // So many leading chunks are there, for others to read. False: that is told of a part of them, as their checks take time in which
    // nothing is heard of this rank.
    bool tell(std::uint32_t have);

    const transport::Exposure& chunks() const { return chunks_; }
    const transport::Exposure& desk() const { return desk_; }
    // Where a word of another rank's is read to.
    std::span<std::byte> landing(std::uint32_t slot) const;
    HaveWord landed(std::uint32_t slot) const;
    // Where the checks of others' chunks are.
    std::span<std::byte> checks(std::uint32_t first, std::uint32_t count) const;
    // Whether what is here of a chunk is what its check says.
    bool is_right(std::uint32_t chunk) const;
    // It is, and counts as here: others are handed the same check.
    void note_checked(std::uint32_t chunk) {
        if (checked_ == chunk) ++checked_;
    }

  private:
    struct Word;

    OpenPayload(transport::Transport& wire, std::span<std::byte> payload, const Descriptor& descriptor,
                std::uint64_t seed)
        : wire_(wire), payload_(payload), descriptor_(descriptor), seed_(seed) {}
    std::span<const std::byte> chunk(std::uint32_t number) const {
        return payload_.subspan(static_cast<std::size_t>(descriptor_.at(number)), descriptor_.length(number));
    }
    std::size_t landings_at() const { return (desk_bytes(descriptor_.chunks()) + 63) / 64 * 64; }

    transport::Transport& wire_;
    std::span<std::byte> payload_;
    Descriptor descriptor_;
    std::uint64_t seed_;
    PayloadMemory memory_;  // of the desk
    transport::Exposure chunks_;
    transport::Exposure desk_;
    Offer offer_;
    bool is_registered_ = false;
    std::uint32_t told_ = 0;
    std::uint32_t checked_ = 0;  // leading chunks whose checks are on the desk
};

// A rank that reads a payload of this one's, or has asked to.
struct Reader {
    Rank rank;
    protocol::PullMessage ask;
    bool has_offer = false;     // from then on until it says that it is done, or can't read any more
    std::uint64_t lost_ns = 0;  // when it was first seen to count as dead, though its connection stands
};

// What this rank reads out of another one's memory.
struct Reading {
    struct Item {
        enum class What : std::uint8_t { word, checks, chunk };
        What what;
        std::uint32_t number = 0;
    };

    Rank from;
    std::uint32_t slot = 0;  // of its word
    bool is_open = false;    // it has said where
    bool is_left = false;    // nothing more is to be read there
    bool is_wrong = false;   // what has come from there was, and more is under way
    Offer offer{};
    transport::Reads reads{};
    std::deque<Item> asked{};       // and not seen to have arrived
    std::uint64_t seen = 0;         // of those that have
    std::uint32_t known = 0;        // chunks that are there, by its word
    std::uint32_t next = 0;         // to be asked for
    std::uint32_t checks_end = 0;   // up to where checks are
    std::uint32_t wrong_words = 0;  // in a row
    bool looks = false;             // a word is under way
    std::uint64_t look_ns = 0;      // when the word is read next, if it has told nothing new
    std::uint64_t pause_ns = 0;

    // From that chunk on, whatever has been asked for before.
    void begin_at(std::uint32_t chunk) {
        next = checks_end = chunk;
        look_ns = pause_ns = 0;
        is_left = false;
    }
    std::uint32_t chunks_under_way() const;
};

}  // namespace coppice::engine
