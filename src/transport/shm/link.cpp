#include "transport/shm/link.hpp"

#include <algorithm>
#include <cstring>

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

std::uint16_t Outbox::put_in_slot(std::span<const std::byte> payload) {
    const std::uint16_t taken = take_slot();
    if (taken != Descriptor::kInline) std::memcpy(slot(taken), payload.data(), payload.size());
    return taken;
}

Inbox::Inbox(const InboxShape& shape) : shape_(shape), released_(shape.slots, 0), held_(shape.slots, 0) {}

void Inbox::attach(std::byte* base, std::uint64_t key) {
    base_ = base;
    awaited_ = key + next_ + 1;
    at_ = descriptor(next_);
}

Inbox::Found Inbox::skip() {
    advance();
    return Found::garbage;
}

Inbox::Found Inbox::nonsense(std::uint64_t stamp) {
    if (stamp == odd_stamp_) return Found::nothing;
    // Not a message and never was; its place is still the writer's, who will fill it when its turn comes.
    odd_stamp_ = stamp;
    return Found::garbage;
}

const std::byte* Inbox::open_slot(std::uint16_t index) const {
    return index < shape_.slots && held_[index] == 0 ? slot(index) : nullptr;
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

bool Inbox::holds() const {
    return std::ranges::any_of(held_, [](std::uint8_t held) { return held != 0; });
}

bool Inbox::release(std::uint32_t slot) {
    if (slot >= held_.size() || held_[slot] == 0) return false;
    held_[slot] = 0;
    give_back(slot);
    return true;
}

}  // namespace coppice::transport::shm
