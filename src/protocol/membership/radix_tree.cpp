#include "protocol/membership/radix_tree.hpp"

namespace coppice::protocol {

std::uint32_t RadixTree::ancestor(std::uint32_t position, std::uint32_t level) const {
    const std::uint32_t own = this->level(position);
    const std::uint64_t offset = position - first_of_level(own);
    return static_cast<std::uint32_t>(first_of_level(level) + (offset >> (bits_ * (own - level))));
}

std::uint32_t RadixTree::next_hop(std::uint32_t from, std::uint32_t to) const {
    const std::uint32_t own = level(from);
    if (level(to) <= own || ancestor(to, own) != from) return parent(from);
    return ancestor(to, own + 1);
}

std::uint32_t RadixTree::parent_among_hosts(std::uint32_t position) const {
    const std::uint32_t host = hosts_->node_of(Rank(position));
    const auto local_peers = hosts_->members(host);
    const std::uint32_t index = index_in(local_peers, position);
    if (index > 0) return local_peers[(index - 1) >> bits_].value;
    return host == 0 ? kNobody : hosts_->members((host - 1) >> bits_).front().value;
}

std::uint32_t RadixTree::parent(std::uint32_t position, const FailedSet& dead) const {
    for (std::uint32_t above = parent(position); above != kNobody; above = parent(above)) {
        if (!dead.contains(above)) return above;
    }
    const std::uint32_t lowest = root(dead);
    return lowest == position ? kNobody : lowest;
}

}  // namespace coppice::protocol
