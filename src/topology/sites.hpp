// Which ranks form one position of tree and ring together: a site is all ranks of one host, or a single rank.
//
// The engine's table, made once per group: O(P) memory, constant-time look-ups, no allocation after
// construction. A site's index is its member number on the ring, before rotation to a root.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topology/words.hpp"

namespace coppice::topology {

class Sites {
  public:
    // Ranks with equal keys share a site. keys[r] is rank r's host: a name, or any number that tells hosts
    // apart.
    static Sites by_host(std::span<const std::string> keys);
    static Sites by_host(std::span<const std::uint64_t> keys);
    // Each rank its own site, with its rank as the index.
    static Sites flat(std::uint32_t ranks);

    std::uint32_t ranks() const { return static_cast<std::uint32_t>(site_of_.size()); }
    // Sites are numbered in the order of their lowest ranks.
    std::uint32_t count() const { return static_cast<std::uint32_t>(first_.size()) - 1; }

    std::uint32_t site_of(Rank rank) const { return site_of_[rank.value]; }
    // Ascending; never empty.
    std::span<const Rank> members(std::uint32_t site) const {
        return std::span(members_).subspan(first_[site], first_[site + 1] - first_[site]);
    }

    // Who acts for `site` in a broadcast from `root`, as far as alive(Rank) knows: the root on its own site
    // while it lives, else the lowest live rank. None when all of the site are dead.
    template <class Alive>
    std::optional<Rank> acting(std::uint32_t site, Rank root, Alive&& alive) const {
        if (site_of(root) == site && alive(root)) return root;
        for (const Rank rank : members(site)) {
            if (alive(rank)) return rank;
        }
        return std::nullopt;
    }

  private:
    explicit Sites(std::vector<std::uint32_t> site_of);

    std::vector<std::uint32_t> site_of_;
    std::vector<Rank> members_;         // all ranks, site after site
    std::vector<std::uint32_t> first_;  // where each site's members begin; one more at the end
};

}  // namespace coppice::topology
