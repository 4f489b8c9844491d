// Landing slots: where one peer's RDMA writes arrive, one writer for each set of slots. For every transport that has
// one-sided writes; how the writes get there is its own business.
//
// A write carries no completion here, and nothing is assumed about the order in which its bytes land. A slot is valid
// only when it proves it: its stamp is the number that is expected next, and the CRC-32C over prefix, header and payload,
// seeded with the writer, the reader and the group, is right. Until then the reader looks again.
//
// A writer is at most `slots` ahead of what the reader has consumed (class Credit): a slot is never overwritten unread. The
// reader's counts come back in the prefix of what it writes in the other direction; what else tells of them is each
// transport's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/transport.hpp"

namespace coppice::transport {

// In front of the engine's header. All ranks have one byte order (their addresses say so), so it travels as it is.
struct SlotPrefix {
    enum class Kind : std::uint8_t {
        data = 1,     // the engine's
        goodbye = 2,  // the writer leaves in peace; nothing follows
    };
    std::uint32_t stamp = 0;  // number of the write
    std::uint32_t crc = 0;    // over all of it
    // Of the receiver's own writes, as many (modulo 2^16) as the sender of this has consumed: room for more.
    std::uint16_t writes_consumed = 0;
    // Counts sends as the transport has use for it. verbs: of the receiver's own those consumed; ucx: what this writer sent
    // before it could write.
    std::uint16_t sends = 0;
    std::uint16_t payload_size = 0;
    std::uint8_t header_size = 0;
    Kind kind = Kind::data;
};
static_assert(sizeof(SlotPrefix) == 16);

inline constexpr std::size_t kLine = sizeof(SlotPrefix) + kMaxHeader;  // prefix and header: one cache line
static_assert(kLine == 64);
inline constexpr std::size_t kMaxMessage = kLine + kMaxPayload;
inline constexpr std::size_t kSlotStride = (kMaxMessage + 63) / 64 * 64;

// Prefix sizes and kind are those of a message of `length` bytes in all.
bool fits(const SlotPrefix& prefix, std::size_t length);

// Of the writes of rank `from` to rank `to` in the group of `token`.
std::uint32_t slot_seed(std::uint64_t token, std::uint32_t from, std::uint32_t to);

// Completes the prefix of a write: `prefix.crc` over everything.
void seal(SlotPrefix& prefix, std::uint32_t seed, std::span<const std::byte> header,
          std::span<const std::byte> payload);

// The reader's side.
class Landing {
  public:
    // Looks at a slot that does not prove itself, before it is counted as garbage: far longer than any write takes to land.
    static constexpr std::uint32_t kPatience = 100'000;

    enum class Found : std::uint8_t { nothing, message, garbage };
    struct View {
        SlotPrefix prefix;
        std::byte header[kMaxHeader];  // a copy: it is interpreted, and must not change under its reader
        std::span<const std::byte> payload;
    };

    // `base`: zeroed memory of `slots` times kSlotStride.
    void attach(std::byte* base, std::uint16_t slots, std::uint32_t seed);

    // The next message, if it is there as a whole; it stays until advance(). `garbage` is said once for each thing that
    // is found where none of the writer's messages can be; the slot remains the writer's, which will fill it when its
    // turn comes.
    Found peek(View& view);
    void advance() { ++next_; }
    std::uint32_t consumed() const { return static_cast<std::uint32_t>(next_); }
    // One cache line read, no more: whether peek() is worth while.
    bool changed() const;

  private:
    const std::byte* slot() const { return base_ + next_ % slots_ * kSlotStride; }
    std::uint32_t stamp() const;

    std::byte* base_ = nullptr;
    std::uint64_t next_ = 0;  // writes consumed
    std::uint32_t seed_ = 0;
    std::uint32_t odd_ = 0;    // the stamp that was counted as garbage already
    std::uint32_t looks_ = 0;  // at a slot with the right stamp that does not prove itself
    std::uint16_t slots_ = 1;
};

// How far a writer, or a sender, may still go.
class Credit {
  public:
    void attach(std::uint16_t slots) { slots_ = slots; }
    bool has_room() const { return written_ - consumed_ < slots_; }
    // Time to ask for the count, before it is too late.
    bool is_low() const { return (written_ - consumed_) * 4 >= std::uint64_t{slots_} * 3; }
    std::uint32_t next_stamp() const { return static_cast<std::uint32_t>(written_ + 1); }
    std::size_t next_offset() const { return written_ % slots_ * kSlotStride; }
    void wrote() { ++written_; }
    // The reader's count, as far as it can be true.
    void learn(std::uint16_t consumed) {
        const std::uint64_t ahead = static_cast<std::uint16_t>(consumed - static_cast<std::uint16_t>(consumed_));
        if (ahead <= written_ - consumed_) consumed_ += ahead;
    }

  private:
    std::uint64_t written_ = 0;
    std::uint64_t consumed_ = 0;
    std::uint16_t slots_ = 1;
};

}  // namespace coppice::transport
