#include "protocol/membership/view.hpp"

#include <algorithm>

namespace coppice::protocol {

bool Change::seats(Process process) const {
    return std::ranges::any_of(joined, [process](const Occupant& one) { return one.process == process; });
}

const Occupant* View::find(Seat seat) const {
    const auto place = std::ranges::lower_bound(later_, seat, {}, &Occupant::seat);
    return place != later_.end() && place->seat == seat ? &*place : nullptr;
}

Seat View::seat_of(std::uint32_t rank) const {
    for (const FailedSet::Interval& run : empty_.intervals()) {
        if (run.first > rank) break;
        rank += run.last - run.first + 1;
    }
    return Seat(rank);
}

std::uint32_t View::rank_of(Seat seat) const {
    std::uint32_t rank = seat.value;
    for (const FailedSet::Interval& run : empty_.intervals()) {
        if (run.first > seat.value) break;
        rank -= run.last - run.first + 1;
    }
    return rank;
}

Process View::process_of(std::uint32_t rank) const {
    const Seat seat = seat_of(rank);
    const Occupant* later = find(seat);
    return later == nullptr ? Process(seat.value) : later->process;
}

std::optional<std::uint32_t> View::rank_of(Process process) const {
    if (process.value < first_) {
        const Seat own(process.value);
        return has(own) && find(own) == nullptr ? std::optional(rank_of(own)) : std::nullopt;
    }
    for (const Occupant& later : later_) {
        if (later.process == process) return has(later.seat) ? std::optional(rank_of(later.seat)) : std::nullopt;
    }
    return std::nullopt;
}

std::uint32_t View::incarnation_of(Seat seat) const {
    const Occupant* later = find(seat);
    return later == nullptr ? 0 : later->incarnation;
}

std::optional<Process> View::holder_of(Seat seat) const {
    if (const Occupant* later = find(seat)) return later->process;
    return seat.value < first_ ? std::optional(Process(seat.value)) : std::nullopt;
}

View View::after(const Change& change) const {
    View next = *this;
    ++next.epoch_;
    next.offer_ = change.offer;
    next.empty_.unite(change.gone);
    for (const Occupant& one : change.joined) {
        if (one.seat.value >= next.seats_) {
            // Seats in between, if any, stay empty.
            if (one.seat.value > next.seats_) next.empty_.append({next.seats_, one.seat.value - 1});
            next.seats_ = one.seat.value + 1;
        }
        FailedSet taken;
        taken.insert(one.seat.value);
        next.empty_.subtract(taken);
        const auto place = std::ranges::lower_bound(next.later_, one.seat, {}, &Occupant::seat);
        if (place != next.later_.end() && place->seat == one.seat) {
            *place = one;
        } else {
            next.later_.insert(place, one);
        }
    }
    return next;
}

void append_state(const FailedSet& set, std::vector<std::uint32_t>& words) {
    words.push_back(static_cast<std::uint32_t>(set.intervals().size()));
    for (const FailedSet::Interval& interval : set.intervals())
        words.insert(words.end(), {interval.first, interval.last});
}

void append_state(const Offer& offer, std::vector<std::uint32_t>& words) {
    words.insert(words.end(), {offer.bits, static_cast<std::uint32_t>(offer.terms.word() >> 32),
                               static_cast<std::uint32_t>(offer.terms.word())});
}

void append_state(const Change& change, std::vector<std::uint32_t>& words) {
    append_state(change.gone, words);
    append_state(change.left, words);
    append_state(change.offer, words);
    words.push_back(static_cast<std::uint32_t>(change.joined.size()));
    for (const Occupant& one : change.joined)
        words.insert(words.end(), {one.seat.value, one.incarnation, one.process.value});
}

void View::append_state(std::vector<std::uint32_t>& words) const {
    words.insert(words.end(), {epoch_, first_, seats_});
    coppice::protocol::append_state({.gone = empty_, .joined = later_, .offer = offer_, .left = {}}, words);
}

}  // namespace coppice::protocol
