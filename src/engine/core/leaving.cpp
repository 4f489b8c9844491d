#include "engine/core/leaving.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/addresses/copying.hpp"

namespace coppice::engine {
namespace {

constexpr std::uint64_t kSaidSo = 1;

}  // namespace

Leaving::Leaving(const Surroundings& around, const Members& members, LocalPeers& local_peers, Controls& controls,
                 const Subscribers& subscribers, Lifecycle& life, Membership& membership, News& news)
    : around_(around),
      members_(members),
      local_peers_(local_peers),
      controls_(controls),
      subscribers_(subscribers),
      life_(life),
      membership_(membership),
      news_(news) {}

bool Leaving::drained() {
    if (!life_.fenced() && !life_.revoked() && !members_.single_node()) {
        const Nanoseconds now(around_.now_ns());
        if (life_.departure().is_due(now)) note_dependence(now);
        send_departures();
        controls_.flush();
    }
    bool all = true;
    for (Collective* const collective : subscribers_.all()) {
        if (life_.fenced() || (life_.revoked() && !collective->outlives_revocation())) continue;
        all = collective->drained() && all;
    }
    if (!life_.fenced() && holder_of_addresses()) all = around_.router().transport_set()->copying()->may_leave() && all;
    return life_.departure().may_leave(all, !controls_.wait());
}

// The transports end with this group.
bool Leaving::takes_transports_along() const {
    return around_.router().transport_set()->users() <= 1;
}

// One that lacks addresses, while others may need those that this rank has.
std::optional<Seat> Leaving::holder_of_addresses() const {
    const Copying* const copying = around_.router().transport_set()->copying();
    return copying != nullptr && takes_transports_along() ? copying->holder() : std::nullopt;
}

// One of those whose message this rank waits for.
void Leaving::note_dependence(Nanoseconds now) {
    std::optional<Rank> rank;
    for (const Collective* const collective : subscribers_.all()) {
        rank = collective->leaving_depends_on();
        if (rank) break;
    }
    life_.departure().wait_for(rank, now);
}

std::string Leaving::waits_for() const {
    std::string others;
    for (const Collective* const collective : subscribers_.all()) {
        const std::string holder = collective->leaving_waits_for();
        if (collective->outlives_revocation() && !holder.empty()) return holder;
        if (others.empty() && !life_.revoked()) others = holder;
    }
    if (const auto holder = life_.departure().holder(); holder && !life_.revoked())
        return fmt::format("rank {} {}", holder->rank.value, holder->said_so ? "does not leave" : "is waited for");
    if (!others.empty()) return others;
    if (const auto holder = holder_of_addresses())
        return fmt::format("rank {} does not have all addresses yet", holder->value);
    return "this rank's last messages have not left yet";
}

void Leaving::show(status::Waits& waits) const {
    if (const auto holder = life_.departure().holder(); holder && !life_.revoked())
        return waits.add(holder->rank.value, status::Why::departure);
    for (const Collective* const collective : subscribers_.all()) {
        const auto rank = collective->leaving_depends_on();
        if (rank && *rank != members_.self()) return waits.add(rank->value, status::Why::departure);
    }
}

// ------------------------------------------------------------------------------------------------------- the end ---

bool Leaving::depart(bool may_be_asked) {
    const bool transports_stay = !takes_transports_along();
    const Stage before = life_.stage();
    life_.departure().leave(transports_stay && may_be_asked);
    end_stage(before, transports_stay);
    if (!life_.has_left()) return true;
    if (transports_stay) {
        controls_.flush();
        return !controls_.wait();
    }
    around_.router().poll();
    bool left = true;
    for (const auto& wire : around_.router().wires())
        left = wire->leave() && left;
    return left;
}

void Leaving::abandon(bool may_be_asked) {
    const bool transports_stay = !takes_transports_along();
    const Stage before = life_.stage();
    life_.departure().give_up(transports_stay && may_be_asked);
    end_stage(before, transports_stay);
}

bool Leaving::may_go_on() const {
    return life_.stage() == Stage::deserting || life_.stage() == Stage::lingering;
}

void Leaving::go_on(bool may_be_asked, bool is_drained) {
    const Stage before = life_.stage();
    life_.departure().go_on(may_be_asked, is_drained);
    end_stage(before, around_.router().transport_set()->users() > 0);
}

bool Leaving::is_in_peace() const {
    return life_.has_left() || life_.stage() == Stage::lingering;
}

void Leaving::depart_at_the_end() {
    if (life_.stage() == Stage::lingering) local_peers_.depart();
}

// Tells the others what this rank's going means, once.
void Leaving::end_stage(Stage before, bool transports_stay) {
    if (life_.stage() == before) return;
    news_.familiar().forget();
    if (life_.has_left()) {
        if (local_peers_.board() != nullptr) {
            local_peers_.depart();
            local_peers_.wake();
        }
        if (transports_stay)
            send_departures();
        else
            say_farewell();
    }
    if (life_.stage() != Stage::given_up) return;
    // Nobody is waited for, so nobody may wait for this rank: it is a failed one from here on. Where the transports end with this
    // group, the obituary of the segment says it on this host.
    if (local_peers_.board() != nullptr && transports_stay && !life_.fenced()) {
        local_peers_.log_failure(members_.self());
        local_peers_.wake();
    }
    if (!members_.single_node()) {
        membership_.give_up();
        controls_.flush();
        around_.router().poll();
    }
}

// The transports end with the group, and tell the peers to which there are connections. A death makes ranks take up with others:
// those that may come to look for this one are told, too.
void Leaving::say_farewell() {
    say_that_it_never_voted();
    std::vector<Rank> others;
    while (const auto send = life_.departure().next_send())
        if (send->kind == protocol::DepartureKind::farewell) others.push_back(send->to);
    if (const auto observer = membership_.observer()) others.push_back(*observer);
    if (members_.failed_ranks().empty()) return;
    for (const Rank rank : others)
        if (const Link link = around_.router().to(rank); link && !life_.has_departed(rank)) link.say_farewell();
}

bool Leaving::has_voted() const {
    return std::ranges::any_of(subscribers_.all(), &Collective::has_voted);
}

// Where a transport says farewell for this rank, that says nothing of votes, and without one that is known to be none it counts as one against
// those that go on. On the own host the others read it.
void Leaving::say_that_it_never_voted() {
    if (around_.settings().quorum != protocol::Quorum::certain || has_voted()) return;
    for (std::uint32_t r = 0; r < members_.ranks(); ++r) {
        const Rank rank(r);
        if (rank == members_.self() || local_peers_.shares_with(rank)) continue;
        const bool is_there = !life_.has_departed(rank) && !members_.failed(rank);
        const Link link = is_there ? around_.router().to(rank) : Link();
        if (link && link.is_connected()) controls_.send(rank, {Channel::members, MembersKind::left}, kNeverVoted);
    }
    controls_.flush();
}

// ------------------------------------------------------------------------------------------------------ messages ---

void Leaving::message(Rank from, const WireHeader& header) {
    if (header.detail >= members_.ranks()) {
        news_.note_garbage();
        return;
    }
    const Nanoseconds now(around_.now_ns());
    const bool asks = header.tag.kind == static_cast<std::uint8_t>(MembersKind::leaving_ask);
    if (asks && life_.is_leaving() && !life_.revoked()) note_dependence(now);
    life_.departure().receive({.kind = asks ? protocol::DepartureKind::ask : protocol::DepartureKind::answer,
                               .from = from,
                               .to = members_.self(),
                               .about = Rank(header.detail),
                               .said_so = header.sequence == kSaidSo},
                              now);
    send_departures();
}

void Leaving::heard(Rank from) {
    life_.departure().heard(from);
    send_departures();
}

// Kept until nothing is polled any more.
void Leaving::send_departures() {
    while (const auto send = life_.departure().next_send()) {
        switch (send->kind) {
            case protocol::DepartureKind::farewell:
                controls_.send(send->to, {Channel::members, MembersKind::left}, has_voted() ? 0 : kNeverVoted);
                break;
            case protocol::DepartureKind::ask:
                controls_.send(send->to, {Channel::members, MembersKind::leaving_ask});
                break;
            case protocol::DepartureKind::answer:
                controls_.send(send->to, {Channel::members, MembersKind::leaving_answer}, send->said_so ? kSaidSo : 0,
                               send->about.value);
                break;
        }
    }
}

}  // namespace coppice::engine
