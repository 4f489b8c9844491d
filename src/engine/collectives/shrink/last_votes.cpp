#include "engine/collectives/shrink/last_votes.hpp"

#include <algorithm>
#include <cstring>

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

LastVotes::LastVotes(transport::Board& board, const Members& members, std::uint32_t capacity)
    : board_(board),
      members_(members),
      seats_(std::max(members.ranks(), capacity)),
      region_(board.find_region(kRegion)) {}

void LastVotes::write(const protocol::LastVote& vote) {
    if (vote == written_ || region_.bytes < sizeof(Page)) return;
    written_ = vote;
    bytes_.clear();
    protocol::write_last_vote(vote, bytes_);
    Page& page = shared::at<Page>(board_.own_region(region_));
    const std::uint64_t stamp = page.stamp.own() + 1;
    Page::Place& place = page.places[stamp & 1];
    place.length = bytes_.size() > kPlace ? kTooLong : static_cast<std::uint32_t>(bytes_.size());
    if (place.length != kTooLong) std::memcpy(place.bytes, bytes_.data(), bytes_.size());
    board_.publish_word(page.stamp, stamp);
}

std::optional<protocol::LastVote> LastVotes::of_gone(Rank rank, bool has_left) const {
    if (members_.node_of(rank) != members_.own_node()) return std::nullopt;
    if (!has_left && (board_.alive(rank) || board_.departed(rank))) return std::nullopt;
    if (region_.bytes < sizeof(Page)) return std::nullopt;
    const std::byte* const its = board_.region(rank, region_);
    if (its == nullptr) return std::nullopt;
    const Page& page = shared::at<Page>(its);
    const std::uint64_t stamp = page.stamp.read();
    if (stamp == 0) return protocol::LastVote();
    const Page::Place& place = page.places[stamp & 1];
    if (place.length > kPlace) return std::nullopt;
    return protocol::read_last_vote({place.bytes, place.length}, seats_);
}

}  // namespace coppice::engine
