// The processes that come to a member's door: strangers until they have proved what they say, then newcomers and other members.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/clock.hpp"
#include "base/process.hpp"
#include "base/shortage.hpp"
#include "bootstrap/door/door.hpp"
#include "bootstrap/door/doors.hpp"

namespace coppice::bootstrap {
namespace {

// Of one look: others have to be served, too.
constexpr int kMostAccepted = 64;

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

}  // namespace

std::optional<Key> Door::key_for(const Knock& knock) const {
    if (secret_.empty()) return std::nullopt;
    if (knock.role == Role::newcomer) return key_of(secret_, knock.terms());
    if (knock.role == Role::member) return member_key(secret_);
    return std::nullopt;
}

void Door::accept_all() {
    for (int accepted = 0; accepted < kMostAccepted; ++accepted) {
        Handle socket(process::open_own(
            [this] { return ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }));
        if (socket.get() < 0) {
            if (is_shortage(errno)) look_at_listener(false);
            return;
        }
        std::vector<std::uint64_t> strangers;
        for (const auto& [id, visitor] : visitors_)
            if (visitor.kind == Visitor::Kind::stranger) strangers.push_back(id);
        if (strangers.size() >= kMostStrangers) {
            visit(strangers.front());  // it may have said what it should by now
            const auto oldest = visitors_.find(strangers.front());
            if (oldest != visitors_.end() && oldest->second.kind == Visitor::Kind::stranger) lose(oldest->first);
        }
        const std::uint64_t id = next_id_++;
        Passage passage = Passage::answer([this](const Knock& knock) { return key_for(knock); }, draw_door_nonce());
        const int number = socket.get();
        visitors_.emplace(id, Visitor{.line = Line(std::move(socket), std::move(passage))});
        watch(number, id);
    }
}

void Door::look_at_listener(bool looks) {
    listen_again_ns_ = looks ? UINT64_MAX : now_ns() + kShortageNs;
    epoll_event event{};
    event.events = looks ? EPOLLIN : 0U;
    event.data.u64 = kListener;
    ::epoll_ctl(poll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
}

void Door::visit(std::uint64_t id) {
    const auto found = visitors_.find(id);
    if (found == visitors_.end()) return;
    step(id, found->second);
}

void Door::step(std::uint64_t id, Visitor& visitor) {
    visitor.line.move();
    if (visitor.kind == Visitor::Kind::stranger && visitor.line.is_open()) proven(visitor);
    if (visitor.kind == Visitor::Kind::guest && hall_ && hall_->is_complete()) let_in(id, visitor);
    while (const auto frame = visitor.line.next()) {
        if (hear(id, visitor, *frame)) continue;
        lose(id);
        tell_those_inside();
        return let_guests_in();
    }
    if (visitor.line.is_over()) {
        lose(id);
    } else {
        watch(visitor.line.socket(), id, visitor.line.has_unsent(), true);
    }
    tell_those_inside();
    let_guests_in();
}

// It has shown what it says: it comes with a ticket of this group, or is a member of it.
void Door::proven(Visitor& visitor) {
    visitor.age_ns = 0;
    if (!company_) return send_away(visitor, FrameKind::again);
    if (visitor.line.passage().knocked().role == Role::member) {
        if (!is_keeper()) return send_away(visitor, FrameKind::again);
        visitor.kind = Visitor::Kind::arriving;
        visitor.line.take_formed(ledger_->capacity());
        return;
    }
    const auto guests = std::ranges::count_if(visitors_, [](const auto& one) {
        return one.second.kind == Visitor::Kind::guest || one.second.kind == Visitor::Kind::leaving;
    });
    if (static_cast<std::size_t>(guests) >= kMostGuests) return send_away(visitor, FrameKind::again);
    if (is_keeper()) {
        visitor.kind = Visitor::Kind::guest;
    } else if (company_->door.empty()) {
        send_away(visitor, FrameKind::again);
    } else {
        send_away(visitor, FrameKind::elsewhere, company_->door);
    }
}

void Door::send_away(Visitor& visitor, FrameKind kind, std::span<const std::byte> body) {
    visitor.line.post(make_frame(kind, body));
    visitor.kind = Visitor::Kind::leaving;
    visitor.age_ns = 0;
}

void Door::let_guests_in() {
    if (!hall_ || !hall_->is_complete()) return;
    for (auto& [id, visitor] : visitors_)
        if (visitor.kind == Visitor::Kind::guest) let_in(id, visitor);
    tell_those_inside();
}

void Door::let_in(std::uint64_t id, Visitor& visitor) {
    const Knock& knock = visitor.line.passage().knocked();
    Hall::Entry entry = hall_->let_in(knock.terms(), knock.joiner(), wall_clock_ns());
    // A process has one connection at a time: an earlier one is broken, though nothing has been heard of that here. One that was taken in has
    // to wait until the group counts its earlier self as dead.
    if (entry.earlier && hall_->step(*entry.earlier) != Hall::Step::member) {
        lose(inside_[*entry.earlier]);
        entry = hall_->let_in(knock.terms(), knock.joiner(), wall_clock_ns());
    }
    if (entry.earlier) return send_away(visitor, FrameKind::again);
    if (!entry.number) {
        std::vector<std::byte> body;
        append(body, static_cast<std::int32_t>(entry.status));
        append_bytes(body, bytes_of(entry.why));
        return send_away(visitor, FrameKind::refused, body);
    }
    visitor.kind = Visitor::Kind::inside;
    visitor.number = *entry.number;
    visitor.age_ns = 0;
    inside_[*entry.number] = id;
    std::vector<std::byte> body;
    append(body, self_);
    append_bytes(body, ledger_->bytes());  // it may outlive all that are members now
    visitor.line.post(make_frame(FrameKind::welcome_in, body));
    tell_those_inside();
}

// False: it is not to be heard any more.
bool Door::hear(std::uint64_t id, Visitor& visitor, const LauncherFrame& frame) {
    switch (visitor.kind) {
        case Visitor::Kind::stranger:
        case Visitor::Kind::guest:
            return false;  // what it is to say it says inside
        case Visitor::Kind::leaving:
            return true;
        case Visitor::Kind::arriving:
            return frame.kind == FrameKind::enter && arrive(id, visitor, frame);
        case Visitor::Kind::inside:
            break;
    }
    // The group has left it out, and another process has its number by now.
    if (frame.kind == FrameKind::bye || inside_[visitor.number] != id) return false;
    const Hall::Step before = hall_->step(visitor.number);
    // What is said of one that has gone meanwhile makes no sense, and is no fault; a card that does not is one.
    if (!hall_->hear(visitor.number, frame.kind, frame.body, wall_clock_ns()) && frame.kind == FrameKind::card)
        return false;
    if (hall_->step(visitor.number) != before) visitor.age_ns = 0;
    return true;
}

bool Door::arrive(std::uint64_t id, Visitor& visitor, const LauncherFrame& frame) {
    std::span<const std::byte> rest(frame.body);
    EnterBody said;
    std::uint32_t incarnation = 0;
    const Knock& knock = visitor.line.passage().knocked();
    if (!take(rest, said) || !take(rest, incarnation) || said.number != knock.number ||
        incarnation != knock.incarnation || said.number >= inside_.size())
        return false;
    if (inside_[said.number] != 0) {
        // It was cut off, and is back: it may not know what it was told meanwhile. All begin again.
        keep();
        return false;
    }
    const std::string objection = hall_->enter(said.number, incarnation, rest, wall_clock_ns());
    if (!objection.empty()) {
        send_away(visitor, FrameKind::again);
        return true;
    }
    visitor.kind = Visitor::Kind::inside;
    visitor.number = said.number;
    inside_[said.number] = id;
    return true;
}

void Door::lose(std::uint64_t id) {
    const auto found = visitors_.find(id);
    if (found == visitors_.end()) return;
    const Visitor& visitor = found->second;
    if (visitor.kind == Visitor::Kind::inside && hall_ && inside_[visitor.number] == id) {
        if (hall_->step(visitor.number) != Hall::Step::member) inside_[visitor.number] = 0;
        hall_->lost(visitor.number);
    }
    visitors_.erase(found);
}

bool Door::is_overdue(std::uint64_t id, const Visitor& visitor) const {
    if (visitor.line.is_over()) return true;
    switch (visitor.kind) {
        case Visitor::Kind::stranger:
        case Visitor::Kind::leaving:
            return visitor.age_ns >= kPatienceNs;
        case Visitor::Kind::guest:
        case Visitor::Kind::arriving:
            return visitor.age_ns >= kGuestPatienceNs;
        case Visitor::Kind::inside:
            break;
    }
    if (!hall_ || inside_[visitor.number] != id) return false;
    const Hall::Step step = hall_->step(visitor.number);
    return (step == Hall::Step::invited && visitor.age_ns >= patience_.card_ns) ||
           (step == Hall::Step::known && visitor.age_ns >= patience_.wire_ns);
}

void Door::lose_patience() {
    const std::uint64_t now = now_ns();
    const std::uint64_t passed = looked_ns_ == 0 ? 0 : std::min(now - looked_ns_, kLookNs);
    looked_ns_ = now;
    std::vector<std::uint64_t> overdue;
    for (auto& [id, visitor] : visitors_) {
        visitor.age_ns += passed;
        if (is_overdue(id, visitor)) overdue.push_back(id);
    }
    for (const std::uint64_t id : overdue) {
        Visitor& visitor = visitors_.at(id);
        if (visitor.line.is_over()) {  // it does not read what it is told
            lose(id);
            continue;
        }
        switch (visitor.kind) {
            case Visitor::Kind::guest:
                send_away(visitor, FrameKind::again);
                break;
            case Visitor::Kind::inside:
                hall_->refuse(visitor.number, hall_->step(visitor.number) == Hall::Step::invited
                                                  ? "it has not said in time how it can be reached"
                                                  : "it and all members could not be made known to each other in time");
                break;
            default:
                lose(id);
        }
    }
    if (overdue.empty()) return;
    tell_those_inside();
    let_guests_in();
}

}  // namespace coppice::bootstrap
