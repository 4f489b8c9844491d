// Who stays while this rank wants to leave? Its caller is told when it gives up waiting.
//
// A rank that leaves waits for messages of its neighbours in some tree, and most of these wait for others in turn. So it asks
// one of those that it waits for, now and then: for whom do you wait? A rank that does not leave names itself; one that
// leaves names whom it has been told, or for whom it waits. So the name of a rank that stays comes to all others, by the
// way on which they wait for it, and nobody asks anybody but its neighbours. Waiting goes one way only, down to those that stay,
// so a name that is wrong by now is replaced.
//
// On one host the board shows who stays.
#include <fmt/format.h>

#include "engine/core/core.hpp"

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
std::optional<Rank> Core::leaving_depends_on() const {
    for (const Collective* const collective : collectives_)
        if (const auto rank = collective->leaving_depends_on()) return rank;
    return std::nullopt;
}

void Core::ask_who_stays() {
    if (single_node()) return;
    const std::uint64_t now = now_ns();
    if (ask_who_stays_at_ns_ == 0) ask_who_stays_at_ns_ = now + kAskAfterNs;
    if (now < ask_who_stays_at_ns_) return;
    ask_who_stays_at_ns_ = now + kAskAgainNs;
    const auto rank = leaving_depends_on();
    const auto is_old = [&] { return stays_->told_by != rank && now > stays_->told_ns + kAnswerAfterNs; };
    if (stays_ && (members_.failed(stays_->rank) || is_old())) stays_.reset();
    if (!rank || *rank == members_.self()) return;
    send_control(*rank, {Channel::members, MembersKind::leaving_ask});
    flush_controls();
}

void Core::leaving_asked(Rank from) {
    if (!leaving())
        return send_control(from, {Channel::members, MembersKind::leaving_answer}, kSaidSo, members_.self().value);
    if (stays_ && !members_.failed(stays_->rank)) {
        return send_control(from, {Channel::members, MembersKind::leaving_answer}, stays_->said_so ? kSaidSo : 0,
                            stays_->rank.value);
    }
    const auto rank = leaving_depends_on();
    if (rank && *rank != members_.self())
        send_control(from, {Channel::members, MembersKind::leaving_answer}, 0, rank->value);
}

void Core::leaving_answered(Rank from, const WireHeader& header) {
    if (header.detail >= members_.ranks()) {
        ++garbage_;
        return;
    }
    const Rank rank(header.detail);
    if (rank != members_.self() && !members_.failed(rank)) stays_ = {rank, header.sequence == kSaidSo, from, now_ns()};
}

std::string Core::leaving_waits_for() const {
    std::string others;
    for (const Collective* const collective : collectives_) {
        const std::string holder = collective->leaving_waits_for();
        if (collective->outlives_revocation() && !holder.empty()) return holder;
        if (others.empty() && !revoked()) others = holder;
    }
    if (stays_ && !members_.failed(stays_->rank) && !revoked())
        return fmt::format("rank {} {}", stays_->rank.value, stays_->said_so ? "does not leave" : "is waited for");
    return others.empty() ? "this rank's last messages have not left yet" : others;
}

}  // namespace coppice::engine
