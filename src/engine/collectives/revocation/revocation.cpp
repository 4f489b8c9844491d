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

#include "engine/collectives/revocation/revocation.hpp"
#include "engine/core/page.hpp"

namespace coppice::engine {
namespace {

// For those who are in no call of the library: the news waits for them, unless they hear first that this rank is gone.
constexpr std::uint64_t kLeavePatienceNs = 500'000'000;

// The word on a page: the revoker + 1, and whether other hosts know of it.
constexpr std::uint64_t kOutsideKnows = std::uint64_t{1} << 32;

std::size_t word_at(const transport::Board& board) {
    return page::tail_at(board) + page::kRevocationAt;
}

}  // namespace

Revocation::Revocation(Core& core)
    : core_(core), members_(core.members()), board_(core.board()), publishing_(core.publishing()) {}

void Revocation::begin() {
    if (!core_.fenced()) learn(members_.self(), Source::message);
}

void Revocation::learn(Rank revoker, Source source) {
    if (known_ || core_.fenced()) return;
    known_ = true;
    revoker_ = revoker;
    core_.note_revoked();
    if (publishing_) say_on_page(std::uint64_t{revoker.value} + 1);
    const auto reason = core_.reason_to_revoke();
    core_.end_all(reason->status, reason->message);
    if (source == Source::message || members_.is_leader()) spread();
}

void Revocation::spread() {
    if (core_.single_node()) return;
    outside_knows_ = false;
    core_.for_neighbours([this](Rank leader, std::uint32_t /*node*/) {
        core_.send_control(leader, {Channel::revocation, RevocationKind::revoked}, 0, revoker_.value);
        if (std::ranges::find(unaware_, leader) == unaware_.end()) unaware_.push_back(leader);
    });
}

bool Revocation::message(Rank from, const WireHeader& header, std::span<const std::byte> /*payload*/,
                         transport::Buffer /*buffer*/) {
    const bool is_answer = header.tag.kind == static_cast<std::uint8_t>(RevocationKind::known);
    if (header.detail >= members_.ranks() || (is_answer && !known_)) {
        core_.note_garbage();
        return false;
    }
    learn(Rank(header.detail), Source::message);
    std::erase(unaware_, from);
    if (!is_answer) core_.send_control(from, {Channel::revocation, RevocationKind::known}, 0, revoker_.value);
    return false;
}

// What the ranks of this host, dead or alive, have on their pages.
void Revocation::hear_last_words() {
    if (!publishing_ || known_) return;
    for (const Rank local_peer : members_.ranks_of(members_.own_node())) {
        const auto revoker = static_cast<std::uint32_t>(said_on_page(local_peer));
        if (revoker == 0 || revoker > members_.ranks()) continue;
        learn(Rank(revoker - 1), Source::local_peer);
        return;
    }
}

void Revocation::say_on_page(std::uint64_t word) {
    auto& place = shared::at<shared::Published<std::uint64_t>>(board_->own_page() + word_at(*board_));
    board_->publish_word(place, word);
    core_.wake_local_peers();
}

std::uint64_t Revocation::said_on_page(Rank rank) const {
    const std::byte* const page = board_->page(rank);
    if (page == nullptr) return 0;
    return shared::at<shared::Published<std::uint64_t>>(page + word_at(*board_)).read();
}

// The dead may have been on the way.
void Revocation::member_failed(const Death& /*death*/) {
    if (known_ && (!publishing_ || members_.is_leader())) spread();
}

void Revocation::member_left(Rank rank) {
    std::erase(unaware_, rank);
}

void Revocation::keep_house() {
    if (!known_ || outside_knows_) return;
    std::erase_if(unaware_, [this](Rank rank) { return members_.failed(rank); });
    if (!unaware_.empty() || core_.controls_wait()) return;
    outside_knows_ = true;
    if (publishing_ && members_.is_leader()) say_on_page((std::uint64_t{revoker_.value} + 1) | kOutsideKnows);
}

bool Revocation::drained() {
    if (!known_) return true;
    const std::uint64_t now = core_.now_ns();
    if (leave_until_ns_ == 0) leave_until_ns_ = now + kLeavePatienceNs;
    if (core_.controls_wait()) return false;
    if (now > leave_until_ns_ || core_.single_node()) return true;
    if (publishing_ && !members_.is_leader()) {
        const auto leader = members_.leader(members_.own_node());
        return unaware_.empty() && (said_on_page(*leader) & kOutsideKnows) != 0;
    }
    return outside_knows_;
}

std::string Revocation::leaving_waits_for() const {
    if (!known_) return {};
    if (unaware_.empty()) return "this rank's news of the revocation have not left yet";
    return fmt::format("rank {} has not answered yet that it knows of the revocation", unaware_.front().value);
}

std::optional<Error> Revocation::reason_to_revoke() {
    if (!known_) return std::nullopt;
    return Error{COPPICE_ERR_REVOKED,
                 fmt::format("rank {} has revoked the group: it can be shrunk or destroyed, no more", revoker_.value)};
}

}  // namespace coppice::engine
