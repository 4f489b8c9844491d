#include "transport/landing.hpp"

#include <algorithm>
#include <cstring>

#include "base/shared_words.hpp"
#include "transport/crc32c.hpp"

namespace coppice::transport {

namespace {

std::uint32_t crc_of(SlotPrefix prefix, std::uint32_t seed, std::span<const std::byte> header,
                     std::span<const std::byte> payload) {
    prefix.crc = 0;
    return crc32c(payload, crc32c(header, crc32c(std::as_bytes(std::span(&prefix, 1)), seed)));
}

}  // namespace

bool fits(const SlotPrefix& prefix, std::size_t length) {
    const bool known = prefix.kind == SlotPrefix::Kind::data || prefix.kind == SlotPrefix::Kind::goodbye;
    return known && prefix.header_size <= kMaxHeader && prefix.payload_size <= kMaxPayload &&
           sizeof prefix + prefix.header_size + prefix.payload_size == length;
}

std::uint32_t slot_seed(std::uint64_t token, std::uint32_t from, std::uint32_t to) {
    const std::uint64_t words[] = {token, (std::uint64_t{from} << 32) | to};
    return crc32c(std::as_bytes(std::span(words)));
}

void seal(SlotPrefix& prefix, std::uint32_t seed, std::span<const std::byte> header,
          std::span<const std::byte> payload) {
    prefix.crc = crc_of(prefix, seed, header, payload);
}

void Landing::attach(std::byte* base, std::uint16_t slots, std::uint32_t seed) {
    base_ = base;
    slots_ = slots;
    seed_ = seed;
}

std::uint32_t Landing::stamp() const {
    return shared::at<shared::Published<std::uint32_t>>(slot()).read();
}

bool Landing::changed() const {
    const auto last_lap = next_ < slots_ ? 0 : static_cast<std::uint32_t>(next_ + 1 - slots_);
    return stamp() != last_lap;
}

Landing::Found Landing::peek(View& view) {
    const std::uint32_t seen = stamp();
    if (seen != static_cast<std::uint32_t>(next_ + 1)) {
        const auto last_lap = next_ < slots_ ? 0 : static_cast<std::uint32_t>(next_ + 1 - slots_);
        if (seen == last_lap || seen == odd_) return Found::nothing;
        odd_ = seen;
        return Found::garbage;
    }
    // Read once: what is checked is what is used.
    std::memcpy(&view.prefix, slot(), sizeof view.prefix);
    const SlotPrefix& prefix = view.prefix;
    bool whole = fits(prefix, sizeof(SlotPrefix) + prefix.header_size + prefix.payload_size);
    if (whole) {
        std::memcpy(view.header, slot() + sizeof(SlotPrefix), prefix.header_size);
        view.payload = {slot() + sizeof(SlotPrefix) + prefix.header_size, prefix.payload_size};
        whole = prefix.crc == crc_of(prefix, seed_, {view.header, prefix.header_size}, view.payload);
    }
    if (whole) {
        looks_ = 0;
        return Found::message;
    }
    if (looks_ <= kPatience) ++looks_;
    return looks_ == kPatience ? Found::garbage : Found::nothing;
}

}  // namespace coppice::transport
