#include "transport/shm/shm_board.hpp"

#include <algorithm>
#include <utility>

#include "base/copy.hpp"
#include "transport/shm/obituary.hpp"

namespace coppice::transport::shm {

namespace {

// Each is covered by the log's length, which its owner publishes after it.
using Entry = shared::Relaxed<std::uint32_t>;

std::size_t log_entry(const Layout& layout, std::uint64_t index) {
    return layout.log_at + index * sizeof(Entry);
}

// A hint.
inline void fetch_to_write([[maybe_unused]] const std::byte* at) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*at));  // the compiler's own builtin reads only, unless told of the processor
#else
    __builtin_prefetch(at, 1);
#endif
}

}  // namespace

ShmBoard::ShmBoard(OwnSegment& own, const Regions& regions, std::uint32_t panel, Owner& owner,
                   std::function<void(Rank)> wake)
    : own_(own),
      owner_(owner),
      mailroom_(shared::at<const Mailroom>(own.base() + own.layout().mailroom_at)),
      wake_(std::move(wake)),
      number_(panel),
      window_(own.layout().window),
      mask_((window_ & (window_ - 1)) == 0 ? window_ - 1 : 0),
      regions_(regions),
      regions_at_(own.layout().regions_at),
      lines_at_(own.layout().lines_at),
      panel_at_(own.layout().panels_at + panel * own.layout().panel_stride),
      own_panel_(own.base() + panel_at_) {}

void ShmBoard::seal(std::vector<Rank> members, const std::vector<const std::byte*>& bases) {
    members_ = std::move(members);
    first_ = members_.front().value;
    numbers_ = members_.back().value - first_ + 1;
    panels_.assign(numbers_, nullptr);
    for (std::size_t index = 0; index < members_.size(); ++index) {
        if (bases[index] != nullptr) panels_[members_[index].value - first_] = bases[index] + panel_at_;
    }
}

// A rank that was in no group with this board may take this one for dead, as of a group that this one has given up.
inline bool ShmBoard::is_fenced() const {
    shared::ProcessMemory::order_loads();
    if (mailroom_.is_fenced.read() == 0) [[likely]]
        return false;
    return owner_.is_fenced_on(*this);
}

bool ShmBoard::refers_to(const std::byte* base) const {
    return base != nullptr && std::ranges::find(panels_, base + panel_at_) != panels_.end();
}

std::byte* ShmBoard::line_memory(Sequence sequence) {
    return own_panel() + line_at(sequence) + sizeof(Line);
}

inline void ShmBoard::show(std::byte* at, Label label, std::size_t length) {
    Line& line = shared::at<Line>(at);
    line.length = static_cast<std::uint32_t>(length);
    line.root = label.root;
    line.detail = label.detail;
    line.stamp.publish(label.sequence.value + 1);
    tell_listeners();
}

// A payload that shares the stamp's cache line is stored together with it, from registers: the readers poll this line, and each
// pause between two stores to it would be a chance for them to take it away in the middle. The others are written apart, so that
// these need no frame for a call of memcpy.
inline void ShmBoard::write(std::byte* at, Label label, std::span<const std::byte> payload) {
    if (!is_few(payload.size())) [[unlikely]]
        return write_longer(at, label, payload);
    copy_few(at + sizeof(Line), payload.data(), payload.size());
    show(at, label, payload.size());
}

[[gnu::noinline]] void ShmBoard::write_longer(std::byte* at, Label label, std::span<const std::byte> payload) {
    copy_few(at + sizeof(Line), payload.data(), payload.size());
    show(at, label, payload.size());
}

void ShmBoard::will_publish(Sequence sequence) {
    fetch_to_write(own_panel() + line_at(sequence));
}

void ShmBoard::publish(Sequence sequence, std::uint32_t length, std::uint32_t root, std::uint32_t detail) {
    show(own_panel() + line_at(sequence), {sequence, root, detail}, length);
}

void ShmBoard::publish_copy(Sequence sequence, std::span<const std::byte> payload, std::uint32_t root,
                            std::uint32_t detail) {
    write(own_panel() + line_at(sequence), {sequence, root, detail}, payload);
}

bool ShmBoard::publish_unless_fenced(Sequence sequence, std::span<const std::byte> payload, Rank self) {
    std::byte* const at = own_panel() + line_at(sequence);
    fetch_to_write(at);
    if (is_fenced()) return false;
    write(at, {sequence, self.value, 0}, payload);
    return true;
}

void ShmBoard::publish_word(shared::Published<std::uint64_t>& word, std::uint64_t value) {
    word.publish(value);
    tell_listeners();
}

bool ShmBoard::look(Rank member, Sequence sequence, PublishedLine& line) const {
    return see(member, sequence, line);
}

bool ShmBoard::copy_published(Rank member, Sequence sequence, std::span<std::byte> to, std::size_t* length) const {
    PublishedLine line;
    if (!see(member, sequence, line) || !copy_line(member, line, to) || is_fenced()) return false;
    if (length != nullptr) *length = line.length;
    return true;
}

inline bool ShmBoard::see(Rank member, Sequence sequence, PublishedLine& line) const {
    const std::byte* const start = panel(member);
    if (start == nullptr) return false;
    const std::byte* const at = start + line_at(sequence);
    const Line& seen = shared::at<Line>(at);
    if (seen.stamp.read() != sequence.value + 1) return false;
    const std::uint32_t length = seen.length;
    if (length > kMaxPayload) return false;
    line = {at + sizeof(Line), length, seen.detail, seen.root};
    return true;
}

void ShmBoard::set_consumed(Sequence sequence) {
    own_header().consumed.value.publish(sequence.value);
}

Sequence ShmBoard::consumed(Rank member) const {
    const PanelHeader* const seen = header(member);
    return Sequence{seen == nullptr ? 0 : seen->consumed.value.read()};
}

void ShmBoard::set_stable(Sequence sequence) {
    own_header().stable.value.publish(sequence.value);
}

Sequence ShmBoard::stable(Rank member) const {
    const PanelHeader* const seen = header(member);
    return Sequence{seen == nullptr ? 0 : seen->stable.value.read()};
}

void ShmBoard::log_failure(Rank failed) {
    shared::Published<std::uint64_t>& length = own_header().log_length.value;
    const std::uint64_t at = length.own();
    if (at >= own_.layout().group_size) return;  // each rank once: there can't be more
    shared::at<Entry>(own_panel() + log_entry(own_.layout(), at)).set(failed.value);
    length.publish(at + 1);
}

std::uint32_t ShmBoard::log_length(Rank member) const {
    const PanelHeader* const seen = header(member);
    if (seen == nullptr) return 0;
    const std::uint64_t length = seen->log_length.value.read();
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(length, own_.layout().group_size));
}

Rank ShmBoard::logged(Rank member, std::uint32_t index) const {
    const std::byte* const start = panel(member);
    if (start == nullptr || index >= own_.layout().group_size) return Rank{own_.layout().group_size};
    return Rank{shared::at<Entry>(start + log_entry(own_.layout(), index)).get()};
}

const std::byte* ShmBoard::bulk(Rank member, std::uint64_t place, std::size_t bytes) {
    const std::byte* const start = panel(member);
    return start == nullptr ? nullptr : owner_.bulk(start - panel_at_, place, bytes);
}

bool ShmBoard::alive(Rank member) const {
    const std::byte* const start = panel(member);
    return start != nullptr && is_held(reinterpret_cast<const Header*>(start - panel_at_)->obituary);
}

bool ShmBoard::fenced() const {
    return is_fenced();
}

void ShmBoard::depart() {
    if (own_.is_ours()) own_header().departed.value.publish(1);
}

bool ShmBoard::departed(Rank member) const {
    const PanelHeader* const seen = header(member);
    return seen != nullptr && seen->departed.value.read() != 0;
}

}  // namespace coppice::transport::shm
