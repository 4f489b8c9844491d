// How a broadcast ends for its caller: delivery and completion, and the lines of the host's board that tell of it.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/copy.hpp"
#include "base/copy_large.hpp"
#include "base/memory_access.hpp"
#include "engine/collectives/broadcast/broadcasts.hpp"
#include "engine/requests/tracing.hpp"
#include "trace/probes.hpp"

namespace coppice::engine {
namespace {

// While a rank copies nothing is heard of it: so it does that in pieces of this size.
constexpr std::size_t kCopiedAtOnce = std::size_t{4} << 20;

bool may_take(const Request& request, std::uint64_t bytes) {
    return bytes < kLeastLookedAt || may_write({request.buffer, static_cast<std::size_t>(bytes)});
}

}  // namespace

void Broadcasts::deliver(Slot& slot) {
    if (slot.described != 0) [[unlikely]]
        return deliver_described(slot);
    Request& request = *slot.request;
    const bool is_root = slot.root == members_.self();
    stage_what_is_in_place(slot);
    if (slot.in_place) return;  // it is still leaving
    const bool fits = request.view || is_root || slot.length <= request.capacity;
    if (fits && !request.view && !is_root) copy_few(request.buffer, slot.payload, slot.length);
    // Nobody waits for a rank that is taken for dead: what it reads on the board may be a later broadcast's already.
    if (publishing_ && board_->fenced()) return life_.be_fenced();
    request.received = slot.length;
    if (request.view) {
        request.payload = slot.payload;
        complete(slot, COPPICE_OK);
    } else if (is_root) {
        complete(slot, COPPICE_OK);
    } else if (!fits) {
        truncate(slot, slot.length);
    } else {
        complete(slot, COPPICE_OK);
    }
}

void Broadcasts::truncate(Slot& slot, std::uint64_t bytes) {
    slot.request->received = static_cast<std::size_t>(bytes);
    complete(slot, COPPICE_ERR_TRUNCATED,
             fmt::format("broadcast {}: rank {} sent {} bytes, the buffer has room for {}", slot.sequence.value,
                         slot.root.value, bytes, slot.request->capacity));
}

// A descriptor is here. What is here of the payload is copied to the caller's buffer as it comes, out of caches; that is good when all of
// it is there, not before. A view is given then.
void Broadcasts::deliver_described(Slot& slot) {
    payloads_.learn(slot.sequence, slot.root, {slot.payload, slot.length});
    const Payloads::Look look = payloads_.look(slot.sequence);
    const Request& request = *slot.request;
    // Whatever is wrong with the buffer, the others still have it from this rank.
    const bool takes_copy = !request.view && slot.root != members_.self();
    if (takes_copy && look.bytes > request.capacity) return truncate(slot, look.bytes);
    if (takes_copy && request.received == 0 && !look.payload.empty() && !may_take(request, look.bytes))
        return complete(slot, COPPICE_ERR_INVALID_ARGUMENT,
                        fmt::format("broadcast {}: the {} bytes at {} can't be written: is all of the buffer mapped, "
                                    "and not read-only?",
                                    slot.sequence.value, look.bytes, fmt::ptr(request.buffer)));
    switch (look.state) {
        case Payloads::State::pending:
        case Payloads::State::here:
            if (take_what_is_here(slot, look.payload, look.bytes) && look.state == Payloads::State::here)
                return hand_over(slot, look.payload);
            if (slot.machine) wake(slot);  // to be looked at again; where there is none its line is
            return;
        case Payloads::State::root_failed:
            return complete_without_payload(slot, LineKind::root_failed);
        case Payloads::State::no_memory:
            return complete(slot, COPPICE_ERR_NO_MEMORY,
                            fmt::format("broadcast {}: there is no memory for the {} bytes of rank {}",
                                        slot.sequence.value, look.bytes, slot.root.value));
        case Payloads::State::no_descriptor:
            return complete(slot, COPPICE_ERR_MISMATCH,
                            fmt::format("broadcast {}: what rank {} sent describes no payload", slot.sequence.value,
                                        slot.root.value));
    }
}

// False: of a part of it.
bool Broadcasts::take_what_is_here(const Slot& slot, std::span<const std::byte> payload, std::uint64_t bytes) {
    Request& request = *slot.request;
    if (request.view || slot.root == members_.self() || payload.size() <= request.received) return true;
    auto news = payload.subspan(request.received);
    news = news.first(std::min(news.size(), kCopiedAtOnce));
    copy_for_caller(request.buffer + request.received, news.data(), news.size(), static_cast<std::size_t>(bytes));
    request.received += news.size();
    news_.note_work();
    has_more_to_copy_ = request.received < payload.size() || has_more_to_copy_;
    return request.received == payload.size();
}

void Broadcasts::hand_over(Slot& slot, std::span<const std::byte> payload) {
    Request& request = *slot.request;
    if (payloads_.may_be_overwritten()) return life_.be_fenced();  // as in deliver()
    request.received = payload.size();
    request.payload = payload.data();
    if (slot.root != members_.self()) note_payload(slot, payload.size());
    complete(slot, COPPICE_OK);
}

void Broadcasts::complete(Slot& slot, coppice_status_t status, std::string message) {
    Request& request = *slot.request;
    slot.request = nullptr;
    if (status != COPPICE_OK && status != COPPICE_ERR_TRUNCATED) request.received = 0;
    if (streams_ && slot.root == members_.self()) stream_.ended(around_.now_ns());
    request.end(status, std::move(message));
    trace_end(request);
    if (!request.view || status != COPPICE_OK) mark_consumed(slot);
}

// All of the payload is here; at the root: it is given to the others.
void Broadcasts::note_payload(const Slot& slot, std::size_t bytes) const {
    COPPICE_PROBE(5, payload, around_.id().token, around_.id().epoch.value, slot.sequence.value, slot.root.value,
                  bytes);
    if (trace_ == nullptr) [[likely]]
        return;
    trace::Operation operation = around_.trace().name;
    operation.kind = status::Kind::broadcast;
    operation.number = slot.sequence.value;
    operation.root = slot.root.value;
    trace_->payload(operation, bytes, slot.root == members_.self());
}

void Broadcasts::mark_consumed(Slot& slot) {
    slot.consumed = true;
    Sequence count = window_.consumed();
    for (; count < window_.next(); count.value += 1) {
        const Slot& oldest = slot_of(count);
        if (!oldest.engaged || oldest.sequence != count || !oldest.consumed) break;
    }
    window_.consume(count);
}

// ------------------------------------------------------------------------------------------ published on a board ---

// Looks for the line of a waiting broadcast where this rank does not speak for its host: at the root, if it lives here,
// and at the host's leader. True when the request has ended.
bool Broadcasts::look_for_line(Slot& slot) {
    if (!publishing_ || slot.request == nullptr) return slot.request == nullptr;
    transport::PublishedLine line;
    const bool root_is_here = members_.node_of(slot.root) == members_.own_node();
    const bool root_is_dead = root_is_here && members_.failed(slot.root);
    bool found = root_is_here && board_->look(slot.root, slot.sequence, line);
    if (!found && !(root_is_here && !root_is_dead)) {
        const auto leader = members_.leader(members_.own_node());
        found = leader && *leader != members_.self() && board_->look(*leader, slot.sequence, line);
    }
    // What is published outlives its writer, and the writer may have been the one that spoke for this host until now.
    if (!found && !members_.failed_ranks().empty()) found = look_at_failed_local_peers(slot, line);
    if (!found) {
        // One host, and the root's line is not there although the root is dead: nobody has it.
        if (root_is_dead && members_.single_node()) complete_without_payload(slot, LineKind::root_failed);
        return slot.request == nullptr;
    }
    if (line.root != slot.root.value) {
        complete_for_other_root(slot, line.root);
        return true;
    }
    const auto kind = static_cast<LineKind>(line.detail);
    if (kind != LineKind::payload && kind != LineKind::descriptor) {
        complete_without_payload(slot, kind);
    } else {
        slot.described = kind == LineKind::descriptor ? kDescribed : 0;
        slot.payload = line.payload;
        slot.length = line.length;
        slot.has_payload = true;
        if (slot.described == 0) note_payload(slot, slot.length);
        deliver(slot);
    }
    return true;
}

bool Broadcasts::look_at_failed_local_peers(Slot& slot, transport::PublishedLine& line) const {
    for (const Rank local_peer : members_.ranks_of(members_.own_node())) {
        if (members_.failed(local_peer) && board_->look(local_peer, slot.sequence, line)) return true;
    }
    return false;
}

void Broadcasts::complete_without_payload(Slot& slot, LineKind why) {
    told_of_a_death_ = true;
    if (why == LineKind::root_failed) {
        // The verdict may be here before the notice is. A caller that is told of it finds the root among the failed.
        if (!members_.failed(slot.root)) lost_roots_.push_back(slot.root);
        complete(slot, COPPICE_ERR_ROOT_FAILED,
                 fmt::format("broadcast {}: its root, rank {}, died and no survivor has the payload",
                             slot.sequence.value, slot.root.value));
    } else {
        complete(slot, COPPICE_ERR_PEER_FAILED,
                 fmt::format("broadcast {}: an ancestor in the tree died and correction {} reaches nobody behind it; "
                             "choose another correction",
                             slot.sequence.value, protocol::to_string(plan_.broadcast.correction)));
    }
}

void Broadcasts::look_for_lines() {
    for (Sequence sequence = window_.consumed(); sequence < window_.next(); sequence.value += 1) {
        Slot& slot = slot_of(sequence);
        if (slot.request != nullptr && slot.sequence == sequence && !slot.machine) look_for_line(slot);
    }
}

// A rank that names another root than the others may wait for somebody who will never publish this broadcast, and who
// speaks for this host may be somebody else in the others' eyes. Any line of the host shows which rank is right.
void Broadcasts::look_for_other_roots() {
    for (Sequence sequence = window_.consumed(); sequence < window_.next(); sequence.value += 1) {
        Slot& slot = slot_of(sequence);
        if (slot.sequence != sequence) continue;
        for (const Rank local_peer : members_.ranks_of(members_.own_node())) {
            transport::PublishedLine line;
            if (slot.request == nullptr || !board_->look(local_peer, sequence, line) || line.root == slot.root.value)
                continue;
            complete_for_other_root(slot, line.root);
        }
    }
}

// The memory of ranks that take this one for dead may be another group's by now.
void Broadcasts::complete_for_other_root(Slot& slot, std::uint32_t root) {
    if (board_->fenced()) return life_.be_fenced();
    complete(slot, COPPICE_ERR_MISMATCH,
             fmt::format("broadcast {}: this rank names root {}, others name root {}", slot.sequence.value,
                         slot.root.value, root));
}

bool Broadcasts::peek(Request& request) {
    if (request.state == RequestState::waiting && publishing_) {
        Slot& slot = slot_of(request.sequence);
        if (slot.request == &request && !slot.machine) look_for_line(slot);
    }
    return request.state == RequestState::done;
}

}  // namespace coppice::engine
