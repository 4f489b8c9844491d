// Deaths: learning of them, telling others, standing in; and how far everybody has consumed.
#include <algorithm>
#include <utility>

#include "engine/context.hpp"
#include "engine/core/core.hpp"
#include "engine/tracing.hpp"
#include "trace/probes.hpp"
#include "transport/host_memory.hpp"

namespace coppice::engine {
void Core::peer_failed(Seat there, transport::FailureCause /*cause*/) {
    if (const auto rank = router_.rank_at(there)) learn_failure(*rank);
}

// One that has left in peace is no failed member, whatever becomes of its process.
void Core::learn_failure(Rank rank) {
    if (departure_.has_departed(rank)) return;
    look_soon_ = true;
    if (rank == members_.self()) {
        be_fenced();
        return;
    }
    if (held_back_.contains(rank.value)) return;
    if (judge_ != nullptr && !members_.failed(rank)) {
        protocol::FailedSet news;
        news.insert(rank.value);
        if (hold_back(news)) return;
    }
    hear_last_words();
    if (take_failure(rank)) wake_local_peers();
}

// The others are told of them nevertheless, and may have a witness of their own.
bool Core::hold_back(const protocol::FailedSet& news) {
    if (judge_ == nullptr || hears_of_the_end_ || fenced()) return false;
    protocol::FailedSet all = held_back_;
    all.unite(news);
    if (!judge_->awaits_witness(all)) return false;
    if (held_back_.empty()) held_until_ns_ = now_ns() + kWitnessTimeNs;
    held_back_ = std::move(all);
    detector_.peers_failed(news);
    return true;
}

void Core::look_at_held_back() {
    if (held_back_.empty()) return;
    if (!fenced() && now_ns() < held_until_ns_ && judge_->awaits_witness(held_back_)) {
        look_soon_ = true;
        return;
    }
    std::vector<Rank> ranks;
    const protocol::FailedSet held_back = std::exchange(held_back_, {});
    for (const protocol::FailedSet::Interval& interval : held_back.intervals()) {
        for (std::uint32_t rank = interval.first; rank <= interval.last; ++rank)
            if (!departure_.has_departed(Rank(rank))) ranks.emplace_back(rank);
    }
    take_failures(ranks);
}

void Core::learn_failures(std::span<const Rank> ranks) {
    if (ranks.empty()) return;
    look_soon_ = true;
    protocol::FailedSet news;
    for (const Rank rank : ranks) {
        if (rank != members_.self() && !members_.failed(rank)) news.insert(rank.value);
    }
    if (!hold_back(news)) take_failures(ranks);
}

void Core::take_failures(std::span<const Rank> ranks) {
    hear_last_words();
    protocol::FailedSet news;
    for (const Rank rank : ranks) {
        if (rank != members_.self() && !members_.failed(rank)) news.insert(rank.value);
    }
    if (!hears_of_the_end_) detector_.peers_failed(news);
    for (Collective* const collective : collectives_)
        collective->members_failed(news);
    bool any = false;
    for (const Rank rank : ranks)
        any = (rank != members_.self() && take_failure(rank)) || any;
    // Once, however many they are: who wakes reads the whole log.
    if (any) wake_local_peers();
}

void Core::learn_from(const protocol::FailedSet& failed) {
    if (failed.count() <= members_.failed_ranks().size()) return;
    std::vector<Rank> news;  // learning changes the set
    for (const protocol::FailedSet::Interval& interval : failed.intervals()) {
        for (std::uint32_t rank = interval.first; rank <= interval.last; ++rank) {
            if (!members_.failed(Rank(rank)) && !departure_.has_departed(Rank(rank))) news.emplace_back(rank);
        }
    }
    if (failed.contains(members_.self().value)) be_fenced();
    // At a group's end others count a rank that has left it with the dead. It may go on in a group that this rank is not in, and if it
    // is to be cut off, the ranks that found it dead have done so.
    hears_of_the_end_ = stage() != Stage::staying;
    learn_failures(news);
    hears_of_the_end_ = false;
}

void Core::do_without_the_departed() {
    hears_of_the_end_ = true;
    bool any = false;
    for (std::size_t i = 0; i < departed().size(); ++i)
        if (!members_.failed(departed()[i])) any = take_failure(departed()[i]) || any;
    if (any) wake_local_peers();
    hears_of_the_end_ = false;
}

bool Core::take_failure(Rank rank) {
    Death death{
        .rank = rank, .node = members_.node_of(rank), .was_leader = false, .is_local = false, .node_is_gone = false};
    death.was_leader = members_.leader(death.node) == rank;
    if (!members_.fail(rank)) return is_dead_after_all(rank);
    familiar_.forget();
    death.is_local = death.node == members_.own_node();
    death.node_is_gone = members_.failed_nodes().contains(death.node.value);
    departure_.peer_failed(rank);
    context_->note_change();
    COPPICE_PROBE(3, failed, id_.token, id_.epoch.value, rank.value);
    if (trace::Recorder* const trace = context_->trace()) trace->member("failed", trace_name(*this), rank.value);
    if (hears_of_the_end_) {
        may_have_left_.push_back(rank);
        detector_.peer_left(rank);
    } else {
        spread_failure(rank);
    }
    if (death.is_local) count_out_of_cores(rank);
    for (Collective* const collective : collectives_)
        collective->member_failed(death);
    // At a group's end a rank that has left already can't be told from a dead one, and nobody is interested any more.
    const bool is_told = on_failure_ || unclaimed_;
    if (is_told && stage() == Stage::staying) untold_.push_back(rank);
    return true;
}

// The others of the host, and those on other hosts, are told; the rank, too, if it lives.
void Core::spread_failure(Rank rank) {
    detector_.peer_failed(rank);
    router_.fence(rank);
    if (board_ != nullptr) board_->log_failure(rank);
}

// True: so far it might have left.
bool Core::is_dead_after_all(Rank rank) {
    if (hears_of_the_end_ || std::erase(may_have_left_, rank) == 0) return false;
    spread_failure(rank);
    return true;
}

// A rank that has left says so, and that it has done with what it read here. Nothing else of it counts.
bool Core::is_heard_out(Rank from, Tag tag) const {
    const bool is_last_word =
        tag == Tag(Channel::members, MembersKind::left) || tag == Tag(Channel::reading, ReadingKind::done);
    return is_last_word && std::ranges::find(may_have_left_, from) != may_have_left_.end();
}

// The lowest that is here tells for all of its host, and each host's leader tells the others of its own: when one of these is lost, the next one
// may not know yet.
void Core::tell_of_the_living(const protocol::FailedSet& more) {
    if (!publishing_) return;
    const auto is_lost = [&](Rank rank) { return members_.failed(rank) || more.contains(rank.value); };
    const auto local_peers = members_.ranks_of(members_.own_node());
    const auto is_here = [&](Rank rank) { return !is_lost(rank) && !departure_.has_departed(rank); };
    if (*std::ranges::find_if(local_peers, is_here) != members_.self()) return;
    for (const Rank local_peer : local_peers) {
        if (!is_lost(local_peer) || !board_->alive(local_peer)) continue;
        for (std::uint32_t node = 0; node < members_.nodes(); ++node) {
            const auto others = members_.ranks_of(Node(node));
            const auto leader = std::ranges::find_if(others, is_here);
            if (Node(node) == members_.own_node() || leader == others.end()) continue;
            if (living_told_.emplace(local_peer, *leader).second)
                send_control(*leader, {Channel::members, MembersKind::still_lives}, 0, local_peer.value);
        }
    }
}

void Core::note_living(Rank from, std::uint32_t about) {
    if (about >= members_.ranks() || members_.node_of(Rank(about)) == members_.own_node()) {
        ++garbage_;
        return;
    }
    if (!still_alive_.insert(about)) return;
    look_soon_ = true;
    if (members_.node_of(from) == members_.own_node()) return;
    for (const Rank local_peer : members_.ranks_of(members_.own_node()))
        send_control(local_peer, {Channel::members, MembersKind::still_lives}, 0, about);
}

// Outside of everything that learns of failures, because the callback is the caller's: it may ask, take long, or throw.
void Core::tell_failures() {
    if (!may_call_back()) return;
    while (!unclaimed_ && !untold_.empty()) {
        const Rank rank = untold_.front();
        untold_.erase(untold_.begin());
        if (on_failure_ && stage() == Stage::staying) on_failure_(rank);
    }
}

// Where the living have a core each now, they need not give theirs away when they wait.
void Core::count_out_of_cores(Rank dead) {
    const transport::HostMemory* const host_memory = router_.transport_set()->host_memory();
    if (ranks_per_core() <= 1 || host_memory == nullptr) return;
    const Seat there = router_.seat_of(dead);
    sharing_cores_ -= host_memory->sharing_cores({&there, 1});
    ranks_per_core_.set(ranks_for_each(cores_, sharing_cores_));
}

// The ranks of a host tell each other in their logs what they know: those without connections of their own learn of far
// deaths that way, and the leader of what a root has seen. Only the leader passes it on.
void Core::read_failure_logs() {
    if (!publishing_) return;
    const auto local_peers = members_.ranks_of(members_.own_node());
    for (std::size_t i = 0; i < local_peers.size(); ++i) {
        if (local_peers[i] == members_.self()) continue;
        const std::uint32_t logged = board_->log_length(local_peers[i]);
        if (logs_read_[i] >= logged) [[likely]]
            continue;
        const std::uint32_t length = std::min(logged, members_.ranks());
        while (logs_read_[i] < length) {
            const Rank dead = board_->logged(local_peers[i], logs_read_[i]++);
            if (dead.value < members_.ranks()) learn_failure(dead);
        }
    }
}

void Core::peer_left(Seat there) {
    if (const auto rank = router_.rank_at(there)) member_left(*rank);
}

bool Core::is_done_with(Seat there) const {
    const auto rank = router_.rank_at(there);
    return !rank || members_.failed(*rank) || departure_.has_departed(*rank);
}

// Its caller may yet shrink it.
bool Core::may_precede(Epoch epoch) const {
    return epoch.value > id_.epoch.value && stage() == Stage::staying && !fenced();
}

// Whose process stays in touch for other groups says on its page, or by a message, that it has left this one.
void Core::read_departures() {
    if (!publishing_ || !router_.transport_set()->is_shared()) return;
    for (const Rank local_peer : members_.ranks_of(members_.own_node())) {
        if (local_peer != members_.self() && !members_.failed(local_peer) && board_->departed(local_peer))
            member_left(local_peer);
    }
}

// Where that is news, others may have said already that it has left.
void Core::member_left_without_vote(Rank rank) {
    note_voteless({&rank, 1});
    look_soon_ = true;
    member_left(rank);
}

void Core::member_left(Rank rank) {
    if (departure_.has_departed(rank)) return;
    look_soon_ = true;
    hear_last_words();
    departure_.peer_left(rank);
    detector_.peer_left(rank);
    if (trace::Recorder* const trace = context_->trace()) trace->member("left", trace_name(*this), rank.value);
    for (Collective* const collective : collectives_)
        collective->member_left(rank);
}

}  // namespace coppice::engine
