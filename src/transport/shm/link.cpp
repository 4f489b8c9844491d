#include "transport/shm/link.hpp"

#include <algorithm>

#include "base/copy.hpp"
#include "transport/shm/segment.hpp"

namespace coppice::transport::shm {

namespace {

constexpr std::uint32_t kSlotsAtOnce = 8;  // given memory together

// Both are written by the reader of the inbox.
using Consumed = shared::Published<std::uint64_t>;
using Released = shared::Published<std::uint32_t>;

Consumed& consumed_word(std::byte* base) {
    return shared::at<Consumed>(base);
}

Released& released_word(std::byte* base, const InboxShape& shape, std::uint32_t slot) {
    return shared::at<Released>(base + shape.released_at + slot * sizeof(Released));
}

}  // namespace

Outbox::Outbox(const InboxShape& shape) : shape_(shape), uses_(shape.slots, 0) {
    free_.reserve(shape.slots);
}

void Outbox::attach(std::byte* base, std::uint64_t key) {
    base_ = base;
    key_ = key;
}

void Outbox::read_consumed() {
    const std::uint64_t seen = consumed_word(base_).read();
    if (seen >= consumed_ && seen <= sent_) consumed_ = seen;
}

bool Outbox::has_descriptor() {
    if (sent_ - consumed_ < shape_.descriptors) return true;
    read_consumed();
    return sent_ - consumed_ < shape_.descriptors;
}

std::uint16_t Outbox::take_slot() {
    if (free_.empty()) {
        for (std::uint32_t index = with_memory_; index-- > 0;)
            if (released_word(base_, shape_, index).read() == uses_[index])
                free_.push_back(static_cast<std::uint16_t>(index));
    }
    if (free_.empty() && with_memory_ < shape_.slots) {
        const std::uint32_t more = std::min(kSlotsAtOnce, shape_.slots - with_memory_);
        if (populate(slot(with_memory_), more * kSlotStride)) {
            for (std::uint32_t index = with_memory_ + more; index-- > with_memory_;)
                free_.push_back(static_cast<std::uint16_t>(index));
            with_memory_ += more;
        }
    }
    if (free_.empty()) return Descriptor::kInline;
    const std::uint16_t taken = free_.back();
    free_.pop_back();
    ++uses_[taken];
    return taken;
}

bool Outbox::put(std::span<const std::byte> header, std::span<const std::byte> payload) {
    if (!has_descriptor()) return false;
    const std::size_t payload_at = round_up(header.size(), 8);
    const bool beside = payload_at + payload.size() <= Descriptor::kData;
    std::uint16_t where = Descriptor::kInline;
    if (!beside) {
        where = take_slot();
        if (where == Descriptor::kInline) return false;
    }
    auto& out =
        shared::at<Descriptor>(base_ + shape_.descriptors_at + (sent_ & (shape_.descriptors - 1)) * sizeof(Descriptor));
    copy_few(out.data, header.data(), header.size());
    copy_few(beside ? out.data + payload_at : slot(where), payload.data(), payload.size());
    out.payload_length = static_cast<std::uint32_t>(payload.size());
    out.header_length = static_cast<std::uint16_t>(header.size());
    out.slot = where;
    ++sent_;
    out.stamp.publish(key_ + sent_);
    return true;
}

Inbox::Inbox(const InboxShape& shape) : shape_(shape), released_(shape.slots, 0), held_(shape.slots, 0) {}

void Inbox::attach(std::byte* base, std::uint64_t key) {
    base_ = base;
    key_ = key;
}

Inbox::Found Inbox::skip() {
    advance();
    return Found::garbage;
}

Inbox::Found Inbox::without_message(std::uint64_t stamp) {
    const bool last_lap = next_ >= shape_.descriptors ? stamp == key_ + next_ + 1 - shape_.descriptors : stamp == 0;
    if (last_lap || stamp == odd_stamp_) return Found::nothing;
    // Not a message and never was; its place is still the writer's, who will fill it when its turn comes.
    odd_stamp_ = stamp;
    return Found::garbage;
}

Inbox::Found Inbox::open(const Descriptor& in, View& view) {
    // Read once: what was checked is what is used, whatever the other end does meanwhile.
    const std::size_t header_length = shared::read_once(in.header_length);
    const std::size_t payload_length = shared::read_once(in.payload_length);
    const std::uint16_t where = shared::read_once(in.slot);
    if (header_length > kMaxHeader || payload_length > kMaxPayload) return skip();
    const std::size_t payload_at = round_up(header_length, 8);
    if (where == Descriptor::kInline) {
        if (payload_at + payload_length > Descriptor::kData) return skip();
        view.payload = {in.data + payload_at, payload_length};
    } else {
        if (where >= shape_.slots || held_[where] != 0) return skip();
        view.payload = {slot(where), payload_length};
    }
    view.header = {in.data, header_length};
    view.slot = where;
    return Found::message;
}

void Inbox::give_back(std::uint32_t slot) {
    released_word(base_, shape_, slot).publish(++released_[slot]);
}

void Inbox::give_back_or_hold(std::uint32_t slot, bool hold) {
    if (hold)
        held_[slot] = 1;
    else
        give_back(slot);
}

bool Inbox::release(std::uint32_t slot) {
    if (slot >= held_.size() || held_[slot] == 0) return false;
    held_[slot] = 0;
    give_back(slot);
    return true;
}

}  // namespace coppice::transport::shm
