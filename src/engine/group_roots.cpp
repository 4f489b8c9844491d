// Several ranks of one host that take themselves for the root of one broadcast.
//
// Between hosts a message names its root, and whoever expects another one says so. On a host a root publishes, and has done
// its part; nobody sends it anything. So each rank notes on its page of which broadcasts it was root, a bit each, and all
// compare these now and then: with every 16th start, while they wait, and before they leave.
//
//   kRootWords words, broadcast / 32 modulo kRootWords: what is above 32 bits of the block's number | a bit for each broadcast
//
// Nothing is missed. Whoever is the later root of a broadcast finds the other's bit when it compares next: a word is written
// over kRootWords · 32 broadcasts later, and nobody is further ahead of that rank than the window. And whoever leaves
// knows that all have consumed what it has, so their bits are there.
//
// The payloads that the ranks of the host have been given differ then, and calls have returned. So the group is revoked; what
// was found stands on the page of whoever did, before its revocation, and is the error that ranks of this host are told.
#include <fmt/format.h>

#include <atomic>
#include <bit>

#include "engine/group.hpp"

namespace coppice::engine {
namespace {

constexpr std::uint32_t kBlockBits = 5;
constexpr std::size_t kFoundAt = 128;  // from the beginning of the tail: who has revoked the group is before it
constexpr std::size_t kWordsAt = 256;
static_assert(kWordsAt + kRootWords * sizeof(std::uint64_t) == kPageTail);
static_assert((kRootWords << kBlockBits) >= 2 * 1024, "twice the largest window");

struct Found {
    std::atomic<std::uint64_t> ranks;      // first << 32 | second
    std::atomic<std::uint64_t> broadcast;  // + 1, stored last
};

std::size_t tail_at(const transport::Board& board) {
    return board.page_bytes() - kPageTail;
}

std::size_t word_at(const transport::Board& board, std::uint64_t block) {
    return tail_at(board) + kWordsAt + static_cast<std::size_t>(block & (kRootWords - 1)) * sizeof(std::uint64_t);
}

}  // namespace

void Group::note_root(Sequence sequence) {
    const std::uint64_t block = sequence.value >> kBlockBits;
    if (root_word_ >> 32 != static_cast<std::uint32_t>(block)) root_word_ = block << 32;
    root_word_ |= std::uint64_t{1} << (sequence.value & ((1U << kBlockBits) - 1));
    reinterpret_cast<std::atomic<std::uint64_t>*>(board_->own_page() + word_at(*board_, block))
        ->store(root_word_, std::memory_order_release);
}

// Of the broadcasts from `from` on, as far as they are on the pages.
void Group::look_for_several_roots(Sequence from) {
    if (revoked_ || next_.value == 0) return;
    const std::uint64_t last = (next_.value - 1) >> kBlockBits;
    std::uint64_t block = from.value >> kBlockBits;
    if (last >= kRootWords && block <= last - kRootWords) block = last - kRootWords + 1;
    roots_looked_at_ = next_;
    const auto bits_of = [&](Rank mate) {
        const std::byte* const page = board_->page(mate);
        if (page == nullptr) return 0U;
        const std::uint64_t word = reinterpret_cast<const std::atomic<std::uint64_t>*>(page + word_at(*board_, block))
                                       ->load(std::memory_order_acquire);
        return word >> 32 == static_cast<std::uint32_t>(block) ? static_cast<std::uint32_t>(word) : 0U;
    };
    const auto mates = members_.ranks_of(members_.own_site());
    for (; block <= last; ++block) {
        std::uint32_t seen = 0;
        for (const Rank second : mates) {
            const std::uint32_t bits = bits_of(second);
            const std::uint32_t both = seen & bits;
            seen |= bits;
            if (both == 0) continue;
            const auto bit = static_cast<std::uint32_t>(std::countr_zero(both));
            Rank first = second;
            for (const Rank mate : mates) {
                if ((bits_of(mate) >> bit & 1) == 0) continue;
                first = mate;
                break;
            }
            several_roots_ = {(block << kBlockBits) + bit, first, second};
            auto& found = *reinterpret_cast<Found*>(board_->own_page() + tail_at(*board_) + kFoundAt);
            found.ranks.store(std::uint64_t{first.value} << 32 | second.value, std::memory_order_relaxed);
            board_->publish_word(found.broadcast, several_roots_->broadcast + 1);
            learn_revocation(members_.self(), Source::message);
            return;
        }
    }
}

// What others of this host have found.
void Group::read_several_roots() {
    for (const Rank mate : members_.ranks_of(members_.own_site())) {
        const std::byte* const page = board_->page(mate);
        if (several_roots_ || page == nullptr) continue;
        const auto& found = *reinterpret_cast<const Found*>(page + tail_at(*board_) + kFoundAt);
        const std::uint64_t broadcast = found.broadcast.load(std::memory_order_acquire);
        const std::uint64_t ranks = found.ranks.load(std::memory_order_relaxed);
        if (broadcast == 0) continue;
        several_roots_ = {broadcast - 1, Rank(static_cast<std::uint32_t>(ranks >> 32)),
                          Rank(static_cast<std::uint32_t>(ranks))};
    }
}

std::optional<Error> Group::several_roots() const {
    if (!several_roots_) return std::nullopt;
    return Error{
        COPPICE_ERR_MISMATCH,
        fmt::format("broadcast {}: ranks {} and {} both named themselves root, so ranks of this host have been "
                    "given different payloads; the group is revoked",
                    several_roots_->broadcast, several_roots_->first.value, several_roots_->second.value)};
}

}  // namespace coppice::engine
