// Deaths and departures: learning of them, and telling the components, the other ranks and the caller.
#include <algorithm>
#include <utility>

#include "engine/core/membership.hpp"
#include "trace/probes.hpp"

namespace coppice::engine {

Membership::Membership(Surroundings& around, Members& members, LocalPeers& local_peers, Controls& controls,
                       const Subscribers& subscribers, Lifecycle& life, News& news, FailureCallback on_failure)
    : around_(around),
      members_(members),
      local_peers_(local_peers),
      controls_(controls),
      subscribers_(subscribers),
      life_(life),
      news_(news),
      detector_({.nodes = &members.nodes_table(),
                 .period = around.settings().heartbeat_period,
                 .bound = around.settings().most_silence()},
                members.self()),
      on_failure_(std::move(on_failure)) {}

void Membership::note_voteless(std::span<const Rank> ranks) {
    for (const Rank rank : ranks)
        voteless_.insert(rank.value);
}

void Membership::start_with_failed(std::span<const Rank> known_to_all, std::span<const Rank> others) {
    protocol::FailedSet known;
    for (const Rank rank : known_to_all)
        known.insert(rank.value);
    detector_.begin_without(known);
    learn_failures(known_to_all);
    learn_failures(others);
    for (const Rank rank : others)
        ended_early_.insert(rank.value);
    if (around_.settings().detection_bound.value > 0) looked_ns_ = around_.now_ns();
    // They may have taken this rank for dead while it was away: then it is told before anything is concluded from their end.
    if (around_.settings().detection_bound.value > 0 && !others.empty()) around_.router().poll();
    progress();
    local_peers_.meet_leaders(!life_.is_unclaimed());
}

// One that has left in peace is no failed member, whatever becomes of its process.
void Membership::learn_failure(Rank rank) {
    if (life_.has_departed(rank)) return;
    news_.look_soon();
    if (rank == members_.self()) {
        life_.be_fenced();
        return;
    }
    if (held_back_.contains(rank.value)) return;
    if (judge_ != nullptr && !members_.failed(rank)) {
        protocol::FailedSet news;
        news.insert(rank.value);
        if (hold_back(news)) return;
    }
    subscribers_.hear_last_words();
    if (take_failure(rank)) local_peers_.wake();
}

// The others are told of them nevertheless, and may have a witness of their own.
bool Membership::hold_back(const protocol::FailedSet& news) {
    if (judge_ == nullptr || hears_of_the_end_ || life_.fenced()) return false;
    protocol::FailedSet all = held_back_;
    all.unite(news);
    if (!judge_->awaits_witness(all)) return false;
    if (held_back_.empty()) held_until_ns_ = around_.now_ns() + kWitnessTimeNs;
    held_back_ = std::move(all);
    detector_.peers_failed(news);
    return true;
}

void Membership::look_at_held_back() {
    if (held_back_.empty()) return;
    if (!life_.fenced() && around_.now_ns() < held_until_ns_ && judge_->awaits_witness(held_back_)) {
        news_.look_soon();
        return;
    }
    std::vector<Rank> ranks;
    const protocol::FailedSet held_back = std::exchange(held_back_, {});
    for (const protocol::FailedSet::Interval& interval : held_back.intervals()) {
        for (std::uint32_t rank = interval.first; rank <= interval.last; ++rank)
            if (!life_.has_departed(Rank(rank))) ranks.emplace_back(rank);
    }
    take_failures(ranks);
}

void Membership::learn_failures(std::span<const Rank> ranks) {
    if (ranks.empty()) return;
    news_.look_soon();
    protocol::FailedSet news;
    for (const Rank rank : ranks) {
        if (rank != members_.self() && !members_.failed(rank)) news.insert(rank.value);
    }
    if (!hold_back(news)) take_failures(ranks);
}

void Membership::take_failures(std::span<const Rank> ranks) {
    subscribers_.hear_last_words();
    protocol::FailedSet news;
    for (const Rank rank : ranks) {
        if (rank != members_.self() && !members_.failed(rank)) news.insert(rank.value);
    }
    if (!hears_of_the_end_) detector_.peers_failed(news);
    subscribers_.members_failed(news);
    bool any = false;
    for (const Rank rank : ranks)
        any = (rank != members_.self() && take_failure(rank)) || any;
    // Once, however many they are: who wakes reads the whole log.
    if (any) local_peers_.wake();
}

void Membership::learn_from(const protocol::FailedSet& failed) {
    if (failed.count() <= members_.failed_ranks().size()) return;
    std::vector<Rank> news;  // learning changes the set
    for (const protocol::FailedSet::Interval& interval : failed.intervals()) {
        for (std::uint32_t rank = interval.first; rank <= interval.last; ++rank) {
            if (!members_.failed(Rank(rank)) && !life_.has_departed(Rank(rank))) news.emplace_back(rank);
        }
    }
    if (failed.contains(members_.self().value)) life_.be_fenced();
    // At a group's end others count a rank that has left it with the dead. It may go on in a group that this rank is not in, and if it
    // is to be cut off, the ranks that found it dead have done so.
    hears_of_the_end_ = !life_.stays();
    learn_failures(news);
    hears_of_the_end_ = false;
}

void Membership::do_without_the_departed() {
    hears_of_the_end_ = true;
    bool any = false;
    for (std::size_t i = 0; i < life_.departed().size(); ++i)
        if (!members_.failed(life_.departed()[i])) any = take_failure(life_.departed()[i]) || any;
    if (any) local_peers_.wake();
    hears_of_the_end_ = false;
}

bool Membership::take_failure(Rank rank) {
    Death death{
        .rank = rank, .node = members_.node_of(rank), .was_leader = false, .is_local = false, .node_is_gone = false};
    death.was_leader = members_.leader(death.node) == rank;
    if (!members_.fail(rank)) return is_dead_after_all(rank);
    news_.familiar().forget();
    death.is_local = death.node == members_.own_node();
    death.node_is_gone = members_.failed_nodes().contains(death.node.value);
    life_.departure().peer_failed(rank);
    around_.context().note_change();
    COPPICE_PROBE(3, failed, around_.id().token, around_.id().epoch.value, rank.value);
    if (const GroupTrace& trace = around_.trace(); trace.recorder != nullptr)
        trace.recorder->member("failed", trace.name, rank.value);
    if (hears_of_the_end_) {
        may_have_left_.push_back(rank);
        detector_.peer_left(rank);
    } else {
        spread_failure(rank);
    }
    if (death.is_local) around_.count_out_of_cores(rank);
    subscribers_.member_failed(death);
    // At a group's end a rank that has left already can't be told from a dead one, and nobody is interested any more.
    const bool is_told = on_failure_ || life_.is_unclaimed();
    if (is_told && life_.stays()) untold_.push_back(rank);
    return true;
}

// The others of the host, and those on other hosts, are told; the rank, too, if it lives.
void Membership::spread_failure(Rank rank) {
    detector_.peer_failed(rank);
    around_.router().fence(rank);
    local_peers_.log_failure(rank);
}

// True: so far it might have left.
bool Membership::is_dead_after_all(Rank rank) {
    if (hears_of_the_end_ || std::erase(may_have_left_, rank) == 0) return false;
    spread_failure(rank);
    return true;
}

// A rank that has left says so, and that it has done with what it read here. Nothing else of it counts.
bool Membership::is_heard_out(Rank from, Tag tag) const {
    const bool is_last_word =
        tag == Tag(Channel::members, MembersKind::left) || tag == Tag(Channel::reading, ReadingKind::done);
    return is_last_word && std::ranges::find(may_have_left_, from) != may_have_left_.end();
}

// The lowest that is here tells for all of its host, and each host's leader tells the others of its own: when one of these is lost, the next one
// may not know yet.
void Membership::tell_of_the_living(const protocol::FailedSet& more) {
    if (!local_peers_.publishing()) return;
    const auto is_lost = [&](Rank rank) { return members_.failed(rank) || more.contains(rank.value); };
    const auto local_peers = members_.ranks_of(members_.own_node());
    const auto is_here = [&](Rank rank) { return !is_lost(rank) && !life_.has_departed(rank); };
    if (*std::ranges::find_if(local_peers, is_here) != members_.self()) return;
    for (const Rank local_peer : local_peers) {
        if (!is_lost(local_peer) || !local_peers_.board()->alive(local_peer)) continue;
        for (std::uint32_t node = 0; node < members_.nodes(); ++node) {
            const auto others = members_.ranks_of(Node(node));
            const auto leader = std::ranges::find_if(others, is_here);
            if (Node(node) == members_.own_node() || leader == others.end()) continue;
            if (living_told_.emplace(local_peer, *leader).second)
                controls_.send(*leader, {Channel::members, MembersKind::still_lives}, 0, local_peer.value);
        }
    }
}

void Membership::note_living(Rank from, std::uint32_t about) {
    if (about >= members_.ranks() || members_.node_of(Rank(about)) == members_.own_node()) {
        news_.note_garbage();
        return;
    }
    if (!still_alive_.insert(about)) return;
    news_.look_soon();
    if (members_.node_of(from) == members_.own_node()) return;
    for (const Rank local_peer : members_.ranks_of(members_.own_node()))
        controls_.send(local_peer, {Channel::members, MembersKind::still_lives}, 0, about);
}

// Outside of everything that learns of failures, because the callback is the caller's: it may ask, take long, or throw.
void Membership::tell_failures() {
    if (!around_.may_call_back()) return;
    while (!life_.is_unclaimed() && !untold_.empty()) {
        const Rank rank = untold_.front();
        untold_.erase(untold_.begin());
        if (on_failure_ && life_.stays()) on_failure_(rank);
    }
}

void Membership::tell_to(FailureCallback on_failure) {
    on_failure_ = std::move(on_failure);
    if (!on_failure_) untold_.clear();
}

void Membership::tell_nobody() {
    on_failure_ = nullptr;
    untold_.clear();
}

void Membership::message(Rank from, const WireHeader& header) {
    const auto kind = static_cast<MembersKind>(header.tag.kind);
    switch (kind) {
        case MembersKind::left:
            return header.sequence == kNeverVoted ? member_left_without_vote(from) : member_left(from);
        case MembersKind::never_here:
            note_voteless({&from, 1});
            return learn_failure(from);
        case MembersKind::still_lives:
            return note_living(from, header.detail);
        case MembersKind::leaving_ask:
        case MembersKind::leaving_answer:
            return;  // of Leaving
        case MembersKind::heartbeat:
            // One that has left this group may still observe this rank, which beats to another by now.
            if (header.sequence == static_cast<std::uint64_t>(Beat::asks)) send_beat(from, Beat::answers);
            break;
        case MembersKind::failure_notice:
            break;
    }
    const auto news =
        kind == MembersKind::failure_notice ? protocol::DetectorKind::notice : protocol::DetectorKind::heartbeat;
    if (!detector_.receive({.kind = news, .from = from, .to = members_.self(), .about = Rank(header.detail)})) {
        news_.note_garbage();
        return;
    }
    heed_detector();
}

void Membership::read_failure_logs() {
    local_peers_.read_failure_logs([this](Rank dead) { learn_failure(dead); });
}

void Membership::read_departures() {
    if (!local_peers_.publishing() || !around_.router().transport_set()->is_shared()) return;
    for (const Rank local_peer : members_.ranks_of(members_.own_node())) {
        if (local_peer != members_.self() && !members_.failed(local_peer) && local_peers_.board()->departed(local_peer))
            member_left(local_peer);
    }
}

// Where that is news, others may have said already that it has left.
void Membership::member_left_without_vote(Rank rank) {
    note_voteless({&rank, 1});
    news_.look_soon();
    member_left(rank);
}

void Membership::member_left(Rank rank) {
    if (life_.has_departed(rank)) return;
    news_.look_soon();
    subscribers_.hear_last_words();
    life_.departure().peer_left(rank);
    detector_.peer_left(rank);
    if (const GroupTrace& trace = around_.trace(); trace.recorder != nullptr)
        trace.recorder->member("left", trace.name, rank.value);
    subscribers_.member_left(rank);
}

}  // namespace coppice::engine
