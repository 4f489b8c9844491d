#include "topology/nodes.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace coppice::topology {
namespace {

// Numbers equal keys alike, in the order of their first appearance, which is that of their lowest ranks.
template <class Key, class Range>
std::vector<std::uint32_t> number_keys(const Range& keys) {
    std::unordered_map<Key, std::uint32_t> numbers;
    std::vector<std::uint32_t> node_of;
    node_of.reserve(keys.size());
    for (const auto& key : keys) {
        const auto next = static_cast<std::uint32_t>(numbers.size());
        node_of.push_back(numbers.try_emplace(Key(key), next).first->second);
    }
    return node_of;
}

}  // namespace

Nodes Nodes::by_host(std::span<const std::string> keys) {
    return Nodes(number_keys<std::string_view>(keys));
}

Nodes Nodes::by_host(std::span<const std::uint64_t> keys) {
    return Nodes(number_keys<std::uint64_t>(keys));
}

Nodes Nodes::flat(std::uint32_t ranks) {
    std::vector<std::uint32_t> node_of(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
        node_of[rank] = rank;
    return Nodes(std::move(node_of));
}

Nodes::Nodes(std::vector<std::uint32_t> node_of) : node_of_(std::move(node_of)), members_(node_of_.size()) {
    const std::size_t nodes = node_of_.empty() ? 0 : std::size_t{std::ranges::max(node_of_)} + 1;
    first_.resize(nodes + 1);
    for (const std::uint32_t node : node_of_)
        ++first_[node + 1];
    for (std::size_t node = 1; node < first_.size(); ++node)
        first_[node] += first_[node - 1];
    std::vector<std::uint32_t> next = first_;
    for (std::uint32_t rank = 0; rank < node_of_.size(); ++rank)
        members_[next[node_of_[rank]]++] = Rank{rank};
}

}  // namespace coppice::topology
