// Who stays while this rank wants to leave? Its caller is told when it gives up waiting.
//
// A rank that leaves waits for messages of its neighbours in some tree, and most of these wait for others in turn. So it asks
// one of those that it waits for, now and then: for whom do you wait? A rank that does not leave names itself; one that
// leaves names whom it has been told, or for whom it waits. So the name of a rank that stays comes to all others, by the
// way on which they wait for it, and nobody asks anybody but its neighbours. Waiting goes one way only, down to those that stay,
// so a name that is wrong by now is replaced.
//
// On one host the board shows who stays.
#include "base/clock.hpp"
#include "engine/group.hpp"

namespace coppice::engine {
namespace {

// Most ranks leave together: only one that has waited for longer asks, and then asks again.
constexpr std::uint64_t kAskAfterNs = 20'000'000;
constexpr std::uint64_t kAskAgainNs = 50'000'000;
// Once another rank is asked, its answer should be here by then, or it is the one that stays.
constexpr std::uint64_t kAnswerAfterNs = 1'000'000'000;

constexpr std::uint64_t kSaidSo = 1;

}  // namespace

// One of those whose message this rank waits for.
std::optional<Rank> Group::leaving_depends_on() const {
    if (consumed_ != next_ || stable_ < next_.value) {
        Rank slowest;
        const std::uint64_t least = local_consumed(slowest);
        if (single_node() || least <= stable_) return slowest;
        const auto rank = stability_.holder();
        return rank ? rank : members_.leader(members_.own_node());
    }
    return agreements_.one_waited_for();
}

void Group::ask_who_stays() {
    if (single_node()) return;
    const std::uint64_t now = now_ns();
    if (ask_who_stays_at_ns_ == 0) ask_who_stays_at_ns_ = now + kAskAfterNs;
    if (now < ask_who_stays_at_ns_) return;
    ask_who_stays_at_ns_ = now + kAskAgainNs;
    const auto rank = leaving_depends_on();
    const auto is_old = [&] { return stays_->told_by != rank && now > stays_->told_ns + kAnswerAfterNs; };
    if (stays_ && (members_.failed(stays_->rank) || is_old())) stays_.reset();
    if (!rank || *rank == members_.self()) return;
    send_control(*rank, WireKind::leaving_ask, 0, 0);
    flush_controls();
}

void Group::leaving_asked(Rank from) {
    if (!flushing_) return send_control(from, WireKind::leaving_answer, kSaidSo, members_.self().value);
    if (stays_ && !members_.failed(stays_->rank)) {
        return send_control(from, WireKind::leaving_answer, stays_->said_so ? kSaidSo : 0, stays_->rank.value);
    }
    const auto rank = leaving_depends_on();
    if (rank && *rank != members_.self()) send_control(from, WireKind::leaving_answer, 0, rank->value);
}

void Group::leaving_answered(Rank from, const WireHeader& header) {
    if (header.detail >= members_.ranks()) {
        ++garbage_;
        return;
    }
    const Rank rank(header.detail);
    if (rank != members_.self() && !members_.failed(rank)) stays_ = {rank, header.sequence == kSaidSo, from, now_ns()};
}

std::string Group::leaving_waits_for() const {
    if (succession_ && succession_->under_way()) return succession_->waiting_for();
    if (revoked_) {
        if (unaware_.empty()) return "this rank's news of the revocation have not left yet";
        return fmt::format("rank {} has not answered yet that it knows of the revocation", unaware_.front().value);
    }
    if (stays_ && !members_.failed(stays_->rank))
        return fmt::format("rank {} {}", stays_->rank.value, stays_->said_so ? "does not leave" : "is waited for");
    if (consumed_ != next_ || stable_ < next_.value) return window_holder();
    if (agreements_.ended_below() < agreements_.started()) return agreements_.window_holder();
    return "this rank's last messages have not left yet";
}

}  // namespace coppice::engine
