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
    std::uint8_t change_waits;  // 0 or not: what others write there need be no bool
    std::byte value[protocol::AgreementPlan::kMaxValue];

    static constexpr std::size_t kStride = 384;
};

// As a line.
struct Contributions::SummaryLine {
    shared::Published<std::uint64_t> stamp;  // period << kPeriodShift | sequence + 1
    std::uint32_t differs;
    std::uint16_t bytes;
    std::uint8_t operation;
    std::uint8_t flags;
    std::byte value[protocol::AgreementPlan::kMaxValue];

    static constexpr std::uint8_t kUnacknowledged = 1;
    static constexpr std::uint8_t kChangeWaits = 2;
    // Each recovery is of a rank that died, of kMostPublishing at most.
    static constexpr unsigned kPeriodShift = 48;
    static std::uint64_t stamp_of(std::uint64_t sequence, std::uint64_t period) {
        return period << kPeriodShift | (sequence + 1);
    }
};

Contributions::Contributions(transport::Board& board, std::uint32_t ranks, std::uint32_t lines)
    : board_(board), region_(board.find_region(kRegion)), ranks_(ranks), lines_(lines), lines_at_(lines_begin(ranks)) {
    static_assert(sizeof(Line) <= Line::kStride && Line::kStride % kLinePair == 0);
    static_assert(sizeof(SummaryLine) <= Line::kStride);
}

transport::Region Contributions::host_region(std::uint32_t ranks, std::uint32_t lines) {
    return {.name = kRegion, .bytes = lines_begin(ranks) + 2 * lines * Line::kStride};
}

bool Contributions::fits(const transport::Board& board, std::uint32_t ranks, std::uint32_t lines) {
    return host_region(ranks, lines).bytes <= board.find_region(kRegion).bytes;
}

std::size_t Contributions::line_at(std::uint64_t sequence) const {
    return lines_at_ + static_cast<std::size_t>(sequence & (lines_ - 1)) * Line::kStride;
}

std::size_t Contributions::summary_at(std::uint64_t sequence) const {
    return line_at(sequence) + lines_ * Line::kStride;
}

Contributions::Bytes Contributions::bytes_of_line(std::uint64_t sequence, std::size_t value) const {
    return {line_at(sequence), offsetof(Line, value) + value};
}

Contributions::Bytes Contributions::bytes_of_summary(std::uint64_t sequence, std::size_t value) const {
    return {summary_at(sequence), offsetof(SummaryLine, value) + value};
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
    line.change_waits = contribution.change_waits ? 1 : 0;
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
                    .change_waits = line.change_waits != 0,
                    .acknowledged = line.acknowledged,
                    .value = {line.value, bytes}};
    return true;
}

void Contributions::publish_summary(std::uint64_t sequence, std::uint64_t period, const protocol::Summary& summary) {
    SummaryLine& line = shared::at<SummaryLine>(board_.own_region(region_) + summary_at(sequence));
    line.differs = summary.differs;
    line.bytes = static_cast<std::uint16_t>(summary.value.size());
    line.operation = summary.operation;
    line.flags = static_cast<std::uint8_t>((summary.unacknowledged ? SummaryLine::kUnacknowledged : 0) |
                                           (summary.change_waits ? SummaryLine::kChangeWaits : 0));
    if (!summary.value.empty()) std::memcpy(line.value, summary.value.data(), summary.value.size());
    board_.publish_word(line.stamp, SummaryLine::stamp_of(sequence, period));
}

bool Contributions::look_summary(std::uint32_t speaker, std::uint64_t sequence, std::uint64_t period,
                                 protocol::Summary& summary) const {
    const std::byte* const its = board_.region(Rank(speaker), region_);
    if (its == nullptr) return false;
    const SummaryLine& line = shared::at<SummaryLine>(its + summary_at(sequence));
    if (line.stamp.read() != SummaryLine::stamp_of(sequence, period)) return false;
    const std::uint16_t bytes = line.bytes;
    if (bytes > sizeof line.value) return false;
    const std::uint8_t flags = line.flags;
    summary = {.operation = line.operation,
               .change_waits = (flags & SummaryLine::kChangeWaits) != 0,
               .unacknowledged = (flags & SummaryLine::kUnacknowledged) != 0,
               .differs = line.differs,
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
