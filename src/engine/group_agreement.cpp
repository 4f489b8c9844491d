// Agreements between their callers, the other ranks, and what the group knows of deaths.
#include <algorithm>

#include "engine/group.hpp"

namespace coppice::engine {

bool Group::has_room_for_agreement() {
    return fenced_ || revoked_ || agreements_.has_room();
}

Result<void> Group::start_agreement(const AgreementCall& call, Request& request) {
    if (auto takes_part = look_before_start(); !takes_part) return takes_part;
    request.group = this;
    return agreements_.start(call, request);
}

Result<Request*> Group::start_pooled_agreement(const AgreementCall& call) {
    if (free_requests_.empty()) {
        return fail(COPPICE_ERR_BUSY, "all {} requests are in use: free those that have ended", settings_.requests());
    }
    Request* request = free_requests_.back();
    if (auto started = start_agreement(call, *request); !started) return tl::unexpected(std::move(started.error()));
    free_requests_.pop_back();
    ++requests_in_use_;
    return request;
}

void Group::note_agreed(const Request& request) {
    if (request.agreed && request.agreed != last_agreed_) last_agreed_ = request.agreed;
}

void Group::acknowledge_failures() {
    protocol::FailedSet all;
    for (const Rank rank : members_.failed_ranks())
        all.insert(rank.value);
    agreements_.acknowledge(all);
}

Result<void> Group::acknowledge_failures(std::span<const std::uint32_t> ranks) {
    protocol::FailedSet some;
    for (const std::uint32_t rank : ranks) {
        if (rank >= members_.ranks()) {
            return fail(COPPICE_ERR_OUT_OF_RANGE, "rank {} is outside of 0…{}", rank, members_.ranks() - 1);
        }
        if (!members_.failed(Rank(rank))) {
            return fail(COPPICE_ERR_INVALID_ARGUMENT, "rank {} has not failed, as far as this rank knows", rank);
        }
        some.insert(rank);
    }
    agreements_.acknowledge(some);
    return {};
}

void Group::agreement_message(Rank from, const WireHeader& header, std::span<const std::byte> body) {
    if (!agreements_.message(from, header, body)) ++garbage_;
    if (agreements_.fenced()) be_fenced();
    learn_from(agreements_.failed());
}

// Messages tell of failures. That a rank has left in peace looks the same there, and only at a group's end.
void Group::learn_from(const protocol::FailedSet& failed) {
    if (failed.count() <= members_.failed_ranks().size()) return;
    std::vector<Rank> news;  // learning changes the set
    for (const protocol::FailedSet::Interval& interval : failed.intervals()) {
        for (std::uint32_t rank = interval.first; rank <= interval.last; ++rank) {
            if (!members_.failed(Rank(rank)) && std::ranges::find(departed_peers_, Rank(rank)) == departed_peers_.end())
                news.emplace_back(rank);
        }
    }
    if (failed.contains(members_.self().value)) be_fenced();
    learn_failures(news);
}

void Group::progress_agreements(bool thoroughly) {
    agreements_.progress(thoroughly);
    if (agreements_.fenced()) be_fenced();
}

}  // namespace coppice::engine
