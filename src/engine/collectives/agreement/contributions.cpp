#include "engine/collectives/agreement/contributions.hpp"

#include <cstring>

#include "base/shared_words.hpp"

namespace coppice::engine {
namespace {

// Processors fetch cache lines in pairs: what others poll shares none with what is polled for something else.
constexpr std::size_t kLinePair = transport::kRegionAlignment;
constexpr std::string_view kRegion = "agreement";

constexpr std::size_t round_up(std::size_t value) {
    return (value + kLinePair - 1) / kLinePair * kLinePair;
}

// Each of these has one writer: the owner of the memory.
using Entry = shared::Published<std::uint32_t>;
using Count = shared::Published<std::uint64_t>;

constexpr std::size_t kLogAt = kLinePair;

std::size_t lines_begin(std::uint32_t ranks) {
    return round_up(kLogAt + std::size_t{ranks} * sizeof(std::uint32_t));
}

}  // namespace

// Header and the first 48 bytes of the value share a cache line.
struct Contributions::Line {
    shared::Published<std::uint64_t> stamp;  // sequence + 1
    std::uint32_t acknowledged;
    std::uint16_t bytes;
    std::uint8_t operation;
    bool change_waits;
    std::byte value[protocol::AgreementPlan::kMaxValue];

    static constexpr std::size_t kStride = 384;
};

Contributions::Contributions(transport::Board& board, std::uint32_t ranks, std::uint32_t lines)
    : board_(board), region_(board.find_region(kRegion)), ranks_(ranks), lines_(lines), lines_at_(lines_begin(ranks)) {
    static_assert(sizeof(Line) <= Line::kStride && Line::kStride % kLinePair == 0);
}

transport::Region Contributions::host_region(std::uint32_t ranks, std::uint32_t lines) {
    return {.name = kRegion, .bytes = lines_begin(ranks) + lines * Line::kStride};
}

bool Contributions::fits(const transport::Board& board, std::uint32_t ranks, std::uint32_t lines) {
    return host_region(ranks, lines).bytes <= board.find_region(kRegion).bytes;
}

std::size_t Contributions::line_at(std::uint64_t sequence) const {
    return lines_at_ + static_cast<std::size_t>(sequence & (lines_ - 1)) * Line::kStride;
}

void Contributions::will_publish(std::uint64_t sequence) {
    [[maybe_unused]] const std::byte* const at = board_.own_region(region_) + line_at(sequence);
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*at));  // the compiler's own builtin reads only, unless told of the processor
#else
    __builtin_prefetch(at, 1);
#endif
}

void Contributions::publish(std::uint64_t sequence, const protocol::Contribution& contribution) {
    Line& line = shared::at<Line>(board_.own_region(region_) + line_at(sequence));
    line.acknowledged = contribution.acknowledged;
    line.bytes = static_cast<std::uint16_t>(contribution.value.size());
    line.operation = contribution.operation;
    line.change_waits = contribution.change_waits;
    if (!contribution.value.empty()) std::memcpy(line.value, contribution.value.data(), contribution.value.size());
    board_.publish_word(line.stamp, sequence + 1);
}

bool Contributions::look(std::uint32_t member, std::uint64_t sequence, protocol::Contribution& contribution) const {
    const std::byte* const its = board_.region(Rank(member), region_);
    if (its == nullptr) return false;
    const Line& line = shared::at<Line>(its + line_at(sequence));
    if (line.stamp.read() != sequence + 1) return false;
    const std::uint16_t bytes = line.bytes;
    if (bytes > sizeof line.value) return false;
    contribution = {.operation = line.operation,
                    .change_waits = line.change_waits,
                    .acknowledged = line.acknowledged,
                    .value = {line.value, bytes}};
    return true;
}

void Contributions::log_acknowledged(std::uint32_t failed) {
    if (logged_ >= ranks_) return;  // each rank once: there can't be more
    shared::at<Entry>(board_.own_region(region_) + kLogAt + logged_ * sizeof(Entry)).publish(failed);
    ++logged_;
}

std::uint32_t Contributions::logged_acknowledged(std::uint32_t member, std::uint32_t index) const {
    const std::byte* const its = board_.region(Rank(member), region_);
    if (its == nullptr || index >= ranks_) return ranks_;
    return shared::at<Entry>(its + kLogAt + index * sizeof(Entry)).read();
}

void Contributions::set_recoveries(std::uint64_t count) {
    shared::at<Count>(board_.own_region(region_)).publish(count);
}

bool Contributions::shut_out() const {
    shared::ProcessMemory::order_all();  // what was published before is there first
    return board_.fenced();
}

std::uint64_t Contributions::recoveries(std::uint32_t member) const {
    const std::byte* const its = board_.region(Rank(member), region_);
    return its == nullptr ? 0 : shared::at<Count>(its).read();
}

}  // namespace coppice::engine
