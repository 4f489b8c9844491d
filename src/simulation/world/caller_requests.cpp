// What a caller has under way, or holds: its requests.
#include <algorithm>
#include <cstring>

#include "base/mix.hpp"
#include "simulation/world/caller.hpp"
#include "simulation/world/world.hpp"

namespace coppice::world {
namespace {

using promises::Action;

}  // namespace

void Caller::take_end(Open& open, coppice_status_t status, std::size_t received) {
    open.ended = true;
    promises::Call& call = at(open.call);
    if (call.action == Action::agree) {
        std::memcpy(&call.result, open.buffer.data(), sizeof call.result);
        if (status == COPPICE_OK || status == COPPICE_ERR_PEER_FAILED) take_agreement(open.call, current_);
    } else if (status == COPPICE_OK) {
        const void* payload = open.buffer.data();
        if (open.view) {
            std::size_t bytes = 0;
            status = rank_.call([&] { return coppice_request_view(open.request, &payload, &bytes); });
            if (status != COPPICE_OK) return end(open.call, status);
            open.seen = payload;
            open.length = received = bytes;
        }
        at(open.call).payload = hash_bytes(payload, received, 0);
        at(open.call).bytes = received;
        if (open.view) status = see_view(open);
    }
    end(open.call, status);
}

// After the caller has read a view: what it has read is proven unless the others take this rank for dead.
coppice_status_t Caller::see_view(const Open& open) {
    const void* payload = nullptr;
    std::size_t bytes = 0;
    return rank_.call([&] { return coppice_request_view(open.request, &payload, &bytes); });
}

void Caller::wait_for(Open& open, std::uint64_t timeout_ns) {
    if (open.ended) return;
    std::size_t received = 0;
    const coppice_status_t status =
        rank_.call([&] { return coppice_request_wait(open.request, &received, timeout_ns); });
    if (status != COPPICE_ERR_TIMEOUT) take_end(open, status, received);
}

// A view is what it was until it is freed.
void Caller::release(Open& open) {
    if (open.seen != nullptr && hash_bytes(open.seen, open.length, 0) != at(open.call).payload &&
        see_view(open) != COPPICE_ERR_FENCED) {
        const std::size_t call = begin(Action::view, nullptr, &current_);
        at(call).step = at(open.call).step;
        at(call).payload = at(open.call).payload;
        end(call, COPPICE_ERR_INTERNAL);
    }
    rank_.call([&] { return coppice_request_free(open.request); });
}

// The oldest of what is under way, or held: its end, then its place. False: there is none.
bool Caller::settle_one() {
    if (open_.empty()) return false;
    wait_for(open_.front(), COPPICE_NO_TIMEOUT);
    release(open_.front());
    open_.pop_front();
    return true;
}

void Caller::settle() {
    while (settle_one())
        continue;
}

// A view that is held while W others begin would hold them up for good.
void Caller::keep_window() {
    while (std::ranges::any_of(open_, [this](const Open& open) {
        return at(open.call).action == Action::broadcast && open.broadcast + program_.window <= current_.broadcasts;
    }))
        settle_one();
}

void Caller::make_room() {
    if (!settle_one()) {
        rank_.stay_away(kBetweenTriesNs);
        rank_.call([&] { return coppice_progress(context_); });
    }
}

}  // namespace coppice::world
