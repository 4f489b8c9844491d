// Several ranks that take themselves for the root of one broadcast.
//
// Between hosts a message names its root. A rank that has one root's payload, and is sent another one's, has found two.
// On a host a root publishes, and has done its part; nobody sends it anything. So each rank notes in its region of which broadcasts
// it was root, a bit each, and all compare these now and then: with every 32nd start, each its own with the others', and all of them
// while they wait and before they leave.
//
//   kRootWords words, broadcast / 32 modulo kRootWords: what is above 32 bits of the block's number | a bit for each broadcast
//
// Each writes what it has noted to its region when it compares, and before it does. So of two roots of a broadcast the one that
// compares later finds the other's bit: a word is written over kRootWords · 32 broadcasts later, and nobody is further ahead of
// that rank than the window and the starts between two looks.
//
// Where one of two roots is of another host, its payload comes to this host in a line of another rank's: so before it leaves each rank
// compares all lines that are there.
//
// The payloads that ranks have been given differ then, and calls have returned. So the group is revoked; what was found stands in a
// region of the rank that did, before its revocation, and is the error that ranks of this host are told. Others are told of the
// revocation.
#include "engine/collectives/broadcast/roots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "engine/collectives/broadcast/slot.hpp"

namespace coppice::engine {
namespace {

constexpr std::uint32_t kBlockBits = 5;
constexpr std::size_t kRootWords = 64;
constexpr std::string_view kRootsRegion = "roots";        // kRootWords words
constexpr std::string_view kFoundRegion = "roots found";  // FoundWords
static_assert((kRootWords << kBlockBits) >= 2 * 1024, "twice the largest window");

struct FoundWords {
    shared::Relaxed<std::uint64_t> ranks;        // first << 32 | second
    shared::Published<std::uint64_t> broadcast;  // + 1, stored last
};

// Others are verdicts on a root that somebody has named: it need not have named itself.
bool tells_of_a_payload(const transport::PublishedLine& line) {
    const auto kind = static_cast<LineKind>(line.detail);
    return kind == LineKind::payload || kind == LineKind::descriptor;
}

}  // namespace

std::array<transport::Region, 2> Roots::host_regions() {
    return {{{.name = kRootsRegion, .bytes = kRootWords * sizeof(shared::Published<std::uint64_t>)},
             {.name = kFoundRegion, .bytes = sizeof(FoundWords)}}};
}

// No more broadcasts may be between two comparisons than one block has, nor than there are lines.
Roots::Roots(const Core& core, const Window& window)
    : members_(core.members()),
      window_(window),
      board_(core.local_peers().publishing() ? core.local_peers().board() : nullptr),
      most_(std::min(1U << kBlockBits, window.size())) {
    if (board_ == nullptr) return;
    const transport::Regions::Place roots = board_->find_region(kRootsRegion);
    found_region_ = board_->find_region(kFoundRegion);
    own_words_ = &shared::at<shared::Published<std::uint64_t>>(board_->own_region(roots));
    for (const Rank rank : members_.ranks_of(members_.own_node())) {
        if (const std::byte* const its = board_->region(rank, roots))
            words_.push_back({rank, &shared::at<shared::Published<std::uint64_t>>(its)});
    }
}

// What was noted since the last time, of a window of broadcasts at most: their lines are there until then.
void Roots::publish() {
    const std::uint64_t last = (window_.next().value - 1) >> kBlockBits;
    for (std::uint64_t block = published_.value >> kBlockBits; block <= last; ++block) {
        if (word_ >> 32 != static_cast<std::uint32_t>(block)) word_ = block << 32;
        word_ |= static_cast<std::uint32_t>(noted_ >> ((block & 1) << kBlockBits));
        own_words_[block & (kRootWords - 1)].publish(word_);
    }
    noted_ = 0;
    published_ = window_.next();
}

bool Roots::own_differ() {
    if (noted_ == 0) {
        published_ = window_.next();
        return false;
    }
    std::uint64_t block = published_.value >> kBlockBits;
    publish();
    for (; block <= (window_.next().value - 1) >> kBlockBits; ++block) {
        const std::size_t at = block & (kRootWords - 1);
        const std::uint64_t own = own_words_[at].own();
        for (const Words& rank : words_) {
            if (rank.words == own_words_) continue;
            const std::uint64_t its = rank.words[at].read();
            // Of the same block, and of a broadcast that is this rank's.
            if ((own ^ its) >> 32 == 0 && static_cast<std::uint32_t>(own & its) != 0)
                return differ_from(Sequence(block << kBlockBits));
        }
    }
    return false;
}

// Of the broadcasts from `from` on, as far as they are in the regions.
bool Roots::differ_from(Sequence from) {
    if (board_ == nullptr || window_.next().value == 0) return false;
    if (noted_ != 0) publish();
    const std::uint64_t last = (window_.next().value - 1) >> kBlockBits;
    std::uint64_t block = from.value >> kBlockBits;
    if (last >= kRootWords && block <= last - kRootWords) block = last - kRootWords + 1;
    looked_at_ = window_.next();
    for (; block <= last; ++block) {
        const auto word_of = [block](const Words& rank) {
            const std::uint64_t word = rank.words[block & (kRootWords - 1)].read();
            return word >> 32 == static_cast<std::uint32_t>(block) ? static_cast<std::uint32_t>(word) : 0;
        };
        std::uint32_t seen = 0;
        for (const Words& rank : words_) {
            const std::uint32_t bits = word_of(rank);
            if ((seen & bits) != 0) {
                const auto bit = static_cast<std::uint32_t>(std::countr_zero(seen & bits));
                const auto first = std::ranges::find_if(
                    words_, [&word_of, bit](const Words& other) { return (word_of(other) >> bit & 1) != 0; });
                return tell_what_is_read({(block << kBlockBits) + bit, first->rank, rank.rank});
            }
            seen |= bits;
        }
    }
    return false;
}

// All have consumed all broadcasts, and may not have written to their regions yet of which of the last they were root; but
// the lines are there.
bool Roots::differ_at_the_end() {
    if (differ_from(Sequence(0))) return true;
    const std::uint64_t next = window_.next().value;
    for (std::uint64_t number = next - std::min<std::uint64_t>(next, window_.size()); number < next; ++number) {
        std::optional<Rank> first;
        for (const Words& rank : words_) {
            transport::PublishedLine line;
            if (!board_->look(rank.rank, Sequence(number), line) || !tells_of_a_payload(line)) continue;
            const Rank root(line.root);
            if (first && *first != root) return tell_what_is_read({number, *first, root});
            first = root;
        }
    }
    return false;
}

// In the memory of others, which may be another group's by now where they take this rank for dead.
bool Roots::tell_what_is_read(const Found& found) {
    return !board_->fenced() && tell(found);
}

// On a host others read it.
bool Roots::tell(const Found& found) {
    const auto [lower, higher] = std::minmax(found.first, found.second);
    if (!found_) found_ = {found.broadcast, lower, higher};
    if (board_ == nullptr) return true;
    auto& words = shared::at<FoundWords>(board_->own_region(found_region_));
    words.ranks.set(std::uint64_t{found_->first.value} << 32 | found_->second.value);
    board_->publish_word(words.broadcast, found_->broadcast + 1);
    return true;
}

void Roots::hear() {
    for (const Words& rank : words_) {
        const std::byte* const its = board_->region(rank.rank, found_region_);
        if (found_ || its == nullptr) continue;
        const auto& words = shared::at<FoundWords>(its);
        const std::uint64_t broadcast = words.broadcast.read();
        const std::uint64_t ranks = words.ranks.get();
        if (broadcast == 0) continue;
        found_ = {broadcast - 1, Rank(static_cast<std::uint32_t>(ranks >> 32)),
                  Rank(static_cast<std::uint32_t>(ranks))};
    }
}

std::optional<Error> Roots::error() const {
    if (!found_) return std::nullopt;
    return Error{COPPICE_ERR_MISMATCH,
                 fmt::format("broadcast {}: ranks {} and {} both named themselves root, so ranks have been given "
                             "different payloads; the group is revoked",
                             found_->broadcast, found_->first.value, found_->second.value)};
}

}  // namespace coppice::engine
