#include "bootstrap/door/ledger.hpp"

#include <algorithm>
#include <set>

namespace coppice::bootstrap {
namespace {

// A frame has room for so many numbers, besides the uses; numbers are given in their order, so those that are left out have hardly been used.
constexpr std::size_t kMostNumbers = 2048;

struct Count {
    std::uint32_t number = 0;
    std::uint32_t next = 0;
};

}  // namespace

void Ledger::note(const PersonBody& who) {
    if (who.number < next_.size() && who.incarnation < kMostIncarnation)
        next_[who.number] = std::max(next_[who.number], who.incarnation + 1);
}

void Ledger::add(const Used& used, std::uint64_t wall_ns) {
    const auto is_it = [&used](const Used& one) {
        return one.number == used.number && one.incarnation == used.incarnation && one.use.id == used.use.id &&
               one.use.joiner == used.use.joiner;
    };
    if (std::ranges::none_of(used_, is_it) && has_room(wall_ns)) used_.push_back(used);
}

void Ledger::note_use(const TicketUse& use, const PersonBody& who, std::uint64_t wall_ns) {
    note(who);
    if (use.id != TicketId{}) add({.use = use, .number = who.number, .incarnation = who.incarnation}, wall_ns);
}

std::uint32_t Ledger::used(const TicketId& id) const {
    std::set<std::uint64_t> joiners;
    for (const Used& one : used_)
        if (one.use.id == id) joiners.insert(one.use.joiner);
    return static_cast<std::uint32_t>(joiners.size());
}

bool Ledger::has_used(const TicketUse& use) const {
    return std::ranges::any_of(
        used_, [&use](const Used& one) { return one.use.id == use.id && one.use.joiner == use.joiner; });
}

bool Ledger::has_room(std::uint64_t wall_ns) {
    if (used_.size() >= kMostUses)
        std::erase_if(used_, [wall_ns](const Used& one) { return one.use.expires_ns <= wall_ns; });
    return used_.size() < kMostUses;
}

std::vector<std::byte> Ledger::bytes() const {
    std::vector<Count> counts;
    for (std::uint32_t number = 0; number < next_.size() && counts.size() < kMostNumbers; ++number)
        if (next_[number] > 0) counts.push_back({number, next_[number]});
    std::vector<std::byte> bytes;
    append(bytes, static_cast<std::uint32_t>(counts.size()));
    append_bytes(bytes, std::as_bytes(std::span(counts)));
    append(bytes, static_cast<std::uint32_t>(used_.size()));
    append_bytes(bytes, std::as_bytes(std::span(used_)));
    return bytes;
}

bool Ledger::merge(std::span<const std::byte> bytes, std::uint64_t wall_ns) {
    std::uint32_t count = 0;
    if (!take(bytes, count) || count > kMostNumbers || bytes.size() / sizeof(Count) < count) return false;
    std::vector<Count> counts(count);
    for (Count& one : counts)
        if (!take(bytes, one) || one.number >= next_.size() || one.next == 0 || one.next > kMostIncarnation)
            return false;
    if (!take(bytes, count) || count > kMostUses || bytes.size() != count * sizeof(Used)) return false;
    for (const Count& one : counts)
        next_[one.number] = std::max(next_[one.number], one.next);
    for (Used one; take(bytes, one);)
        add(one, wall_ns);
    return true;
}

}  // namespace coppice::bootstrap
