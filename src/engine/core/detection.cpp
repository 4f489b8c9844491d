// The detector between this rank's transports and the other ranks: evidence in, beats and notices out; and being fenced.
#include <fmt/format.h>

#include "engine/addresses/copying.hpp"
#include "engine/core/core.hpp"

namespace coppice::engine {
namespace {

// What has arrived during an absence is read before anything is concluded from it: so many polls in a row bring nothing.
constexpr int kQuietPolls = 64;
constexpr int kMostPolls = 100'000;

}  // namespace

// With a bound of silence the clock is looked at in every round; without, the detector has none.
std::size_t Core::poll_wires() {
    std::size_t events = router_.poll();
    if (settings_.detection_bound.value == 0) return events;
    const std::uint64_t now = now_ns();
    const bool was_away = looked_ns_ != 0 && now - looked_ns_ > settings_.most_silence().value;
    looked_ns_ = now;
    if (!was_away) return events;
    // A rank that was away for so long may have been taken for dead, and the others may have gone on without it. To
    // learn of that comes before everything that would follow from the other messages that wait here.
    for (int polls = 0, quiet = 0; quiet < kQuietPolls && polls < kMostPolls && !fenced(); ++polls) {
        const std::size_t more = router_.poll();
        quiet = more == 0 ? quiet + 1 : 0;
        events += more;
    }
    return events;
}

bool Core::taken_for_dead() const {
    return fenced() || (board_ != nullptr && board_->fenced());
}

// A call that begins something is told at once that this rank is fenced, if that can be known here.
void Core::look_whether_fenced() {
    if (fenced()) return;
    if (taken_for_dead()) be_fenced();
    const std::uint64_t most = settings_.most_silence().value;
    if (most > 0 && looked_ns_ != 0 && now_ns() - looked_ns_ > most) progress();
}

bool Core::detector_is_due() const {
    return settings_.detection_bound.value > 0 && looked_ns_ >= detector_.next_timer().value;
}

bool Core::timer_is_due() const {
    return settings_.detection_bound.value > 0 && !fenced() && now_ns() >= detector_.next_timer().value;
}

void Core::progress_detector() {
    if (fenced()) return;
    excuse_the_unknown();
    heed_detector();
    while (const auto next = detector_.next_send(Nanoseconds(looked_ns_))) {
        switch (next->kind) {
            case protocol::DetectorKind::heartbeat:
                send_beat(next->to, Beat::unasked);
                break;
            case protocol::DetectorKind::notice:
                send_control(next->to, {Channel::members, MembersKind::failure_notice}, 0, next->about.value);
                break;
            case protocol::DetectorKind::watch:
                watch(next->to);
                break;
            case protocol::DetectorKind::probe:
                // Its process answers for it, if it has left this group only (TransportSet::stranger()).
                if (const Link link = router_.to(next->to)) link.probe();
                send_beat(next->to, Beat::asks);
                break;
        }
        heed_detector();
    }
}

// One whose address is asked for can't beat to this rank yet: it is observed from when it can.
void Core::excuse_the_unknown() {
    const Copying* const copying = router_.transport_set()->copying();
    if (copying == nullptr) return;
    const auto observed = detector_.observed();
    if (observed && copying->awaits(router_.seat_of(*observed))) detector_.heard(*observed);
}

void Core::send_beat(Rank to, Beat beat) {
    send_control(to, {Channel::members, MembersKind::heartbeat}, static_cast<std::uint64_t>(beat));
}

// What the detector has come to know by itself.
void Core::heed_detector() {
    if (detector_.fenced()) be_fenced();
    while (const auto failed = detector_.next_failed()) {
        if (detector_.found_silent(*failed)) router_.take_for_dead(*failed);
        learn_failure(*failed);
    }
}

// Ranks that share a board see each other's obituaries without a connection.
void Core::watch(Rank rank) {
    if (publishing_ && members_.node_of(rank) == members_.own_node()) return;
    if (const Link link = router_.to(rank)) link.watch();
}

void Core::fenced(Seat there) {
    const auto by = router_.rank_at(there);
    if (by && (!members_.failed(*by) || ended_early_.contains(by->value))) be_fenced();
}

void Core::alive(Seat there) {
    look_soon_ = true;
    if (const auto peer = router_.rank_at(there)) detector_.heard(*peer);
}

void Core::be_fenced() {
    if (fenced()) return;
    standing_ = Standing::fenced;
    // The ranks of its host may know nothing of the others but through this one. They stop to wait for it, and ask others.
    if (board_ != nullptr) {
        board_->log_failure(members_.self());
        wake_local_peers();
    }
    departure_.be_fenced();
    end_all(COPPICE_ERR_FENCED, fmt::format("the others take this rank {} for dead", members_.self().value));
}

}  // namespace coppice::engine
