#include "protocol/departure/departure.hpp"

#include <algorithm>

namespace coppice::protocol {

std::string_view to_string(DepartureKind kind) {
    switch (kind) {
        case DepartureKind::farewell:
            return "farewell";
        case DepartureKind::ask:
            return "ask";
        case DepartureKind::answer:
            return "answer";
    }
    return "?";
}

Departure::Departure(const DeparturePlan& plan, Rank self)
    : roster_(*plan.nodes, self),
      plan_(plan),
      faults_(plan.faults),
      stage_(plan.unclaimed ? Stage::unclaimed : Stage::staying),
      pause_(plan.ask_again) {}

// ---------------------------------------------------------------------------------------------------------- facts ---

void Departure::claim() {
    if (stage_ == Stage::unclaimed) stage_ = Stage::staying;
}

void Departure::want() {
    if (stage_ == Stage::staying) stage_ = Stage::leaving;
}

void Departure::wait_for(std::optional<Rank> rank, Nanoseconds now) {
    if (rank != waits_for_) ask_soon(now);
    waits_for_ = rank;
    const bool is_old = now.value >= told_at_.value + plan_.answer_after.value;
    if (holder_ && is_old && !lacks(kNamesOfHoldersStay)) holder_.reset();
    if (!ask_at_) ask_at_ = Nanoseconds(now.value + plan_.ask_after.value);
    if (!is_due(now)) return;
    ask_at_ = Nanoseconds(now.value + pause_.value);
    if (rank && *rank != self()) tell(DepartureKind::ask, *rank);
}

bool Departure::receive(const DepartureMessage& message, Nanoseconds now) {
    const std::uint32_t ranks = roster_.nodes().ranks();
    if (message.from.value >= ranks || message.from == self() || message.about.value >= ranks) return false;
    switch (message.kind) {
        case DepartureKind::farewell:
            peer_left(message.from);
            break;
        case DepartureKind::ask:
            answer(message.from);
            break;
        case DepartureKind::answer:
            if (message.about == self() || (is_gone(message.about) && !lacks(kNamesOfHoldersStay))) break;
            told_by_ = message.from;
            hear_of({message.about, message.said_so}, now);
            break;
    }
    return true;
}

void Departure::hear_of(const Holder& holder, Nanoseconds now) {
    if (holder_ == holder && holder.said_so && holder.rank == told_by_) {
        pause_.value = std::max(pause_.value, std::min(2 * pause_.value, plan_.longest_pause.value));
    } else {
        ask_soon(now);
    }
    holder_ = holder;
    told_at_ = now;
}

// As often as at first, counted from `since`.
void Departure::ask_soon(Nanoseconds since) {
    pause_ = plan_.ask_again;
    if (ask_at_) ask_at_->value = std::min(ask_at_->value, since.value + pause_.value);
}

void Departure::heard(Rank from) {
    if (stage_ == Stage::left && !lacks(kTheDepartedAreSilent)) tell(DepartureKind::farewell, from);
}

void Departure::peer_failed(Rank rank) {
    if (rank == self()) return;
    failed_.insert(rank.value);
    roster_.lose(rank);
    forget(rank);
}

void Departure::peer_left(Rank rank) {
    if (rank == self() || has_departed(rank)) return;
    departed_.push_back(rank);
    roster_.lose(rank);
    forget(rank);
}

void Departure::forget(Rank rank) {
    if (holder_ && holder_->rank == rank && !lacks(kNamesOfHoldersStay)) holder_.reset();
    if (waits_for_ != rank) return;
    waits_for_.reset();
    ask_soon(told_at_);
}

void Departure::answer(Rank asker) {
    DepartureMessage reply{.kind = DepartureKind::answer, .from = self(), .to = asker, .about = self()};
    switch (stage_) {
        case Stage::unclaimed:
        case Stage::staying:
            reply.said_so = true;
            break;
        case Stage::leaving:
        case Stage::deserting:
        case Stage::lingering:
            if (holder_ && (told_by_ != asker || lacks(kNamesGoBack)) && !lacks(kHoldersAreNotPassedOn)) {
                reply.about = holder_->rank;
                reply.said_so = holder_->said_so;
            } else if (waits_for_) {
                reply.about = *waits_for_;
            }
            if (reply.about == self() || reply.about == asker) return;
            break;
        case Stage::left:
            return heard(asker);
        case Stage::given_up:
            return;
    }
    sends_.push_back(reply);
}

// ------------------------------------------------------------------------------------------------------- the end ---

bool Departure::is_settled() const {
    if (lacks(kFarewellsEndNoWait)) return false;
    return std::ranges::any_of(departed_, [this](Rank rank) { return !failed_.contains(rank.value); });
}

bool Departure::may_leave(bool is_over, bool all_sent) const {
    if (fenced_ || lacks(kCollectivesAreNotAsked)) return true;
    return is_over && (all_sent || is_settled() || lacks(kUnsentIsLost));
}

void Departure::leave(bool may_be_asked) {
    if (stage_ >= Stage::left) return;
    if (may_be_asked && !fenced_ && !lacks(kFarewellBeforeTheLastAnswer)) {
        stage_ = Stage::lingering;
    } else {
        end();
    }
}

void Departure::give_up(bool may_be_asked) {
    if (stage_ >= Stage::lingering) return;
    if (may_be_asked) {
        stage_ = Stage::deserting;
    } else {
        end_without_peace();
    }
}

void Departure::go_on(bool may_be_asked, bool may_leave) {
    if (stage_ == Stage::deserting) {
        if (!may_be_asked) {
            end_without_peace();
        } else if (may_leave) {
            leave(may_be_asked);
        }
    } else if (stage_ == Stage::lingering && !may_be_asked) {
        end();
    }
}

void Departure::end() {
    if (fenced_) return end_without_peace();
    stage_ = Stage::left;
    say_farewell();
}

void Departure::end_without_peace() {
    stage_ = Stage::given_up;
    if (lacks(kFarewellWithoutPeace)) say_farewell();
}

void Departure::say_farewell() {
    roster_.for_neighbours([this](std::uint32_t leader) { tell(DepartureKind::farewell, Rank(leader)); },
                           plan_.farthest);
}

// --------------------------------------------------------------------------------------------------------- pulled ---

std::optional<DepartureMessage> Departure::next_send() {
    while (!sends_.empty()) {
        const DepartureMessage message = sends_.front();
        sends_.erase(sends_.begin());
        if (!failed_.contains(message.to.value)) return message;
    }
    return std::nullopt;
}

// -------------------------------------------------------------------------------------------------------- looking ---

bool Departure::has_departed(Rank rank) const {
    return std::ranges::find(departed_, rank) != departed_.end();
}

void Departure::append_state(std::vector<std::uint32_t>& words) const {
    for (const FailedSet::Interval& interval : failed_.intervals())
        words.insert(words.end(), {interval.first, interval.last});
    words.push_back(Roster::kNobody);
    for (const FailedSet::Interval& interval : roster_.all_gone().intervals())
        words.insert(words.end(), {interval.first, interval.last});
    words.push_back(Roster::kNobody);
    for (const DepartureMessage& message : sends_)
        words.push_back(message.to.value << 16 | message.about.value << 8 |
                        static_cast<std::uint32_t>(message.kind) << 1 | (message.said_so ? 1U : 0U));
    words.insert(words.end(), {Roster::kNobody, static_cast<std::uint32_t>(stage_), fenced_ ? 1U : 0U,
                               waits_for_ ? waits_for_->value : Roster::kNobody,
                               holder_ ? holder_->rank.value << 1 | (holder_->said_so ? 1U : 0U) : Roster::kNobody,
                               holder_ ? told_by_.value : Roster::kNobody});
}

}  // namespace coppice::protocol
