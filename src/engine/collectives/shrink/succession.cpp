#include "engine/collectives/shrink/succession.hpp"

#include <algorithm>
#include <bit>

#include "base/mix.hpp"

namespace coppice::engine {
namespace {

std::uint64_t hash_of(const protocol::FailedSet& ranks) {
    std::uint64_t hash = 0;
    for (const protocol::FailedSet::Interval& interval : ranks.intervals())
        hash = mix(hash + kWeyl + (std::uint64_t{interval.first} << 32 | interval.last));
    return hash;
}

constexpr std::uint64_t kAllPanels = (std::uint64_t{1} << transport::HostMemory::kPanels) - 1;

}  // namespace

std::vector<Rank> heirs(std::uint32_t ranks, const protocol::FailedSet& excluded) {
    std::vector<Rank> survivors;
    survivors.reserve(ranks - std::min(ranks, excluded.count()));
    std::uint32_t next = 0;
    for (const protocol::FailedSet::Interval& interval : excluded.intervals()) {
        for (; next < interval.first && next < ranks; ++next)
            survivors.emplace_back(next);
        next = interval.last + 1;
    }
    for (; next < ranks; ++next)
        survivors.emplace_back(next);
    return survivors;
}

GroupId id_after(const GroupId& group, const Heritage& heritage) {
    const std::uint64_t word = mix(mix(mix(group.token) + heritage.number) + hash_of(*heritage.excluded));
    const auto folded = static_cast<std::uint32_t>(word ^ word >> 32);
    return {folded == group.token ? folded + 1 : folded, Epoch(group.epoch.value + 1)};
}

Succession::Succession(const Members& members, const Router& router, const GroupId& group)
    : router_(router), agreements_(members, router, nullptr, group, {.channel = Channel::succession, .window = 1}) {
    protocol::FailedSet failed;
    for (const Rank rank : members.failed_ranks())
        failed.insert(rank.value);
    agreements_.peers_failed(failed);
}

void Succession::begin() {
    under_way_ = true;
    contribute();
}

void Succession::contribute() {
    transport::HostMemory* const host_memory = router_.transport_set()->host_memory();
    if (host_memory != nullptr) {
        if (all_panels_) {
            host_memory->make_all_panels_ready();
        } else {
            host_memory->make_panel_ready();
        }
    }
    const std::uint64_t hash = hash_of(agreements_.failed());
    value_ = {hash, ~hash, host_memory != nullptr ? host_memory->clean_panels() : kAllPanels,
              host_memory != nullptr ? host_memory->closed_panels() : kAllPanels};
    round_ = Request{};
    const AgreementCall call{.operation = {.op = protocol::Operator::bit_and},
                             .value = reinterpret_cast<std::byte*>(value_.data()),
                             .bytes = sizeof value_};
    // There is room, because one is under way at a time.
    if (auto started = agreements_.start(call, round_); !started) {
        round_.state = RequestState::done;
        round_.status = started.error().status;
    }
}

std::optional<Heritage> Succession::progress(bool thoroughly) {
    agreements_.progress(thoroughly);
    while (under_way_ && agreements_.peek(round_)) {
        if (round_.status != COPPICE_OK && round_.status != COPPICE_ERR_PEER_FAILED) return std::nullopt;
        const std::uint64_t clean = value_[2] & kAllPanels;
        const bool all_knew = (value_[0] ^ value_[1]) == ~std::uint64_t{0} && value_[0] == hash_of(*round_.agreed);
        const bool may_find_one = clean == 0 && !all_panels_;
        if (!all_knew || may_find_one) {
            all_panels_ = clean == 0;
            contribute();
            continue;
        }
        if (transport::HostMemory* const host_memory = router_.transport_set()->host_memory()) {
            host_memory->clear_panels(static_cast<std::uint32_t>(value_[3] & kAllPanels));
        }
        under_way_ = false;
        all_panels_ = false;
        Heritage heritage{.number = number_++, .excluded = round_.agreed, .panel = std::nullopt};
        if (clean != 0) heritage.panel = static_cast<std::uint32_t>(std::countr_zero(clean));
        return heritage;
    }
    return std::nullopt;
}

bool Succession::message(Rank from, const WireHeader& header, std::span<const std::byte> body) {
    return agreements_.message(from, header, body);
}

void Succession::give_up(coppice_status_t status, const std::string& why) {
    agreements_.give_up(status, why);
    under_way_ = false;
}

std::string Succession::waiting_for() const {
    return "shrinking: " + agreements_.waiting_for(round_);
}

}  // namespace coppice::engine
