// The detector between this rank's transports and the other ranks: evidence in, beats and notices out.
#include <algorithm>

#include "engine/addresses/copying.hpp"
#include "engine/core/membership.hpp"

namespace coppice::engine {
namespace {

// What has arrived during an absence is read before anything is concluded from it: so many polls in a row bring nothing.
constexpr int kQuietPolls = 64;
constexpr int kMostPolls = 100'000;

}  // namespace

// With a bound of silence the clock is looked at in every round; without, the detector has none.
std::size_t Membership::poll_wires() {
    std::size_t events = around_.router().poll();
    if (around_.settings().detection_bound.value == 0) return events;
    const std::uint64_t now = around_.now_ns();
    const bool was_away = looked_ns_ != 0 && now - looked_ns_ > around_.settings().most_silence().value;
    looked_ns_ = now;
    if (!was_away) return events;
    // A rank that was away for so long may have been taken for dead, and the others may have gone on without it. To
    // learn of that comes before everything that would follow from the other messages that wait here.
    for (int polls = 0, quiet = 0; quiet < kQuietPolls && polls < kMostPolls && !life_.fenced(); ++polls) {
        const std::size_t more = around_.router().poll();
        quiet = more == 0 ? quiet + 1 : 0;
        events += more;
    }
    return events;
}

bool Membership::was_away() const {
    const std::uint64_t most = around_.settings().most_silence().value;
    return most > 0 && looked_ns_ != 0 && around_.now_ns() - looked_ns_ > most;
}

bool Membership::is_due() const {
    return around_.settings().detection_bound.value > 0 && looked_ns_ >= detector_.next_timer().value;
}

bool Membership::timer_is_due() const {
    return around_.settings().detection_bound.value > 0 && !life_.fenced() &&
           around_.now_ns() >= detector_.next_timer().value;
}

std::uint64_t Membership::next_timer_ns() const {
    const std::uint64_t next = held_back_.empty() ? UINT64_MAX : around_.now_ns() + kWitnessLookNs;
    if (around_.settings().detection_bound.value == 0 || life_.fenced()) return next;
    return std::min(next, detector_.next_timer().value);
}

void Membership::progress() {
    if (life_.fenced()) return;
    excuse_the_unknown();
    heed_detector();
    while (const auto next = detector_.next_send(Nanoseconds(looked_ns_))) {
        switch (next->kind) {
            case protocol::DetectorKind::heartbeat:
                send_beat(next->to, Beat::unasked);
                break;
            case protocol::DetectorKind::notice:
                controls_.send(next->to, {Channel::members, MembersKind::failure_notice}, 0, next->about.value);
                break;
            case protocol::DetectorKind::watch:
                watch(next->to);
                break;
            case protocol::DetectorKind::probe:
                // Its process answers for it, if it has left this group only (TransportSet::stranger()).
                if (const Link link = around_.router().to(next->to)) link.probe();
                send_beat(next->to, Beat::asks);
                break;
        }
        heed_detector();
    }
}

// One whose address is asked for can't beat to this rank yet: it is observed from when it can.
void Membership::excuse_the_unknown() {
    const Copying* const copying = around_.router().transport_set()->copying();
    if (copying == nullptr) return;
    const auto observed = detector_.observed();
    if (observed && copying->awaits(around_.router().seat_of(*observed))) detector_.heard(*observed);
}

void Membership::send_beat(Rank to, Beat beat) {
    controls_.send(to, {Channel::members, MembersKind::heartbeat}, static_cast<std::uint64_t>(beat));
}

void Membership::give_up() {
    detector_.give_up();
    progress();
}

// What the detector has come to know by itself.
void Membership::heed_detector() {
    if (detector_.fenced()) life_.be_fenced();
    while (const auto failed = detector_.next_failed()) {
        if (detector_.found_silent(*failed)) around_.router().take_for_dead(*failed);
        learn_failure(*failed);
    }
}

// Ranks that share a board see each other's obituaries without a connection.
void Membership::watch(Rank rank) {
    if (local_peers_.shares_with(rank)) return;
    if (const Link link = around_.router().to(rank)) link.watch();
}

void Membership::fenced_by(Seat there) {
    const auto by = around_.router().rank_at(there);
    if (by && (!members_.failed(*by) || ended_early_.contains(by->value))) life_.be_fenced();
}

void Membership::alive(Seat there) {
    news_.look_soon();
    if (const auto peer = around_.router().rank_at(there)) detector_.heard(*peer);
}

}  // namespace coppice::engine
