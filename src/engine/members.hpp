// Who is in the group, where they run, and who of them is known to be dead.
//
// Tree and ring run between sites: a site is a host, or a single rank where every rank is a position of its own.
// The acting rank of a site speaks for it; when it dies the next one stands in.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protocol/failed_set.hpp"
#include "topology/sites.hpp"
#include "topology/words.hpp"

namespace coppice::engine {

class Members {
  public:
    Members(Rank self, topology::Sites sites);

    Rank self() const { return self_; }
    std::uint32_t ranks() const { return static_cast<std::uint32_t>(failed_.size()); }
    std::uint32_t sites() const { return sites_.count(); }
    std::uint32_t own_site() const { return own_site_; }
    std::uint32_t site_of(Rank rank) const { return sites_.site_of(rank); }
    const topology::Sites& sites_table() const { return sites_; }
    std::span<const Rank> ranks_of(std::uint32_t site) const { return sites_.members(site); }

    bool failed(Rank rank) const { return failed_[rank.value]; }
    std::span<const Rank> failed_ranks() const { return failed_ranks_; }  // ascending
    const protocol::FailedSet& failed_sites() const { return failed_sites_; }

    // Marks a rank as failed. False when it was already.
    bool fail(Rank rank);

    // The lowest live rank of a site; none when all are dead.
    std::optional<Rank> leader(std::uint32_t site) const { return leaders_[site]; }
    // Who speaks for a site in a broadcast from `root`: the root itself where it lives, else the leader.
    std::optional<Rank> acting(std::uint32_t site, Rank root) const {
        if (sites_.site_of(root) == site && !failed(root)) return root;
        return leaders_[site];
    }
    bool is_leader() const { return leaders_[own_site_] == self_; }
    bool is_acting(Rank root) const { return acting(own_site_, root) == self_; }

    // A site's position in the tree and on the ring of a broadcast from `root`, and back.
    Position position_of(std::uint32_t site, Rank root) const {
        const std::uint32_t root_site = sites_.site_of(root);
        return Position(site >= root_site ? site - root_site : site + (sites() - root_site));
    }
    std::uint32_t site_at(Position position, Rank root) const {
        const std::uint64_t site = std::uint64_t{position.value} + sites_.site_of(root);
        return static_cast<std::uint32_t>(site >= sites() ? site - sites() : site);
    }

  private:
    Rank self_;
    topology::Sites sites_;
    std::uint32_t own_site_;
    std::vector<bool> failed_;
    std::vector<Rank> failed_ranks_;
    std::vector<std::optional<Rank>> leaders_;
    protocol::FailedSet failed_sites_;
};

}  // namespace coppice::engine
