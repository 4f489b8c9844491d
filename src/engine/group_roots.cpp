// Several ranks of one host that take themselves for the root of one broadcast.
//
// Between hosts a message names its root, and whoever expects another one says so. On a host a root publishes, and has done
// its part; nobody sends it anything. So each rank notes on its page of which broadcasts it was root, a bit each, and all
// compare these now and then: with every 32nd start, each its own with the others', and all of them while they wait and before
// they leave.
//
//   kRootWords words, broadcast / 32 modulo kRootWords: what is above 32 bits of the block's number | a bit for each broadcast
//
// Each writes what it has noted to its page when it compares, and before it does. So of two roots of a broadcast the one that
// compares later finds the other's bit: a word is written over kRootWords · 32 broadcasts later, and nobody is further ahead of
// that rank than the window and the starts between two looks.
//
// The payloads that the ranks of the host have been given differ then, and calls have returned. So the group is revoked; what
// was found stands on the page of whoever did, before its revocation, and is the error that ranks of this host are told.
#include <fmt/format.h>

#include <algorithm>
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
    shared::Relaxed<std::uint64_t> ranks;        // first << 32 | second
    shared::Published<std::uint64_t> broadcast;  // + 1, stored last
};

std::size_t tail_at(const transport::Board& board) {
    return board.page_bytes() - kPageTail;
}

}  // namespace

void Group::find_root_words() {
    const std::size_t at = tail_at(*board_) + kWordsAt;
    root_words_ = &shared::at<shared::Published<std::uint64_t>>(board_->own_page() + at);
    // There is a look at this with every so many starts, and no more broadcasts may be between two comparisons than one block
    // has, nor than there are lines.
    roots_least_ = std::min(1U << kBlockBits, settings_.window) - starts_mask_;
    for (const Rank local_peer : members_.ranks_of(members_.own_node())) {
        if (const std::byte* const page = board_->page(local_peer))
            local_root_words_.push_back({local_peer, &shared::at<shared::Published<std::uint64_t>>(page + at)});
    }
}

// What was noted since the last time, of a window of broadcasts at most: their lines are there until then.
void Group::publish_root_words() {
    const std::uint64_t last = (next_.value - 1) >> kBlockBits;
    for (std::uint64_t block = roots_published_.value >> kBlockBits; block <= last; ++block) {
        if (root_word_ >> 32 != static_cast<std::uint32_t>(block)) root_word_ = block << 32;
        root_word_ |= static_cast<std::uint32_t>(root_bits_ >> ((block & 1) << kBlockBits));
        root_words_[block & (kRootWords - 1)].publish(root_word_);
    }
    root_bits_ = 0;
    roots_published_ = next_;
}

// What this rank was root of since the last time, beside what the others say. A rank that was not has nothing to do.
void Group::compare_own_roots() {
    if (root_bits_ == 0) {
        roots_published_ = next_;
        return;
    }
    std::uint64_t block = roots_published_.value >> kBlockBits;
    publish_root_words();
    for (; block <= (next_.value - 1) >> kBlockBits; ++block) {
        const std::size_t at = block & (kRootWords - 1);
        const std::uint64_t own = root_words_[at].own();
        for (const RootWords& local_peer : local_root_words_) {
            if (local_peer.words == root_words_) continue;
            const std::uint64_t its = local_peer.words[at].read();
            // Of the same block, and of a broadcast that is this rank's.
            if ((own ^ its) >> 32 == 0 && static_cast<std::uint32_t>(own & its) != 0) {
                look_for_several_roots(Sequence(block << kBlockBits));
                return;
            }
        }
    }
}

// Of the broadcasts from `from` on, as far as they are on the pages.
void Group::look_for_several_roots(Sequence from) {
    if (revoked_ || next_.value == 0) return;
    if (root_bits_ != 0) publish_root_words();
    const std::uint64_t last = (next_.value - 1) >> kBlockBits;
    std::uint64_t block = from.value >> kBlockBits;
    if (last >= kRootWords && block <= last - kRootWords) block = last - kRootWords + 1;
    roots_looked_at_ = next_;
    for (; block <= last; ++block) {
        std::uint32_t seen = 0;
        for (const RootWords& local_peer : local_root_words_) {
            const std::uint64_t word = local_peer.words[block & (kRootWords - 1)].read();
            if (word >> 32 != static_cast<std::uint32_t>(block)) continue;
            const auto bits = static_cast<std::uint32_t>(word);
            if ((seen & bits) != 0) {
                const auto bit = static_cast<std::uint32_t>(std::countr_zero(seen & bits));
                const auto first = std::ranges::find_if(local_root_words_, [block, bit](const RootWords& other) {
                    const std::uint64_t its = other.words[block & (kRootWords - 1)].read();
                    return its >> 32 == static_cast<std::uint32_t>(block) && (its >> bit & 1) != 0;
                });
                tell_of_several_roots((block << kBlockBits) + bit, first->rank, local_peer.rank);
                return;
            }
            seen |= bits;
        }
    }
}

// All have consumed all broadcasts, and may not have written to their pages yet of which of the last they were root; but
// the lines are there.
void Group::look_for_last_roots() {
    look_for_several_roots(Sequence(0));
    for (std::uint64_t number = next_.value - std::min<std::uint64_t>(next_.value, settings_.window);
         number < next_.value && !revoked_; ++number) {
        std::optional<Rank> first;
        for (const RootWords& local_peer : local_root_words_) {
            transport::PublishedLine line;
            if (!board_->look(local_peer.rank, Sequence(number), line) || line.root != local_peer.rank.value) continue;
            if (first) {
                tell_of_several_roots(number, *first, local_peer.rank);
                break;
            }
            first = local_peer.rank;
        }
    }
}

void Group::tell_of_several_roots(std::uint64_t broadcast, Rank first, Rank second) {
    several_roots_ = {broadcast, first, second};
    auto& found = shared::at<Found>(board_->own_page() + tail_at(*board_) + kFoundAt);
    found.ranks.set(std::uint64_t{first.value} << 32 | second.value);
    board_->publish_word(found.broadcast, several_roots_->broadcast + 1);
    learn_revocation(members_.self(), Source::message);
}

// What others of this host have found.
void Group::read_several_roots() {
    for (const Rank local_peer : members_.ranks_of(members_.own_node())) {
        const std::byte* const page = board_->page(local_peer);
        if (several_roots_ || page == nullptr) continue;
        const auto& found = shared::at<Found>(page + tail_at(*board_) + kFoundAt);
        const std::uint64_t broadcast = found.broadcast.read();
        const std::uint64_t ranks = found.ranks.get();
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
