// Revocation: everything of a group ends, at every member, because one of them has said so.
//
// Whoever learns of it says so on its own page of the host's board, which outlives it, and ends what waits. So on a host one
// store reaches all, also from a revoker that dies behind it. Between nodes it goes the way of failure notices: whoever has
// heard of it by message, or speaks for its host, tells the leaders of the nodes at distances ±1, ±2, ±4 …; and again
// after every death that it learns of, because the dead may have been the one to pass it on. A live member whose next
// live neighbour knows is told by it, so that in the end all living know.
//
// Who leaves passes nothing on any more, and others may take it for dead before they have read what it said. So whoever is told
// answers; who speaks for a host says on its page when all have; and a rank leaves a revoked group when those that it has told
// have answered and its leader says so, or after kLeavePatience.
//
// Revoked, a group takes part in nothing any more: nobody waits for anything else of it, at any rank.
#include <fmt/format.h>

#include <algorithm>

#include "engine/context.hpp"
#include "engine/group.hpp"

namespace coppice::engine {
namespace {

// For those who are in no call of the library: the news waits for them, unless they hear first that this rank is gone.
constexpr std::uint64_t kLeavePatienceNs = 500'000'000;

constexpr std::uint64_t kAnswer = 1;

// The word on a page: the revoker + 1, and whether other hosts know of it.
constexpr std::uint64_t kOutsideKnows = std::uint64_t{1} << 32;

std::size_t word_at(const transport::Board& board) {
    return board.page_bytes() - kPageTail;
}

}  // namespace

void Group::revoke() {
    if (fenced_ || revoked_) return;
    learn_revocation(members_.self(), Source::message);
    progress();
}

void Group::learn_revocation(Rank revoker, Source source) {
    if (revoked_) return;
    revoked_ = true;
    revoker_ = revoker;
    if (publishing_) say_on_page(std::uint64_t{revoker.value} + 1);
    if (publishing_) read_several_roots();
    if (const auto mismatch = several_roots()) {
        end_all(mismatch->status, mismatch->message);
    } else {
        end_all(COPPICE_ERR_REVOKED, fmt::format("rank {} has revoked the group", revoker.value));
    }
    pending_.clear();
    if (source == Source::message || members_.is_leader()) spread_revocation();
}

void Group::spread_revocation() {
    if (single_node()) return;
    outside_knows_ = false;
    for_neighbours([this](Rank leader, std::uint32_t /*node*/) {
        send_control(leader, WireKind::revocation, 0, revoker_.value);
        if (std::ranges::find(unaware_, leader) == unaware_.end()) unaware_.push_back(leader);
    });
}

void Group::revocation_message(Rank from, const WireHeader& header) {
    if (header.detail >= members_.ranks() || (header.sequence == kAnswer && !revoked_)) {
        ++garbage_;
        return;
    }
    learn_revocation(Rank(header.detail), Source::message);
    std::erase(unaware_, from);
    if (header.sequence != kAnswer) send_control(from, WireKind::revocation, kAnswer, revoker_.value);
}

// Whether this rank may leave.
bool Group::revocation_is_known() {
    const std::uint64_t now = context_->clock().now_ns();
    if (leave_revoked_until_ns_ == 0) leave_revoked_until_ns_ = now + kLeavePatienceNs;
    if (!controls_.empty()) return false;
    if (now > leave_revoked_until_ns_ || single_node()) return true;
    if (publishing_ && !members_.is_leader()) {
        const auto leader = members_.leader(members_.own_node());
        return unaware_.empty() && (said_on_page(*leader) & kOutsideKnows) != 0;
    }
    return outside_knows_;
}

// What the ranks of this host, dead or alive, have on their pages.
void Group::read_revocations() {
    if (!publishing_ || revoked_) return;
    for (const Rank local_peer : members_.ranks_of(members_.own_node())) {
        const auto revoker = static_cast<std::uint32_t>(said_on_page(local_peer));
        if (revoker == 0 || revoker > members_.ranks()) continue;
        learn_revocation(Rank(revoker - 1), Source::local_peer);
        return;
    }
}

void Group::say_on_page(std::uint64_t word) {
    auto& place = shared::at<shared::Published<std::uint64_t>>(board_->own_page() + word_at(*board_));
    board_->publish_word(place, word);
    wake_local_peers();
}

std::uint64_t Group::said_on_page(Rank local_peer) const {
    const std::byte* const page = board_->page(local_peer);
    if (page == nullptr) return 0;
    return shared::at<shared::Published<std::uint64_t>>(page + word_at(*board_)).read();
}

// Deaths are still learned of and told, for those who go on without the dead.
void Group::progress_revoked(bool thoroughly) {
    if (succession_) progress_succession(thoroughly);
    if (!thoroughly) return;
    read_failure_logs();
    read_departures();
    progress_detector();
    for (Slot& slot : slots_) {
        if (slot.in_flight == 0) slot.in_place = false;  // the caller's memory has been let go of
    }
    if (!controls_.empty()) flush_controls();
    std::erase_if(unaware_, [this](Rank rank) { return members_.failed(rank); });
    if (!outside_knows_ && unaware_.empty() && controls_.empty()) {
        outside_knows_ = true;
        if (publishing_ && members_.is_leader()) say_on_page((std::uint64_t{revoker_.value} + 1) | kOutsideKnows);
    }
    if (!untold_.empty()) tell_failures();
}

Error Group::revocation() const {
    if (auto mismatch = several_roots()) return std::move(*mismatch);
    return {COPPICE_ERR_REVOKED,
            fmt::format("rank {} has revoked the group: it can be shrunk or destroyed, no more", revoker_.value)};
}

}  // namespace coppice::engine
