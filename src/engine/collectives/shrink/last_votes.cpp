#include "engine/collectives/shrink/last_votes.hpp"

#include <algorithm>
#include <cstring>

#include "base/process.hpp"
#include "base/shared_words.hpp"
#include "protocol/membership/codec.hpp"

namespace coppice::engine {
namespace {

constexpr std::string_view kRegion = "last vote";
constexpr std::size_t kPlace = 2040;
constexpr std::uint32_t kTooLong = UINT32_MAX;

}  // namespace

struct LastVotes::Page {
    struct Place {
        std::uint32_t length;
        std::byte bytes[kPlace];
    };
    shared::Published<std::uint64_t> stamp;  // 0: the first view, and no vote
    Place places[2];
};

transport::Region LastVotes::host_region(bool kept) {
    return {.name = kRegion, .bytes = kept ? sizeof(Page) : 0};
}

LastVotes::LastVotes(transport::Board* board, const Members& members, std::uint32_t capacity, Testimony testimony)
    : board_(board), members_(members), seats_(std::max(members.ranks(), capacity)), testimony_(testimony) {
    if (board_ != nullptr) region_ = board_->find_region(kRegion);
    if (!has_witness()) return;
    place_ = testimony_.witness->take({testimony_.group, members_.self().value});
    if (!place_ && testimony_.presence != nullptr) testimony_.presence->note_unknown(testimony_.epoch);
}

LastVotes::~LastVotes() {
    if (!place_ || process::in_forked_child()) return;
    // Else one who asks later would find that this rank had voted for nothing.
    const bool has_voted = written_ != protocol::LastVote();
    if (has_voted && testimony_.presence != nullptr && !testimony_.presence->note_unknown(testimony_.epoch)) return;
    testimony_.witness->give_back(*place_);
}

bool LastVotes::write(const protocol::LastVote& vote) {
    if (vote == written_) return true;
    bytes_.clear();
    protocol::write_last_vote(vote, bytes_);
    if (place_ && !testimony_.witness->write(*place_, bytes_)) return false;
    if (region_.bytes >= sizeof(Page)) write_to_board();
    written_ = vote;
    return true;
}

void LastVotes::write_to_board() {
    Page& page = shared::at<Page>(board_->own_region(region_));
    const std::uint64_t stamp = page.stamp.own() + 1;
    Page::Place& place = page.places[stamp & 1];
    place.length = bytes_.size() > kPlace ? kTooLong : static_cast<std::uint32_t>(bytes_.size());
    if (place.length != kTooLong) std::memcpy(place.bytes, bytes_.data(), bytes_.size());
    board_->leave_word(page.stamp, stamp);
}

std::optional<protocol::LastVote> LastVotes::of_gone(Rank rank, bool has_left) const {
    if (auto vote = of_local(rank, has_left)) return vote;
    if (!has_witness() || (!has_left && is_seen_alive(rank))) return std::nullopt;
    if (const auto said = said_.find(rank.value); said != said_.end()) return said->second;
    auto vote = of_witness(rank);
    if (vote) said_.emplace(rank.value, *vote);
    return vote;
}

// Then a witness has nothing to say of it: to look through all that it keeps, for each rank and with each message, would take longer than
// the renewal.
bool LastVotes::is_seen_alive(Rank rank) const {
    return board_ != nullptr && members_.node_of(rank) == members_.own_node() && board_->alive(rank);
}

std::optional<protocol::LastVote> LastVotes::of_witness(Rank rank) const {
    const auto words = testimony_.witness->last_words_of({testimony_.group, rank.value});
    if (words) return words->empty() ? protocol::LastVote() : protocol::read_last_vote(*words, seats_);
    if (has_never_had_the_group(rank)) return protocol::LastVote();
    return std::nullopt;
}

// The others have made the group with it, and it has ended before it did.
bool LastVotes::has_never_had_the_group(Rank rank) const {
    if (testimony_.presence == nullptr) return false;
    const Origin origin = testimony_.lineage->of(rank);
    return testimony_.presence->was_never_there({.number = origin.seat.value, .incarnation = origin.incarnation},
                                                {testimony_.group, rank.value}, testimony_.epoch);
}

std::optional<protocol::LastVote> LastVotes::of_local(Rank rank, bool has_left) const {
    if (region_.bytes < sizeof(Page) || members_.node_of(rank) != members_.own_node()) return std::nullopt;
    if (!has_left && (board_->alive(rank) || board_->departed(rank))) return std::nullopt;
    const std::byte* const its = board_->region(rank, region_);
    if (its == nullptr) return std::nullopt;
    const Page& page = shared::at<Page>(its);
    const std::uint64_t stamp = page.stamp.read();
    if (stamp == 0) return protocol::LastVote();
    const Page::Place& place = page.places[stamp & 1];
    const std::uint32_t length = shared::read_once(place.length);  // one that is taken for dead may still write
    if (length > kPlace) return std::nullopt;
    return protocol::read_last_vote({place.bytes, length}, seats_);
}

}  // namespace coppice::engine
