#include "transport/shm/shm_board.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/shm/obituary.hpp"

namespace coppice::transport::shm {

namespace {

Line& line_in(std::byte* panel, std::size_t at) {
    return *reinterpret_cast<Line*>(panel + at);
}

std::atomic<std::uint32_t>& log_entry(std::byte* panel, const Layout& layout, std::uint32_t index) {
    return *reinterpret_cast<std::atomic<std::uint32_t>*>(panel + layout.log_at + index * sizeof(std::uint32_t));
}

const std::atomic<std::uint32_t>& log_entry(const std::byte* panel, const Layout& layout, std::uint32_t index) {
    return *reinterpret_cast<const std::atomic<std::uint32_t>*>(panel + layout.log_at + index * sizeof(std::uint32_t));
}

}  // namespace

ShmBoard::ShmBoard(OwnSegment& own, std::uint32_t panel, std::function<void(Rank)> wake)
    : own_(own),
      wake_(std::move(wake)),
      window_(own.layout().window),
      mask_((window_ & (window_ - 1)) == 0 ? window_ - 1 : 0),
      lines_at_(own.layout().lines_at),
      panel_at_(own.layout().panels_at + panel * own.layout().panel_stride) {}

void ShmBoard::seal(std::vector<Rank> members, const std::vector<const std::byte*>& bases) {
    members_ = std::move(members);
    first_ = members_.front().value;
    panels_.assign(members_.back().value - first_ + 1, nullptr);
    for (std::size_t index = 0; index < members_.size(); ++index) {
        if (bases[index] != nullptr) panels_[members_[index].value - first_] = bases[index] + panel_at_;
    }
}

std::byte* ShmBoard::line_memory(Sequence sequence) {
    return own_panel() + line_at(sequence) + sizeof(Line);
}

void ShmBoard::will_publish(Sequence sequence) {
    [[maybe_unused]] const std::byte* const at = own_panel() + line_at(sequence);
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*at));  // the compiler's own builtin reads only, unless told of the processor
#else
    __builtin_prefetch(at, 1);
#endif
}

void ShmBoard::publish(Sequence sequence, std::uint32_t length, std::uint32_t root, std::uint32_t detail) {
    Line& line = line_in(own_panel(), line_at(sequence));
    line.length = length;
    line.root = root;
    line.detail = detail;
    line.stamp.store(sequence.value + 1, std::memory_order_release);
}

// A payload that shares the stamp's cache line is stored together with it, word after word from registers: the readers poll
// this line, and each pause between two stores to it would be a chance for them to take it away in the middle.
void ShmBoard::publish_copy(Sequence sequence, std::span<const std::byte> payload, std::uint32_t root,
                            std::uint32_t detail) {
    constexpr std::size_t kWords = (kCacheLine - sizeof(Line)) / sizeof(std::uint64_t);
    std::byte* const at = own_panel() + line_at(sequence);
    if (payload.size() <= kWords * sizeof(std::uint64_t)) {
        std::uint64_t words[kWords] = {};
        if (!payload.empty()) std::memcpy(words, payload.data(), payload.size());
        std::memcpy(at + sizeof(Line), words, sizeof words);
    } else {
        std::memcpy(at + sizeof(Line), payload.data(), payload.size());
    }
    Line& line = *reinterpret_cast<Line*>(at);
    line.length = static_cast<std::uint32_t>(payload.size());
    line.root = root;
    line.detail = detail;
    line.stamp.store(sequence.value + 1, std::memory_order_release);
}

bool ShmBoard::look(Rank member, Sequence sequence, PublishedLine& line) const {
    const std::byte* const start = panel(member);
    if (start == nullptr) return false;
    const std::byte* const at = start + line_at(sequence);
    const Line& seen = *reinterpret_cast<const Line*>(at);
    if (seen.stamp.load(std::memory_order_acquire) != sequence.value + 1) return false;
    const std::uint32_t length = seen.length;
    if (length > kMaxPayload) return false;
    line = {at + sizeof(Line), length, seen.detail, seen.root};
    return true;
}

void ShmBoard::set_consumed(Sequence sequence) {
    own_header().consumed.value.store(sequence.value, std::memory_order_release);
}

Sequence ShmBoard::consumed(Rank member) const {
    const PanelHeader* const seen = header(member);
    return Sequence{seen == nullptr ? 0 : seen->consumed.value.load(std::memory_order_acquire)};
}

void ShmBoard::set_stable(Sequence sequence) {
    own_header().stable.value.store(sequence.value, std::memory_order_release);
}

Sequence ShmBoard::stable(Rank member) const {
    const PanelHeader* const seen = header(member);
    return Sequence{seen == nullptr ? 0 : seen->stable.value.load(std::memory_order_acquire)};
}

void ShmBoard::log_failure(Rank failed) {
    std::atomic<std::uint64_t>& length = own_header().log_length.value;
    const std::uint64_t at = length.load(std::memory_order_relaxed);
    if (at >= own_.layout().group_size) return;  // each rank once: there can't be more
    log_entry(own_panel(), own_.layout(), static_cast<std::uint32_t>(at))
        .store(failed.value, std::memory_order_relaxed);
    length.store(at + 1, std::memory_order_release);
}

std::uint32_t ShmBoard::log_length(Rank member) const {
    const PanelHeader* const seen = header(member);
    if (seen == nullptr) return 0;
    const std::uint64_t length = seen->log_length.value.load(std::memory_order_acquire);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(length, own_.layout().group_size));
}

Rank ShmBoard::logged(Rank member, std::uint32_t index) const {
    const std::byte* const start = panel(member);
    if (start == nullptr || index >= own_.layout().group_size) return Rank{own_.layout().group_size};
    return Rank{log_entry(start, own_.layout(), index).load(std::memory_order_relaxed)};
}

bool ShmBoard::alive(Rank member) const {
    const std::byte* const start = panel(member);
    return start != nullptr && is_held(reinterpret_cast<const Header*>(start - panel_at_)->obituary);
}

bool ShmBoard::fenced() const {
    std::atomic_thread_fence(std::memory_order_acquire);
    const auto& mail = *reinterpret_cast<const Mailroom*>(own_.base() + own_.layout().mailroom_at);
    return mail.fenced_by.load(std::memory_order_acquire) != 0;
}

void ShmBoard::depart() {
    if (own_.is_ours()) own_header().departed.value.store(1, std::memory_order_release);
}

bool ShmBoard::departed(Rank member) const {
    const PanelHeader* const seen = header(member);
    return seen != nullptr && seen->departed.value.load(std::memory_order_acquire) != 0;
}

}  // namespace coppice::transport::shm
