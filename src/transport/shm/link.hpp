// One direction between two ranks: the writer's end and the reader's end of an inbox in the reader's segment.
//
// The writer fills a descriptor (and a slot, for a payload that does not fit beside its header) and then stores
// the descriptor's stamp: a message is complete or absent, whenever its writer dies. Stamps begin at a key that
// only the two of them know, so that nonsense written here by anybody is told from a message. The reader answers with
// two kinds of counters of its own: descriptors consumed, and per slot how often it was given back, so slots come
// back in any order.
//
// Neither end believes what it reads of the other's: indices, lengths and counters are read once and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/copy.hpp"
#include "base/mix.hpp"
#include "transport/shm/layout.hpp"

namespace coppice::transport::shm {

// The same at both ends.
inline std::uint64_t link_key(std::uint64_t reader_nonce, std::uint64_t writer_nonce) {
    return std::rotl(reader_nonce, 23) ^ writer_nonce * kWeyl;
}

class Outbox {
  public:
    // Allocates all that it will ever need.
    explicit Outbox(const InboxShape& shape);

    // Before the first put(). `base` is the inbox's beginning; its counters and descriptors have memory.
    void attach(std::byte* base, std::uint64_t key);
    bool attached() const { return base_ != nullptr; }

    // There is room as far as is known, and put() then calls nothing.
    bool takes_at_once(std::size_t header, std::size_t payload) const {
        static_assert(kMaxHeader <= 64 && 64 + 64 <= Descriptor::kData);
        return attached() && sent_ - consumed_ < shape_.descriptors && header >= 32 && header <= kMaxHeader &&
               is_few(payload);
    }

    // Copies the message into the inbox. False: no room (or no memory) now, nothing was written.
    bool put(std::span<const std::byte> header, std::span<const std::byte> payload) {
        if (sent_ - consumed_ >= shape_.descriptors && !has_descriptor()) return false;
        auto& out = shared::at<Descriptor>(base_ + shape_.descriptors_at +
                                           (sent_ & (shape_.descriptors - 1)) * sizeof(Descriptor));
        const std::size_t payload_at = round_up(header.size(), 8);
        std::uint16_t where = Descriptor::kInline;
        if (payload_at + payload.size() <= Descriptor::kData) [[likely]] {
            copy_few(out.data + payload_at, payload.data(), payload.size());
        } else {
            where = put_in_slot(payload);
            if (where == Descriptor::kInline) return false;
        }
        copy_few(out.data, header.data(), header.size());
        out.payload_length = static_cast<std::uint32_t>(payload.size());
        out.header_length = static_cast<std::uint16_t>(header.size());
        out.slot = where;
        ++sent_;
        out.stamp.publish(key_ + sent_);
        return true;
    }

  private:
    // For a payload that does not fit beside its header. kInline when there is none.
    std::uint16_t put_in_slot(std::span<const std::byte> payload);
    bool has_descriptor();
    void read_consumed();
    // A free slot, a recently used one if possible; kInline when there is none.
    std::uint16_t take_slot();
    std::byte* slot(std::uint32_t index) const { return base_ + shape_.slots_at + index * kSlotStride; }

    std::byte* base_ = nullptr;
    InboxShape shape_;
    std::uint64_t key_ = 0;
    std::uint64_t sent_ = 0;
    std::uint64_t consumed_ = 0;       // as last read
    std::uint32_t with_memory_ = 0;    // slots that have memory
    std::vector<std::uint32_t> uses_;  // per slot
    std::vector<std::uint16_t> free_;
};

class Inbox {
  public:
    explicit Inbox(const InboxShape& shape);

    void attach(std::byte* base, std::uint64_t key);
    bool attached() const { return base_ != nullptr; }

    enum class Found : std::uint8_t { nothing, message, garbage };
    // Filled in where there is a message.
    struct View {
        const std::byte* header = nullptr;  // kMaxHeader bytes can be read, of which these many are the message's
        std::size_t header_length = 0;
        const std::byte* payload = nullptr;
        std::size_t payload_length = 0;
        std::uint16_t slot = 0;
    };
    // The oldest message that was not taken yet. `garbage`: something else was there and is dealt with; peek again.
    Found peek(View& view) {
        const std::uint64_t stamp = at_->stamp.read();
        if (stamp == awaited_) return open(*at_, view);
        return is_last_lap(stamp) ? Found::nothing : nonsense(stamp);
    }
    // Consumes it. `keep` (messages with a slot only): its slot stays until release().
    void take(const View& view, bool keep) {
        if (view.slot != Descriptor::kInline) give_back_or_hold(view.slot, keep);
        advance();
    }
    // False when that slot is not held.
    bool release(std::uint32_t slot);
    // Some slot is held.
    bool holds() const;

  private:
    Descriptor* descriptor(std::uint64_t number) const {
        return &shared::at<Descriptor>(base_ + shape_.descriptors_at +
                                       (number & (shape_.descriptors - 1)) * sizeof(Descriptor));
    }
    // What is there before the writer's turn comes.
    bool is_last_lap(std::uint64_t stamp) const {
        return next_ >= shape_.descriptors ? stamp == awaited_ - shape_.descriptors : stamp == 0;
    }
    Found open(const Descriptor& in, View& view) {
        // Read once: what was checked is what is used, whatever the other end does meanwhile.
        view.header_length = shared::read_once(in.header_length);
        view.payload_length = shared::read_once(in.payload_length);
        view.slot = shared::read_once(in.slot);
        if (view.header_length > kMaxHeader || view.payload_length > kMaxPayload) [[unlikely]]
            return skip();
        view.header = in.data;
        if (view.slot != Descriptor::kInline) {
            view.payload = open_slot(view.slot);
            return view.payload != nullptr ? Found::message : skip();
        }
        const std::size_t payload_at = round_up(view.header_length, 8);
        view.payload = in.data + payload_at;
        return payload_at + view.payload_length <= Descriptor::kData ? Found::message : skip();
    }
    // Null: it can't be that one.
    const std::byte* open_slot(std::uint16_t slot) const;
    Found nonsense(std::uint64_t stamp);
    Found skip();
    // The reader's count of consumed descriptors stands at the beginning of the inbox.
    void advance() {
        shared::at<shared::Published<std::uint64_t>>(base_).publish(++next_);
        ++awaited_;
        at_ = (next_ & (shape_.descriptors - 1)) != 0 ? at_ + 1 : descriptor(0);
    }
    std::byte* slot(std::uint32_t index) const { return base_ + shape_.slots_at + index * kSlotStride; }
    void give_back_or_hold(std::uint32_t slot, bool hold);
    void give_back(std::uint32_t slot);

    std::byte* base_ = nullptr;
    InboxShape shape_;
    Descriptor* at_ = nullptr;  // where the next message is to be
    std::uint64_t next_ = 0;
    std::uint64_t awaited_ = 0;            // the stamp of the next message: the inbox's key + next_ + 1
    std::uint64_t odd_stamp_ = 0;          // the last nonsensical stamp, so that it is counted once
    std::vector<std::uint32_t> released_;  // what we stored into the shared counters
    std::vector<std::uint8_t> held_;
};

}  // namespace coppice::transport::shm
