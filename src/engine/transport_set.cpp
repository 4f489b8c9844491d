#include "engine/transport_set.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cstring>

#include "base/process.hpp"
#include "engine/addresses/copying.hpp"
#include "engine/addresses/unwired.hpp"
#include "engine/newcomers/introductions.hpp"

namespace coppice::engine {
namespace {

// Where something goes on with newcomers one thing leads to the next.
constexpr std::uint32_t kPollsWhileBusy = 64;

std::optional<std::uint32_t> token_of(std::span<const std::byte> header) {
    std::uint32_t token = 0;
    if (header.size() < sizeof token) return std::nullopt;
    std::memcpy(&token, header.data() + offsetof(WireHeader, token), sizeof token);
    return token;
}

std::optional<WireHeader> header_of(std::span<const std::byte> bytes) {
    WireHeader header;
    if (bytes.size() < kShortHeader || bytes.size() > sizeof header) return std::nullopt;
    std::memcpy(&header, bytes.data(), bytes.size());
    return header.version == kWireVersion ? std::optional(header) : std::nullopt;
}

}  // namespace

std::uint8_t TransportSet::add(std::unique_ptr<transport::Transport> wire) {
    wires_.push_back(std::move(wire));
    sleep_on_.push_back(-1);
    return static_cast<std::uint8_t>(wires_.size() - 1);
}

TransportSet::TransportSet(std::uint32_t capacity) : directory_(capacity), route_(std::size_t{capacity} + 1, kNobody) {}

void TransportSet::introduce_by(std::unique_ptr<Introductions> introductions) {
    introductions_ = std::move(introductions);
    looks_outside_ = introductions_ != nullptr || reports_ != nullptr;
}

void TransportSet::heed(std::unique_ptr<bootstrap::Reports> reports) {
    reports_ = std::move(reports);
    looks_outside_ = introductions_ != nullptr || reports_ != nullptr;
}

void TransportSet::copy_by(std::unique_ptr<Copying> copying) {
    copying_ = std::move(copying);
    unwired_ = std::make_unique<Unwired>(*this, *copying_);
}

bool TransportSet::is_over(Seat peer) const {
    return std::ranges::find(dead_, peer) != dead_.end() || std::ranges::find(gone_, peer) != gone_.end();
}

bool TransportSet::vacate(Seat seat, Ended ended) {
    const auto is_done = [seat](const Attached& attached) { return attached.group->is_done_with(seat); };
    if (expected_ > 0 && ended == Ended::perhaps) return false;
    if (!std::ranges::all_of(groups_, is_done)) return false;
    if (transport::Transport* const wire = to(seat)) {
        // A witness may know of its end before its transport does.
        if (!is_over(seat)) wire->fence(seat);
        wire->forget(seat);
    }
    route_[seat.value] = kNobody;
    for (std::vector<Seat>* const known : {&dead_, &to_fence_, &gone_})
        std::erase(*known, seat);
    std::erase_if(replies_, [seat](const Reply& one) { return one.to == seat; });
    std::erase_if(early_, [seat](const Early& one) { return one.from == seat; });
    for (const Attached& attached : groups_)
        attached.group->seat_vacated(seat);
    directory_.vacate(seat);
    return true;
}

void TransportSet::note_end(Seat seat) {
    if (!is_over(seat)) peer_failed(seat, transport::FailureCause::process_gone);
}

void TransportSet::attach(std::uint32_t token, SetUser& group) {
    groups_.push_back({token, &group});
    ++users_;
    shared_ = shared_ || groups_.size() > 1;
    if (expected_ > 0) --expected_;
    for (std::size_t i = 0; i < dead_.size(); ++i)  // the group may come to know of more
        group.peer_failed(dead_[i], transport::FailureCause::notice);
    for (const Seat rank : gone_)
        group.peer_left(rank);
    std::vector<Early> early;
    early.swap(early_);
    for (Early& one : early) {
        if (token_of(one.header) == token) {
            group.message(one.from, one.header, one.payload, 0);
        } else {
            early_.push_back(std::move(one));
        }
    }
    answer_what_came_too_early();
    fence_where_all_are_done();
}

void TransportSet::close_board(std::uint32_t panel, std::vector<Rank> others) {
    read_boards_.push_back({.panel = panel, .readers = std::move(others)});
    close_boards();
}

void TransportSet::close_boards() {
    std::erase_if(read_boards_, [this](const ReadBoard& one) {
        const transport::Board& board = host_memory_->board(one.panel);
        const bool is_read = std::ranges::any_of(
            one.readers, [&board](Rank rank) { return !board.departed(rank) && board.alive(rank); });
        if (!is_read) host_memory_->close_board(one.panel);
        return !is_read;
    });
}

void TransportSet::detach(const SetUser& group, std::optional<Rank> failed_as) {
    for (const Attached& attached : groups_) {
        if (attached.group == &group) past_.push_back({attached.token, failed_as});
    }
    std::erase_if(groups_, [&](const Attached& attached) { return attached.group == &group; });
    answer_what_came_too_early();
    // A rank that was well here may go on here with the others: that only this rank leaves says nothing of it.
    std::erase_if(to_fence_, [&](Seat peer) { return !group.is_done_with(peer); });
}

void TransportSet::end() {
    for (const Attached& attached : groups_)
        attached.group->transports_end();
    wires_.clear();
    host_memory_ = nullptr;
}

void TransportSet::expect_no_more() {
    if (expected_ > 0) --expected_;
    answer_what_came_too_early();
    fence_where_all_are_done();
}

std::size_t TransportSet::poll() {
    std::size_t events = 0;
    for (const auto& wire : wires_)
        events += wire->poll(*this);
    if (!replies_.empty()) send_replies();
    if (copying_ && copying_->is_busy()) [[unlikely]]
        events += copying_->poll();
    if (looks_outside_ && ++polls_ % kPollsPerClock == 0) [[unlikely]] {
        if (polls_ >= kPollsPerLook || (introductions_ && introductions_->is_due())) look_outside();
    }
    return events;
}

// To where newcomers come from, and to what the launcher says. That may be late: another process may have the seat by now.
void TransportSet::look_outside() {
    polls_ = 0;
    if (introductions_) {
        introductions_->poll();
        if (introductions_->is_busy()) polls_ = kPollsPerLook - kPollsWhileBusy;
    }
    if (!reports_) return;
    for (const Rank rank : reports_->take()) {
        const Seat seat(rank.value);
        if (directory_.has(seat, 0)) note_end(seat);
    }
}

TransportSet::~TransportSet() {
    process::close_own(sleep_set_);
}

// Puts it into the set, in place of the one that was known before.
bool TransportSet::sleep_on(int descriptor, int& known) {
    if (descriptor == known) return true;
    if (sleep_set_ < 0) sleep_set_ = process::open_own([] { return epoll_create1(EPOLL_CLOEXEC); });
    epoll_event event{};
    event.events = EPOLLIN;
    if (known >= 0) epoll_ctl(sleep_set_, EPOLL_CTL_DEL, known, &event);
    known = descriptor;
    return descriptor < 0 || epoll_ctl(sleep_set_, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

TransportSet::Armed TransportSet::arm() {
    Armed armed{.descriptor = -1, .complete = true};
    const bool several = wires_.size() > 1 || looks_outside_;
    bool all = true;
    for (std::size_t i = 0; i < wires_.size(); ++i) {
        const int descriptor = wires_[i]->arm();
        all = all && descriptor >= 0;
        armed.complete = armed.complete && wires_[i]->capabilities().arm_is_complete;
        armed.descriptor = descriptor;
        if (several && descriptor >= 0) all = sleep_on(descriptor, sleep_on_[i]) && all;
    }
    if (introductions_) all = sleep_on(introductions_->descriptor(), sleep_on_introductions_) && all;
    if (reports_) all = sleep_on(reports_->descriptor(), sleep_on_reports_) && all;
    polls_ = kPollsPerLook - 1;  // whatever wakes this rank, it looks
    if (several) armed.descriptor = sleep_set_;
    if (!all) armed.descriptor = -1;
    armed.unheard = !all;
    return armed;
}

void TransportSet::fence(Seat peer) {
    if (peer == nowhere()) return;
    if (std::ranges::find(dead_, peer) == dead_.end()) {
        if (std::ranges::find(to_fence_, peer) == to_fence_.end()) to_fence_.push_back(peer);
        return fence_where_all_are_done();
    }
    if (transport::Transport* const wire = to(peer)) wire->fence(peer);
}

void TransportSet::take_for_dead(Seat peer) {
    if (peer == nowhere() || is_over(peer)) return;
    std::erase(to_fence_, peer);
    peer_failed(peer, transport::FailureCause::notice);
    if (transport::Transport* const wire = to(peer)) wire->fence(peer);
}

void TransportSet::answer_one_to_fence(Seat from, const GroupId& group, Rank itself) {
    if (std::ranges::find(to_fence_, from) == to_fence_.end() || replies_.size() >= capacity()) return;
    const bool is_told = std::ranges::any_of(
        replies_, [&](const Reply& reply) { return reply.to == from && reply.group.token == group.token; });
    if (is_told) return;
    replies_.push_back(
        {.to = from, .group = group, .kind = MembersKind::failure_notice, .sequence = kAnswered, .about = itself});
}

// A rank that has given one group up lives on in the others: it is cut off when no group is left that may hear of it.
void TransportSet::fence_where_all_are_done() {
    if (expected_ > 0 || groups_.empty() || to_fence_.empty()) return;
    const auto all_are_done = [this](Seat peer) {
        return std::ranges::all_of(groups_,
                                   [&](const Attached& attached) { return attached.group->is_done_with(peer); });
    };
    std::vector<Seat> waiting;
    waiting.swap(to_fence_);
    for (const Seat peer : waiting) {
        if (!all_are_done(peer)) {
            to_fence_.push_back(peer);
            continue;
        }
        dead_.push_back(peer);  // for groups to come: its transport says no more of it
        if (transport::Transport* const wire = to(peer)) wire->fence(peer);
    }
}

// Buffers are kept by a group that is alone: for two, a transport may not have enough of them to go on.
bool TransportSet::message(Seat from, std::span<const std::byte> header, std::span<const std::byte> payload,
                           transport::Buffer buffer) {
    const bool is_whole = header.size() >= kShortHeader;
    // What is kept is given back to the transport that leads there; and letters come seldom.
    if (copying_ && !is_wired(from)) [[unlikely]]
        buffer = 0;
    if (is_whole && groups_.size() == 1 && *token_of(header) == groups_.front().token) [[likely]]
        return groups_.front().group->message(from, header, payload, buffer);
    return message_to_one(from, header, payload);
}

[[gnu::noinline]] bool TransportSet::message_to_one(Seat from, std::span<const std::byte> header,
                                                    std::span<const std::byte> payload) {
    const auto token = token_of(header);
    for (const Attached& attached : groups_) {
        if (attached.token == token) return attached.group->message(from, header, payload, 0);
    }
    if (copying_ && copying_->take(header, payload)) return false;
    return stranger(from, header, payload);
}

std::byte* TransportSet::place(Seat from, std::span<const std::byte> header, std::size_t bytes, std::size_t here) {
    const auto token = token_of(header);
    for (const Attached& attached : groups_)
        if (attached.token == token) return attached.group->place(from, header, bytes, here);
    return nullptr;
}

// Called from within foreign code: nothing may be thrown through it.
bool TransportSet::stranger(Seat from, std::span<const std::byte> header, std::span<const std::byte> payload) try {
    const auto seen = header_of(header);
    const auto past = seen ? std::ranges::find(past_, seen->token, &Past::token) : past_.end();
    if (past == past_.end() && may_come(header)) {
        if (seen && seen->tag == Tag(Channel::members, MembersKind::heartbeat)) {
            answer_beat(from, *seen);
        } else if (early_.size() < kMostEarly) {
            early_.push_back({from, {header.begin(), header.end()}, {payload.begin(), payload.end()}});
        }
        return false;
    }
    if (seen) {
        answer_stranger(from, *seen);
        if (past != past_.end()) return false;
    }
    // Somebody has to count it as garbage.
    if (!groups_.empty()) groups_.front().group->message(from, header, payload, 0);
    return false;
} catch (const std::bad_alloc&) {
    return false;
}

// The sender has a group that is gone here, or that this process will never have. It is told so, or it would wait for this process.
void TransportSet::answer_stranger(Seat from, const WireHeader& seen) {
    // Two that have given the same group up would answer each other's answers for ever.
    const bool farewell =
        seen.tag == Tag(Channel::members, MembersKind::left) ||
        seen.tag == Tag(Channel::members, MembersKind::never_here) ||
        (seen.tag == Tag(Channel::members, MembersKind::failure_notice) && seen.sequence == kAnswered);
    if (farewell || replies_.size() >= capacity()) return;
    const auto past = std::ranges::find(past_, seen.token, &Past::token);
    const bool failed = past != past_.end() && past->failed_as;
    // Only a member that has left in peace may say so: it proves that everything is over for all.
    const MembersKind gone = past == past_.end() ? MembersKind::never_here : MembersKind::left;
    replies_.push_back({.to = from,
                        .group = {seen.token, Epoch(seen.epoch)},
                        .kind = failed ? MembersKind::failure_notice : gone,
                        .sequence = failed ? kAnswered : 0,
                        .about = failed ? *past->failed_as : Rank(0)});
}

// Each sender once: it has many messages here.
void TransportSet::answer_what_came_too_early() {
    std::vector<std::pair<Seat, std::uint32_t>> answered;
    std::erase_if(early_, [&](const Early& one) {
        if (may_come(one.header)) return false;
        const auto seen = header_of(one.header);
        if (seen && std::ranges::find(answered, std::pair(one.from, seen->token)) == answered.end()) {
            answered.emplace_back(one.from, seen->token);
            answer_stranger(one.from, *seen);
        }
        return true;
    });
}

// Those that have the group already would take this rank for silent while it is on its way there: it may wait in a shrink for one
// that is.
void TransportSet::answer_beat(Seat from, const WireHeader& beat) {
    if (beat.sequence != static_cast<std::uint64_t>(Beat::asks) || replies_.size() >= capacity()) return;
    replies_.push_back({.to = from,
                        .group = {beat.token, Epoch(beat.epoch)},
                        .kind = MembersKind::heartbeat,
                        .sequence = static_cast<std::uint64_t>(Beat::answers)});
}

// Of a group that is not here, nor gone.
bool TransportSet::may_come(std::span<const std::byte> bytes) const {
    if (expected_ > 0) return true;
    const auto header = header_of(bytes);
    return header && std::ranges::any_of(groups_, [&header](const Attached& attached) {
               return attached.group->may_precede(Epoch(header->epoch));
           });
}

void TransportSet::send_replies() {
    std::vector<Reply> replies;
    replies.swap(replies_);
    for (const Reply& reply : replies) {
        transport::Transport* wire = to(reply.to);
        if (wire == nullptr) continue;
        std::uint32_t in_flight = 0;  // no payload, so nothing is referred to
        const Encoded bytes = encode({.token = reply.group.token,
                                      .tag = {Channel::members, reply.kind},
                                      .sequence = reply.sequence,
                                      .detail = reply.about.value,
                                      .epoch = reply.group.epoch.value});
        if (wire->send(reply.to, bytes, {}, &in_flight) == transport::SendStatus::again) replies_.push_back(reply);
    }
}

void TransportSet::peer_failed(Seat peer, transport::FailureCause cause) {
    dead_.push_back(peer);
    for (const Attached& attached : groups_)
        attached.group->peer_failed(peer, cause);
}

void TransportSet::peer_left(Seat peer) {
    gone_.push_back(peer);
    for (const Attached& attached : groups_)
        attached.group->peer_left(peer);
}

void TransportSet::fenced(Seat by) {
    for (const Attached& attached : groups_)
        attached.group->fenced(by);
}

void TransportSet::alive(Seat peer) {
    for (const Attached& attached : groups_)
        attached.group->alive(peer);
}

}  // namespace coppice::engine
