#include "bootstrap/lobby.hpp"

#include <algorithm>
#include <utility>

namespace coppice::bootstrap {
namespace {

constexpr const char* kNobodyLeft = "no member of the group is left that could take it in";

bool take_people(std::span<const std::byte>& body, std::uint32_t count, std::vector<PersonBody>& people) {
    for (PersonBody one; people.size() < count && take(body, one);)
        people.push_back(one);
    return people.size() == count;
}

}  // namespace

Lobby::Lobby(std::uint32_t members, std::uint32_t capacity) : next_serial_(members), places_(capacity) {
    for (std::uint32_t number = 0; number < members; ++number) {
        Place& place = places_[number];
        place.serial = number;
        place.was_started = place.lives = place.is_member = true;
    }
}

// ---------------------------------------------------------------------------------------------------------- facts ---

void Lobby::adopt(std::uint32_t number, std::uint32_t incarnation) {
    Place& place = places_[number];
    place.incarnation = incarnation;
    place.serial = next_serial_++;
    place.was_started = place.lives = place.is_member = true;
}

void Lobby::started_late(std::uint32_t number, std::uint32_t least_incarnation) {
    Place next;
    next.incarnation = std::max(places_[number].was_started ? places_[number].incarnation + 1 : 0, least_incarnation);
    next.serial = next_serial_++;
    next.was_started = next.is_late = next.lives = true;
    places_[number] = std::move(next);
}

void Lobby::ended(std::uint32_t number) {
    places_[number].lives = false;
    go(number);
}

std::string Lobby::enter(std::uint32_t number, bool is_newcomer) {
    Place& place = places_[number];
    if (!place.lives) return "its process has ended";
    if (is_newcomer != place.is_late)
        return place.is_late ? "it was started late, and takes no part in how others begin"
                             : "it was there from the start, and joins nobody";
    if (place.has_called) return place.is_late ? "it has joined a group before" : "it has been in the group before";
    if (place.is_late && !has_members()) return kNobodyLeft;
    place.has_called = place.has_entered = true;
    if (place.is_late && group_) invite(number);
    return {};
}

void Lobby::left(std::uint32_t number) {
    if (places_[number].has_entered) go(number);
}

bool Lobby::hear(std::uint32_t number, FrameKind kind, std::span<const std::byte> body) {
    std::uint32_t first = 0;
    if (!take(body, first)) return false;
    switch (kind) {
        case FrameKind::card:
            return first <= body.size() && card(number, body.first(first), body.subspan(first));
        case FrameKind::wired:
            return body.empty() && wired(number, first);
        case FrameKind::unwired:
            return unwired(number, first, {reinterpret_cast<const char*>(body.data()), body.size()});
        case FrameKind::formed: {
            std::vector<PersonBody> newcomers;
            std::vector<PersonBody> left_out;
            std::uint32_t second = 0;
            return take_people(body, first, newcomers) && take(body, second) && take_people(body, second, left_out) &&
                   formed(number, newcomers, left_out, body);
        }
        default:
            return false;
    }
}

bool Lobby::card(std::uint32_t number, std::span<const std::byte> group, std::span<const std::byte> card) {
    Place& place = places_[number];
    if (place.card || (place.is_late && (!group_ || !group.empty()))) return false;
    place.card = Bytes(card.begin(), card.end());
    if (!place.is_late && !group_) {
        group_ = Bytes(group.begin(), group.end());
        for (std::uint32_t other = 0; other < places_.size(); ++other)
            if (places_[other].is_late && places_[other].has_entered) invite(other);
        return true;
    }
    // Those that begin together know each other.
    for (std::uint32_t other = 0; other < places_.size(); ++other) {
        Place& theirs = places_[other];
        if (other == number || !theirs.lives || !theirs.has_entered) continue;
        if (theirs.is_late || place.is_late) {
            if (theirs.card && !place.told.contains(theirs.serial)) introduce(theirs, number);
            // One that has yet to answer its invitation is told of all that has come since.
            if ((theirs.card || theirs.is_late) && !theirs.told.contains(place.serial)) introduce(place, other);
        }
    }
    review();
    return true;
}

bool Lobby::wired(std::uint32_t number, std::uint32_t about) {
    Place& place = places_[number];
    if (about >= next_serial_) return false;
    if (place.told.contains(about)) place.wired.insert(about);
    review();
    return true;
}

bool Lobby::unwired(std::uint32_t number, std::uint32_t about, const std::string& why) {
    Place& place = places_[number];
    if (about >= next_serial_) return false;
    Place* const other = find(about);
    if (other == nullptr) return true;  // it has gone
    if (place.is_member && !other->is_member) {
        refuse(static_cast<std::uint32_t>(other - places_.data()), why);
    } else {
        place.refused.insert(about);
    }
    review();
    return true;
}

// All members say so; the first one that does is heard.
bool Lobby::formed(std::uint32_t number, std::span<const PersonBody> newcomers, std::span<const PersonBody> left_out,
                   std::span<const std::byte> group) {
    if (!places_[number].is_member) return places_[number].was_left_out;
    const auto is_none = [this](const PersonBody& one) { return one.number >= places_.size(); };
    if (std::ranges::any_of(newcomers, is_none) || std::ranges::any_of(left_out, is_none)) return false;
    for (const PersonBody& one : left_out) {
        Place& place = places_[one.number];
        if (!place.is_member || place.incarnation != one.incarnation || one.number == number) continue;
        place.was_left_out = true;
        go(one.number);
    }
    for (const PersonBody& one : newcomers) {
        Place& place = places_[one.number];
        if (!place.lives || place.incarnation != one.incarnation || place.is_member) continue;
        if (!place.is_ready) {
            if (place.has_entered) return false;
            continue;  // it has gone
        }
        place.is_member = true;
        place.was_taken_in = true;
        send(one.number, FrameKind::formed, {group.begin(), group.end()});
    }
    return true;
}

// ----------------------------------------------------------------------------------------------------------- rules ---

bool Lobby::has_members() const {
    return std::ranges::any_of(places_, [](const Place& place) { return place.lives && place.is_member; });
}

std::size_t Lobby::kept() const {
    std::size_t count = 0;
    for (const Place& place : places_)
        count += place.told.size() + place.wired.size() + place.refused.size();
    return count;
}

Lobby::Place* Lobby::find(std::uint32_t serial) {
    const auto found =
        std::ranges::find_if(places_, [serial](const Place& place) { return place.lives && place.serial == serial; });
    return found == places_.end() ? nullptr : &*found;
}

void Lobby::introduce(const Place& who, std::uint32_t to) {
    places_[to].told.insert(who.serial);
    Bytes body;
    append(body, PersonBody{static_cast<std::uint32_t>(&who - places_.data()), who.incarnation, who.serial});
    append_bytes(body, *who.card);
    send(to, FrameKind::introduce, body);
}

// What it has to know of the group, and of all that can be reached so far.
void Lobby::invite(std::uint32_t number) {
    Bytes body;
    append(body, PersonBody{number, places_[number].incarnation, places_[number].serial});
    append_bytes(body, *group_);
    send(number, FrameKind::invitation, body);
    for (const Place& place : places_)
        if (place.lives && place.has_entered && place.card) introduce(place, number);
}

// Each newcomer that all those can reach which count, and that can reach them.
void Lobby::review() {
    for (bool again = true; std::exchange(again, false);) {
        for (std::uint32_t number = 0; number < places_.size(); ++number) {
            Place& place = places_[number];
            if (!place.lives || !place.is_late || place.is_member || place.is_ready || !place.card) continue;
            bool all = true;
            bool can_be = true;
            for (const Place& other : places_) {
                if (&other == &place || !counts(other)) continue;
                all = all && place.wired.contains(other.serial) && other.wired.contains(place.serial);
                can_be = can_be && !place.refused.contains(other.serial) && !other.refused.contains(place.serial);
            }
            if (!can_be) {
                refuse(number, "it and another process that is to be taken in can't reach each other");
                again = true;
            } else if (all && has_members()) {
                place.is_ready = true;
                again = true;
                tell_ready(number);
            }
        }
    }
}

// All are told of it, and it of those that were before it: it may be a member before these are.
void Lobby::tell_ready(std::uint32_t number) {
    const auto tell = [this](std::uint32_t about, std::uint32_t to) {
        Bytes body;
        append(body, PersonBody{about, places_[about].incarnation, places_[about].serial});
        send(to, FrameKind::ready, body);
    };
    for (std::uint32_t other = 0; other < places_.size(); ++other) {
        const Place& place = places_[other];
        if (!place.lives || !place.has_entered) continue;
        tell(number, other);
        if (other != number && place.is_ready && !place.is_member) tell(other, number);
    }
}

void Lobby::refuse(std::uint32_t number, const std::string& why) {
    if (!places_[number].has_entered) return;
    sends_.push_back(
        {number, std::make_shared<const Bytes>(make_frame(FrameKind::refused, why.substr(0, kMaxRefusal))), true});
    go(number);
}

// Nobody reaches it any more, or has to.
void Lobby::go(std::uint32_t number) {
    Place& place = places_[number];
    const bool had_card = place.card.has_value();
    const bool was_member = std::exchange(place.is_member, false);
    place.has_entered = false;
    place.is_ready = false;
    place.card.reset();
    // Numbers that no process gets again.
    for (std::set<std::uint32_t>* const known : {&place.told, &place.wired, &place.refused})
        known->clear();
    for (Place& other : places_) {
        other.wired.erase(place.serial);
        other.refused.erase(place.serial);
    }
    if (had_card) {
        Bytes body;
        append(body, place.serial);
        for (std::uint32_t to = 0; to < places_.size(); ++to)
            if (to != number && places_[to].has_entered && places_[to].told.erase(place.serial) > 0)
                send(to, FrameKind::gone, body);
    }
    if (was_member && !has_members()) {
        for (std::uint32_t other = 0; other < places_.size(); ++other)
            if (places_[other].is_late && places_[other].has_entered) refuse(other, kNobodyLeft);
    }
    review();
}

// ----------------------------------------------------------------------------------------------------------- sends ---

void Lobby::send(std::uint32_t to, FrameKind kind, const Bytes& body) {
    sends_.push_back({to, std::make_shared<const Bytes>(make_frame(kind, body))});
}

std::optional<Lobby::Send> Lobby::next() {
    if (sends_.empty()) return std::nullopt;
    std::optional<Send> next = std::move(sends_.front());
    sends_.pop_front();
    return next;
}

}  // namespace coppice::bootstrap
