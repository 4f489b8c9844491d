// What a caller agrees upon, and what it learns of deaths.
#include <algorithm>

#include "base/mix.hpp"
#include "simulation/world/caller.hpp"
#include "simulation/world/world.hpp"

namespace coppice::world {
namespace {

using promises::Action;

constexpr std::uint64_t kBetweenLooksNs = 2'000'000;

void combine_or(void* /*argument*/, void* into, const void* from, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; ++at)
        static_cast<unsigned char*>(into)[at] |= static_cast<const unsigned char*>(from)[at];
}

coppice_agree_options_t options_of(const Step& step) {
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = step.operation;
    options.type = COPPICE_UINT64;
    options.combine = step.operation == COPPICE_COMBINE ? combine_or : nullptr;
    return options;
}

}  // namespace

std::uint64_t Caller::contribution_to(const Step& step) const {
    if (step.is_barrier) return 0;
    const std::uint64_t bit = std::uint64_t{1} << rank_.number();
    return step.operation == COPPICE_AND ? ~bit : bit;
}

void Caller::agree(const Step& step) {
    const std::size_t call = begin(Action::agree, &step, &current_);
    const std::uint64_t value = contribution_to(step);
    at(call).value = value;
    at(call).operation = step.operation;
    {
        const Within outside(nullptr);
        at(call).acknowledged.assign(current_.acknowledged.begin(), current_.acknowledged.end());
    }
    const coppice_agree_options_t options = options_of(step);
    std::uint64_t result = value;
    coppice_status_t status = COPPICE_ERR_BUSY;
    // With a short deadline that takes many tries. A rank that never has room is seen by the promise that calls end.
    for (bool again = false; status == COPPICE_ERR_BUSY; again = true) {
        if (again) make_room();
        result = value;
        note_start(at(call));
        status = rank_.call([&] {
            return step.is_barrier ? coppice_barrier(current_.group, step.timeout_ns)
                                   : coppice_agree(current_.group, &result, sizeof result, &options, step.timeout_ns);
        });
    }
    at(call).result = result;
    if (status == COPPICE_OK || status == COPPICE_ERR_PEER_FAILED) {
        take_agreement(call, current_);
        int pending = 0;
        rank_.call([&] { return coppice_group_pending(current_.group, &pending); });
        at(call).pending = pending;
    }
    end(call, status);
    renew_if_pending(step, call);
}

// All that are told of the agreement's end do the same.
void Caller::renew_if_pending(const Step& step, std::size_t call) {
    if (!step.renews || at(call).pending != 1) return;
    Step renewal;
    renewal.kind = Step::Kind::shrink;
    renewal.number = step.number;
    renewal.admits = true;
    shrink(renewal);
}

void Caller::agree_nb(const Step& step) {
    Open open;
    open.call = begin(Action::agree, &step, &current_);
    at(open.call).timeout_ns = COPPICE_NO_TIMEOUT;
    const std::uint64_t value = contribution_to(step);
    at(open.call).value = value;
    at(open.call).operation = step.operation;
    {
        const Within outside(nullptr);
        at(open.call).acknowledged.assign(current_.acknowledged.begin(), current_.acknowledged.end());
    }
    open.buffer.resize(sizeof value);
    std::memcpy(open.buffer.data(), &value, sizeof value);
    const coppice_agree_options_t options = options_of(step);
    coppice_status_t status = COPPICE_ERR_BUSY;
    while (status == COPPICE_ERR_BUSY) {
        status = rank_.call([&] {
            return step.is_barrier
                       ? coppice_barrier_nb(current_.group, &open.request)
                       : coppice_agree_nb(current_.group, open.buffer.data(), sizeof value, &options, &open.request);
        });
        if (status == COPPICE_ERR_BUSY) make_room();
    }
    if (status != COPPICE_OK) return end(open.call, status);
    open_.push_back(std::move(open));
}

// The agreed set of failed ranks, as ranks of the job.
void Caller::take_agreement(std::size_t call, Joined& joined) {
    std::uint32_t ranks[kMostRanks];
    std::size_t count = 0;
    rank_.call([&] { return coppice_group_agreed(joined.group, ranks, kMostRanks, &count); });
    const Within outside(nullptr);
    at(call).failed.clear();
    for (std::size_t i = 0; i < count; ++i)
        at(call).failed.push_back(joined.members.at(ranks[i]));
}

// As a job does that waits until it knows of what happened: it asks, and does something else between. A rank that has been told
// goes on, and may have left when others are told.
void Caller::learn(const Step& step) {
    const std::size_t call = begin(Action::learn, &step, &current_);
    at(call).timeout_ns = COPPICE_NO_TIMEOUT;
    {
        const Within outside(nullptr);
        for (const std::uint32_t member : current_.members)
            if (rank_.world().clockwork().dead(member) && !has_begun_to_leave(member))
                at(call).members.push_back(member);
    }
    const auto knows_all = [&] {
        return std::ranges::all_of(at(call).members, [&](std::uint32_t dead) {
            return promises::contains(at(call).failed, dead) && promises::contains(current_.told, dead);
        });
    };
    for (std::uint64_t pause = kBetweenTriesNs;; pause = std::min(2 * pause, kBetweenLooksNs)) {
        const std::vector<std::uint32_t> seen = failed();
        {
            const Within outside(nullptr);
            at(call).failed.assign(seen.begin(), seen.end());
        }
        if (knows_all()) break;
        rank_.stay_away(pause);
    }
    end(call, COPPICE_OK);
}

// A rank that dies after it has left in peace has not failed in the group.
bool Caller::has_begun_to_leave(std::uint32_t member) const {
    return std::ranges::any_of(history_.calls, [&](const promises::Call& call) {
        return call.action == Action::destroy && call.rank == member && call.group == current_.id;
    });
}

// As far as this rank knows, as ranks of the job.
std::vector<std::uint32_t> Caller::failed() {
    std::uint32_t ranks[kMostRanks];
    std::size_t count = 0;
    rank_.call([&] { return coppice_group_failed(current_.group, ranks, kMostRanks, &count); });
    std::vector<std::uint32_t> failed;
    for (std::size_t i = 0; i < count; ++i)
        failed.push_back(current_.members.at(ranks[i]));
    return failed;
}

void Caller::acknowledge() {
    std::uint32_t ranks[kMostRanks];
    std::size_t count = 0;
    rank_.call([&] { return coppice_group_failed(current_.group, ranks, kMostRanks, &count); });
    rank_.call([&] { return coppice_group_ack_failed(current_.group, ranks, count); });
    current_.acknowledged.clear();
    for (std::size_t i = 0; i < count; ++i)
        current_.acknowledged.push_back(current_.members.at(ranks[i]));
}

}  // namespace coppice::world
