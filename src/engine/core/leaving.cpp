// Leaving a group: drives the machine that knows when a rank may go and what holds it up (protocol/departure/).
//
// Neighbours are told by messages, the ranks of the own host by this rank's page. Where the transports end with the group they
// tell their peers, and the segment's obituary tells this host. On one host nobody asks: the board shows which ranks stay.
#include <fmt/format.h>

#include <algorithm>

#include "engine/addresses/copying.hpp"
#include "engine/core/core.hpp"

namespace coppice::engine {
namespace {

constexpr std::uint64_t kSaidSo = 1;

}  // namespace

bool Core::drained() {
    departure_.want();
    progress();
    if (!fenced() && !revoked() && !single_node()) {
        const Nanoseconds now(now_ns());
        if (departure_.is_due(now)) note_dependence(now);
        send_departures();
        flush_controls();
    }
    bool all = true;
    for (Collective* const collective : collectives_) {
        if (fenced() || (revoked() && !collective->outlives_revocation())) continue;
        all = collective->drained() && all;
    }
    if (!fenced() && holder_of_addresses()) all = router_.transport_set()->copying()->may_leave() && all;
    return departure_.may_leave(all, controls_.empty());
}

// The transports end with this group.
bool Core::takes_transports_along() const {
    return router_.transport_set()->users() <= 1;
}

// One that lacks addresses, while others may need those that this rank has.
std::optional<Seat> Core::holder_of_addresses() const {
    const Copying* const copying = router_.transport_set()->copying();
    return copying != nullptr && takes_transports_along() ? copying->holder() : std::nullopt;
}

// One of those whose message this rank waits for.
void Core::note_dependence(Nanoseconds now) {
    std::optional<Rank> rank;
    for (const Collective* const collective : collectives_) {
        rank = collective->leaving_depends_on();
        if (rank) break;
    }
    departure_.wait_for(rank, now);
}

std::string Core::leaving_waits_for() const {
    std::string others;
    for (const Collective* const collective : collectives_) {
        const std::string holder = collective->leaving_waits_for();
        if (collective->outlives_revocation() && !holder.empty()) return holder;
        if (others.empty() && !revoked()) others = holder;
    }
    if (const auto holder = departure_.holder(); holder && !revoked())
        return fmt::format("rank {} {}", holder->rank.value, holder->said_so ? "does not leave" : "is waited for");
    if (!others.empty()) return others;
    if (const auto holder = holder_of_addresses())
        return fmt::format("rank {} does not have all addresses yet", holder->value);
    return "this rank's last messages have not left yet";
}

void Core::show_leaving(status::Waits& waits) const {
    if (const auto holder = departure_.holder(); holder && !revoked())
        return waits.add(holder->rank.value, status::Why::departure);
    for (const Collective* const collective : collectives_) {
        const auto rank = collective->leaving_depends_on();
        if (rank && *rank != members_.self()) return waits.add(rank->value, status::Why::departure);
    }
}

// ------------------------------------------------------------------------------------------------------- the end ---

bool Core::depart(bool may_be_asked) {
    const bool transports_stay = !takes_transports_along();
    const Stage before = stage();
    departure_.leave(transports_stay && may_be_asked);
    end_stage(before, transports_stay);
    if (stage() != Stage::left) return true;
    if (transports_stay) {
        flush_controls();
        return controls_.empty();
    }
    router_.poll();
    bool left = true;
    for (const auto& wire : router_.wires())
        left = wire->leave() && left;
    return left;
}

void Core::abandon(bool may_be_asked) {
    const bool transports_stay = router_.transport_set()->users() > (retired_ ? 0U : 1U);
    const Stage before = stage();
    departure_.give_up(transports_stay && may_be_asked);
    end_stage(before, transports_stay);
}

void Core::go_on_leaving(bool may_be_asked) {
    const Stage before = stage();
    if (before != Stage::deserting && before != Stage::lingering) return;
    departure_.go_on(may_be_asked, before == Stage::deserting && may_be_asked && drained());
    end_stage(before, router_.transport_set()->users() > 0);
}

// Tells the others what this rank's going means, once.
void Core::end_stage(Stage before, bool transports_stay) {
    if (stage() == before) return;
    familiar_.forget();
    if (stage() == Stage::left) {
        if (board_ != nullptr) {
            board_->depart();
            wake_local_peers();
        }
        if (transports_stay)
            send_departures();
        else
            say_farewell();
    }
    if (stage() != Stage::given_up) return;
    // Nobody is waited for, so nobody may wait for this rank: it is a failed one from here on. Where the transports end with this
    // group, the obituary of the segment says it on this host.
    if (board_ != nullptr && transports_stay && !fenced()) {
        board_->log_failure(members_.self());
        wake_local_peers();
    }
    if (!single_node()) {
        detector_.give_up();
        progress_detector();
        flush_controls();
        router_.poll();
    }
}

// The transports end with the group, and tell the peers to which there are connections. A death makes ranks take up with others:
// those that may come to look for this one are told, too.
void Core::say_farewell() {
    say_that_it_never_voted();
    std::vector<Rank> others;
    while (const auto send = departure_.next_send())
        if (send->kind == protocol::DepartureKind::farewell) others.push_back(send->to);
    if (const auto observer = detector_.observer()) others.push_back(*observer);
    if (members_.failed_ranks().empty()) return;
    for (const Rank rank : others)
        if (const Link link = router_.to(rank); link && !departure_.has_departed(rank)) link.say_farewell();
}

bool Core::has_voted() const {
    return std::ranges::any_of(collectives_, &Collective::has_voted);
}

// Where a transport says farewell for this rank, that says nothing of votes, and without one that is known to be none it counts as one against
// those that go on. On the own host the others read it.
void Core::say_that_it_never_voted() {
    if (settings_.quorum != protocol::Quorum::certain || has_voted()) return;
    for (std::uint32_t r = 0; r < members_.ranks(); ++r) {
        const Rank rank(r);
        if (rank == members_.self() || (publishing_ && members_.node_of(rank) == members_.own_node())) continue;
        const bool is_there = !departure_.has_departed(rank) && !members_.failed(rank);
        const Link link = is_there ? router_.to(rank) : Link();
        if (link && link.is_connected()) send_control(rank, {Channel::members, MembersKind::left}, kNeverVoted);
    }
    flush_controls();
}

void Core::retire() {
    on_failure_ = nullptr;
    untold_.clear();
    retired_ = true;
    router_.transport_set()->retire();
}

bool Core::quiet() const {
    return std::ranges::all_of(collectives_, &Collective::quiet);
}

// ------------------------------------------------------------------------------------------------------ messages ---

void Core::departure_message(Rank from, const WireHeader& header) {
    if (header.detail >= members_.ranks()) {
        ++garbage_;
        return;
    }
    const Nanoseconds now(now_ns());
    const bool asks = header.tag.kind == static_cast<std::uint8_t>(MembersKind::leaving_ask);
    if (asks && leaving() && !revoked()) note_dependence(now);
    departure_.receive({.kind = asks ? protocol::DepartureKind::ask : protocol::DepartureKind::answer,
                        .from = from,
                        .to = members_.self(),
                        .about = Rank(header.detail),
                        .said_so = header.sequence == kSaidSo},
                       now);
    send_departures();
}

// Kept until nothing is polled any more.
void Core::send_departures() {
    while (const auto send = departure_.next_send()) {
        switch (send->kind) {
            case protocol::DepartureKind::farewell:
                send_control(send->to, {Channel::members, MembersKind::left}, has_voted() ? 0 : kNeverVoted);
                break;
            case protocol::DepartureKind::ask:
                send_control(send->to, {Channel::members, MembersKind::leaving_ask});
                break;
            case protocol::DepartureKind::answer:
                send_control(send->to, {Channel::members, MembersKind::leaving_answer}, send->said_so ? kSaidSo : 0,
                             send->about.value);
                break;
        }
    }
}

}  // namespace coppice::engine
