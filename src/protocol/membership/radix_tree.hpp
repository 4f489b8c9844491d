// The radix tree of Varma et al. (ICS'06, §3.1 to §3.4): every member works out alone, in constant time and without a
// message, where each member stands.
//
// Positions are numbered level by level. With a = 2^k children each, a position's offset in its level, read in digits of
// k bits, is the way down from the root: one digit for each level. Parent, children, the ancestor at a level and the next
// step towards a position are shifts.
//
// When a member dies its children go to its parent (§3.4, four rules). Where all of a member's ancestors are dead, the
// lowest live position is root and takes their place (§3.6). Nothing is stored for that: the mended tree is a function of
// the set of the dead. A tree is mended for the life of one view only; the next view has a fresh one over its own
// members, so that degrees do not grow for ever, as they do in the paper.
//
// The paper numbers its tree by IDs "bounded by a function of the height"; which one is lost with its Figure 1. Level
// order is what its heights need ("above 5 and 21 nodes" for a = 4). It says "powers of four", too, which no numbering of
// a tree with the root as a node gives.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "protocol/failed_set.hpp"
#include "topology/nodes.hpp"

namespace coppice::protocol {

class RadixTree {
  public:
    static constexpr std::uint32_t kNobody = UINT32_MAX;

    // `bits` is log2 of the radix, 1 … 16; `size` is how many members there are, at most kMaxProcesses.
    // With `hosts`, of all positions, it has two levels: the lowest of each host in a tree of the hosts, the others in one of their
    // own below it. So a wave reaches each host by one message. Levels, digits and ways are those of the plain tree.
    RadixTree(std::uint32_t bits, std::uint32_t size, const topology::Nodes* hosts = nullptr)
        : bits_(bits), size_(size), hosts_(hosts) {}

    std::uint32_t radix() const { return 1U << bits_; }
    std::uint32_t size() const { return size_; }
    // How many levels there are: the paper's H.
    std::uint32_t height() const { return size_ == 0 ? 0 : level(size_ - 1) + 1; }

    std::uint32_t level(std::uint32_t position) const {
        const std::uint64_t nodes = (std::uint64_t{position} << bits_) - position + 1;
        return static_cast<std::uint32_t>(std::bit_width(nodes) - 1) / bits_;
    }
    std::uint32_t parent(std::uint32_t position) const {
        if (hosts_ != nullptr) return parent_among_hosts(position);
        return position == 0 ? kNobody : (position - 1) >> bits_;
    }
    std::uint32_t child_count(std::uint32_t position) const {
        const std::uint64_t first = first_child(position);
        if (first >= size_) return 0;
        return static_cast<std::uint32_t>(std::uint64_t{size_} - first < radix() ? size_ - first : radix());
    }
    std::uint32_t child(std::uint32_t position, std::uint32_t index) const {
        return static_cast<std::uint32_t>(first_child(position) + index);
    }
    // Which child of its ancestor in the level above `level` leads to this position: the digit of that level, from 1 on.
    std::uint32_t digit(std::uint32_t position, std::uint32_t level) const {
        return (ancestor(position, level) - 1) & (radix() - 1);
    }
    // Of a level that is not below its own.
    std::uint32_t ancestor(std::uint32_t position, std::uint32_t level) const;
    // The child of `from` below which `to` is, or which it is; the parent of `from` where it is elsewhere.
    std::uint32_t next_hop(std::uint32_t from, std::uint32_t to) const;

    // ------------------------------------------------------------------------------------ mended around the dead

    // kNobody when all are dead.
    std::uint32_t root(const FailedSet& dead) const {
        const std::uint32_t lowest = dead.lowest_absent();
        return lowest < size_ ? lowest : kNobody;
    }
    // Of a live position; kNobody for the root. As many steps as dead ancestors are passed over.
    std::uint32_t parent(std::uint32_t position, const FailedSet& dead) const;
    // Calls use(child) for all children of a live position, in ascending order below each dead one. As many steps as it
    // has children and as dead are passed over.
    template <class Use>
    void for_children(std::uint32_t position, const FailedSet& dead, Use&& use) const {
        if (position != 0 && position == root(dead)) use_living(0, position, dead, use);
        use_children(position, position, dead, use);
    }

  private:
    std::uint64_t first_child(std::uint32_t position) const { return (std::uint64_t{position} << bits_) + 1; }
    std::uint64_t first_of_level(std::uint32_t level) const {
        return ((std::uint64_t{1} << (bits_ * level)) - 1) / (radix() - 1U);
    }
    template <class Use>
    void use_children(std::uint32_t position, std::uint32_t self, const FailedSet& dead, Use& use) const {
        if (hosts_ != nullptr) return use_children_among_hosts(position, self, dead, use);
        const std::uint32_t children = child_count(position);
        for (std::uint32_t index = 0; index < children; ++index)
            use_living(child(position, index), self, dead, use);
    }
    template <class Use>
    void use_children_among_hosts(std::uint32_t position, std::uint32_t self, const FailedSet& dead, Use& use) const {
        const std::uint32_t host = hosts_->node_of(Rank(position));
        const auto local_peers = hosts_->members(host);
        const std::uint32_t index = index_in(local_peers, position);
        const std::uint64_t first = first_child(index);
        for (std::uint64_t peer = first; peer < first + radix() && peer < local_peers.size(); ++peer)
            use_living(local_peers[peer].value, self, dead, use);
        if (index > 0) return;
        const std::uint64_t first_host = first_child(host);
        for (std::uint64_t next = first_host; next < first_host + radix() && next < hosts_->count(); ++next)
            use_living(hosts_->members(static_cast<std::uint32_t>(next)).front().value, self, dead, use);
    }
    template <class Use>
    void use_living(std::uint32_t position, std::uint32_t self, const FailedSet& dead, Use& use) const {
        if (dead.contains(position)) return use_children(position, self, dead, use);
        if (position != self) use(position);
    }

    static std::uint32_t index_in(std::span<const Rank> local_peers, std::uint32_t position) {
        const auto place = std::ranges::lower_bound(local_peers, Rank(position));
        return static_cast<std::uint32_t>(place - local_peers.begin());
    }
    std::uint32_t parent_among_hosts(std::uint32_t position) const;

    std::uint32_t bits_;
    std::uint32_t size_;
    const topology::Nodes* hosts_;
};

}  // namespace coppice::protocol
