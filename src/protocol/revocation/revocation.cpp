#include "protocol/revocation/revocation.hpp"

#include <algorithm>

namespace coppice::protocol {

std::string_view to_string(RevocationKind kind) {
    return kind == RevocationKind::news ? "news" : "answer";
}

Revocation::Revocation(const RevocationPlan& plan, Rank self)
    : roster_(*plan.nodes, self),
      shares_memory_(plan.shares_memory),
      patience_(plan.patience),
      farthest_(plan.farthest),
      faults_(plan.faults) {}

// ---------------------------------------------------------------------------------------------------------- facts ---

bool Revocation::learn(std::uint32_t revoker) {
    if (revoked()) return false;
    revoker_ = revoker;
    return true;
}

void Revocation::revoke() {
    if (learn(roster_.self())) spread();
}

bool Revocation::receive(const RevocationMessage& message) {
    const std::uint32_t ranks = roster_.nodes().ranks();
    if (message.from.value >= ranks || message.from.value == roster_.self() || message.revoker.value >= ranks ||
        (message.kind == RevocationKind::answer && !revoked())) {
        return false;
    }
    if (learn(message.revoker.value) && !lacks(kHeardIsNotPassedOn)) spread();
    std::erase(unaware_, message.from.value);
    if (message.kind == RevocationKind::news) {
        sends_.push_back(
            {.kind = RevocationKind::answer, .from = message.to, .to = message.from, .revoker = Rank(revoker_)});
    }
    return true;
}

void Revocation::read(std::uint64_t word) {
    const auto revoker = static_cast<std::uint32_t>(word);
    if (revoker == 0 || revoker > roster_.nodes().ranks()) return;
    if (learn(revoker - 1) && roster_.leads()) spread();
}

void Revocation::peer_failed(Rank rank) {
    if (!roster_.lose(rank)) return;
    std::erase(unaware_, rank.value);
    if (!revoked() || lacks(kDeathsAreNotFollowed)) return;
    if (!shares_memory_ || roster_.leads()) spread();  // the dead may have been on the way
}

// A rank that has left answers nobody. It has told all that it had to tell, but passes on nothing any more.
void Revocation::peer_left(Rank rank) {
    const bool led = roster_.leads();
    std::erase(unaware_, rank.value);
    if (lacks(kTheDepartedAreTold) || !roster_.lose(rank)) return;
    if (revoked() && !led && roster_.leads()) spread();
}

void Revocation::spread() {
    if (roster_.single_node()) return;
    outside_knows_ = false;
    roster_.for_neighbours(
        [this](std::uint32_t leader) {
            sends_.push_back({.from = Rank(roster_.self()), .to = Rank(leader), .revoker = Rank(revoker_)});
            if (std::ranges::find(unaware_, leader) == unaware_.end()) unaware_.push_back(leader);
        },
        farthest_);
}

void Revocation::settle(bool all_sent) {
    if (!revoked() || outside_knows_ || !all_sent || !sends_.empty() || !unaware_.empty()) return;
    outside_knows_ = true;
    said_so_ = said_so_ || roster_.leads();
}

// --------------------------------------------------------------------------------------------------------- pulled ---

std::uint64_t Revocation::word() const {
    return revoked() ? (std::uint64_t{revoker_} + 1) | (said_so_ ? kOutsideKnows : 0) : 0;
}

std::optional<RevocationMessage> Revocation::next_send() {
    while (!sends_.empty()) {
        const RevocationMessage message = sends_.front();
        sends_.erase(sends_.begin());
        if (!roster_.gone(message.to.value)) return message;
    }
    return std::nullopt;
}

// -------------------------------------------------------------------------------------------------------- leaving ---

bool Revocation::may_leave(Nanoseconds now, bool all_sent, std::uint64_t leader_word) {
    if (leaves_at_ == 0) leaves_at_ = now.value + patience_.value;
    if (!revoked() || !all_sent || !sends_.empty()) return false;
    if (roster_.single_node() || lacks(kLeavesWithoutAnswers) || now.value > leaves_at_) return true;
    if (shares_memory_ && !roster_.leads()) return unaware_.empty() && (leader_word & kOutsideKnows) != 0;
    return outside_knows_;
}

std::optional<Rank> Revocation::waits_for() const {
    return unaware_.empty() ? std::nullopt : std::optional(Rank(unaware_.front()));
}

void Revocation::append_state(std::vector<std::uint32_t>& words) const {
    for (const FailedSet::Interval& interval : roster_.all_gone().intervals())
        words.insert(words.end(), {interval.first, interval.last});
    words.push_back(Roster::kNobody);
    for (const RevocationMessage& message : sends_)
        words.push_back(message.to.value << 1 | static_cast<std::uint32_t>(message.kind));
    words.push_back(Roster::kNobody);
    std::vector<std::uint32_t> unaware = unaware_;
    std::ranges::sort(unaware);
    words.insert(words.end(), unaware.begin(), unaware.end());
    words.insert(words.end(), {Roster::kNobody, revoker_, (outside_knows_ ? 1U : 0U) | (said_so_ ? 2U : 0U)});
}

}  // namespace coppice::protocol
