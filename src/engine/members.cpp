#include "engine/members.hpp"

#include <algorithm>

namespace coppice::engine {

Members::Members(Rank self, topology::Sites sites)
    : self_(self), sites_(std::move(sites)), own_site_(sites_.site_of(self)), failed_(sites_.ranks(), false) {
    leaders_.reserve(sites_.count());
    for (std::uint32_t site = 0; site < sites_.count(); ++site)
        leaders_.push_back(sites_.members(site).front());
}

bool Members::fail(Rank rank) {
    if (failed_[rank.value]) return false;
    failed_[rank.value] = true;
    failed_ranks_.insert(std::ranges::lower_bound(failed_ranks_, rank), rank);

    const std::uint32_t site = sites_.site_of(rank);
    const auto mates = sites_.members(site);
    if (leaders_[site] != rank) return true;
    const auto alive = std::ranges::find_if(std::ranges::upper_bound(mates, rank), mates.end(),
                                            [this](Rank mate) { return !failed_[mate.value]; });
    leaders_[site] = alive == mates.end() ? std::nullopt : std::optional(*alive);
    if (!leaders_[site]) failed_sites_.insert(site);
    return true;
}

}  // namespace coppice::engine
