#include "perf/payload.hpp"

#include <algorithm>
#include <cstring>

#include "base/mix.hpp"

namespace perf {

namespace {

class Words {
  public:
    Words(std::uint64_t sequence, std::uint32_t root)
        : seed_(coppice::mix(sequence + 1) ^ coppice::mix(~static_cast<std::uint64_t>(root))) {}
    std::uint64_t operator[](std::size_t index) const { return coppice::mix(seed_ + index * coppice::kWeyl); }

  private:
    std::uint64_t seed_;
};

bool matches(std::span<const std::byte> payload, std::uint64_t sequence, std::uint32_t root) {
    const Words words(sequence, root);
    for (std::size_t offset = 0; offset < payload.size(); offset += sizeof(std::uint64_t)) {
        const std::uint64_t word = words[offset / sizeof(std::uint64_t)];
        const std::size_t length = std::min(sizeof word, payload.size() - offset);
        if (std::memcmp(payload.data() + offset, &word, length) != 0) return false;
    }
    return true;
}

}  // namespace

void fill_payload(std::span<std::byte> payload, std::uint64_t sequence, std::uint32_t root) {
    const Words words(sequence, root);
    for (std::size_t offset = 0; offset < payload.size(); offset += sizeof(std::uint64_t)) {
        const std::uint64_t word = words[offset / sizeof(std::uint64_t)];
        std::memcpy(payload.data() + offset, &word, std::min(sizeof word, payload.size() - offset));
    }
}

Verdict check_payload(std::span<const std::byte> payload, std::size_t bytes, std::uint64_t sequence,
                      const Schedule& schedule) {
    if (payload.size() == bytes && matches(payload, sequence, schedule.root_of(sequence))) return Verdict::right;
    if (payload.size() < 4) return Verdict::corrupt;
    for (std::uint64_t distance = 1; distance <= kNeighbours; ++distance) {
        const std::uint64_t later = sequence + distance;
        if (matches(payload, later, schedule.root_of(later))) return Verdict::later;
        if (distance > sequence) continue;
        const std::uint64_t earlier = sequence - distance;
        if (matches(payload, earlier, schedule.root_of(earlier))) return Verdict::earlier;
    }
    return Verdict::corrupt;
}

}  // namespace perf
