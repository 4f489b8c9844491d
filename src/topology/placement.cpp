#include "topology/placement.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace coppice::topology {
namespace {

// Hosts of one leaf, and leaves of one pod, side by side; each run in the order of its lowest host.
struct Run {
    std::uint32_t first = 0;  // in the list that it is a part of
    std::uint32_t size = 0;
    std::uint32_t lowest_host = 0;
};

template <class Key>
std::vector<Run> runs_of(std::span<const std::uint32_t> hosts, Key&& key) {
    std::vector<Run> runs;
    for (std::uint32_t i = 0; i < hosts.size(); ++i) {
        if (i == 0 || key(hosts[i]) != key(hosts[i - 1])) runs.push_back({i, 0, hosts[i]});
        ++runs.back().size;
        runs.back().lowest_host = std::min(runs.back().lowest_host, hosts[i]);
    }
    return runs;
}

std::uint32_t minus(std::uint32_t a, std::uint32_t b, std::uint32_t modulus) {
    return a >= b ? a - b : a + (modulus - b);
}

std::string leaf_in_two_pods(std::span<const Site> hosts, std::uint32_t one, std::uint32_t other) {
    return "hosts " + std::to_string(std::min(one, other)) + " and " + std::to_string(std::max(one, other)) +
           " are on one leaf switch, number " + std::to_string(hosts[one].leaf) + ", but in two pods, " +
           std::to_string(hosts[std::min(one, other)].pod) + " and " + std::to_string(hosts[std::max(one, other)].pod);
}

// A tree for each size of run, ascending.
tl::expected<std::vector<Tree>, std::string> trees_for(const TreeSpec& spec, std::span<const Run> runs) {
    std::set<std::uint32_t> sizes;
    for (const Run& run : runs)
        sizes.insert(run.size);
    std::vector<Tree> trees;
    for (const std::uint32_t size : sizes) {
        auto tree = Tree::make(spec, size);
        if (!tree) return tl::unexpected(tree.error());
        trees.push_back(std::move(*tree));
    }
    return trees;
}

const Tree& of_size(const std::vector<Tree>& trees, std::uint32_t size) {
    return *std::ranges::lower_bound(trees, size, {}, &Tree::processes);
}

}  // namespace

tl::expected<Placement, std::string> Placement::make(std::span<const Site> hosts, const LevelTrees& trees) {
    if (hosts.empty() || hosts.size() > kMaxProcesses)
        return tl::unexpected(std::string("a placement needs 1 to 2^31 hosts"));
    const auto count = static_cast<std::uint32_t>(hosts.size());

    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, {}, [&](std::uint32_t h) { return std::pair(hosts[h].leaf, h); });
    for (std::uint32_t i = 1; i < count; ++i) {
        const Site& one = hosts[order[i - 1]];
        const Site& other = hosts[order[i]];
        if (one.leaf == other.leaf && one.pod != other.pod)
            return tl::unexpected(leaf_in_two_pods(hosts, order[i - 1], order[i]));
    }
    std::vector<Run> leaves = runs_of(order, [&](std::uint32_t h) { return hosts[h].leaf; });
    // Leaves of one pod side by side, the largest pod first, then the one with the lowest host.
    std::ranges::sort(leaves, {},
                      [&](const Run& leaf) { return std::pair(hosts[leaf.lowest_host].pod, leaf.lowest_host); });
    std::vector<std::uint32_t> heads(leaves.size());
    for (std::size_t i = 0; i < leaves.size(); ++i)
        heads[i] = leaves[i].lowest_host;
    std::vector<Run> pods = runs_of(heads, [&](std::uint32_t h) { return hosts[h].pod; });
    std::ranges::sort(pods, {}, [](const Run& pod) { return std::pair(UINT32_MAX - pod.size, pod.lowest_host); });

    Placement made;
    made.leaf_of_.resize(count);
    made.index_in_leaf_.resize(count);
    made.hosts_of_.reserve(count);
    made.pod_of_.resize(leaves.size());
    made.rows_ = pods.front().size;
    made.first_leaf_.push_back(0);
    std::vector<std::uint32_t> run_of(leaves.size());  // by place on the ring
    std::uint32_t listed = 0;
    for (std::uint32_t pod = 0; pod < pods.size(); ++pod) {
        for (std::uint32_t index = 0; index < pods[pod].size; ++index) {
            const std::uint32_t leaf = made.leaf_at(listed++);
            made.pod_of_[leaf] = pod;
            run_of[leaf] = pods[pod].first + index;
        }
        made.first_leaf_.push_back(listed);
    }
    for (std::uint32_t leaf = 0; leaf < leaves.size(); ++leaf) {
        const Run& run = leaves[run_of[leaf]];
        made.first_host_.push_back(static_cast<std::uint32_t>(made.hosts_of_.size()));
        for (std::uint32_t index = 0; index < run.size; ++index) {
            const std::uint32_t host = order[run.first + index];
            made.leaf_of_[host] = leaf;
            made.index_in_leaf_[host] = index;
            made.hosts_of_.push_back(host);
        }
    }
    made.first_host_.push_back(count);

    const std::array all_pods{Run{.size = static_cast<std::uint32_t>(pods.size())}};
    for (const auto& [made_trees, spec, runs] :
         {std::tuple(&made.pod_trees_, &trees.pods, std::span<const Run>(all_pods)),
          std::tuple(&made.leaf_trees_, &trees.leaves, std::span<const Run>(pods)),
          std::tuple(&made.host_trees_, &trees.hosts, std::span<const Run>(leaves))}) {
        auto some = trees_for(*spec, runs);
        if (!some) return tl::unexpected(some.error());
        *made_trees = std::move(*some);
    }
    return made;
}

// The first leaves() % rows_ rows have a leaf more than the others.
std::uint32_t Placement::leaf_at(std::uint32_t listed) const {
    const std::uint32_t row = listed % rows_;
    return row * (leaves() / rows_) + std::min(row, leaves() % rows_) + listed / rows_;
}

std::uint32_t Placement::listed_at(std::uint32_t leaf) const {
    const std::uint32_t length = leaves() / rows_;
    const std::uint32_t longer = leaves() % rows_;
    const std::uint32_t in_longer = longer * (length + 1);
    const std::uint32_t row = leaf < in_longer ? leaf / (length + 1) : longer + (leaf - in_longer) / length;
    return (leaf - row * length - std::min(row, longer)) * rows_ + row;
}

const Tree& Placement::leaf_tree(std::uint32_t pod) const {
    return of_size(leaf_trees_, leaves_of(pod));
}

const Tree& Placement::host_tree(std::uint32_t leaf) const {
    return of_size(host_trees_, static_cast<std::uint32_t>(hosts_of(leaf).size()));
}

// ------------------------------------------------------------------------------------------- the tree of leaves

std::uint32_t Placement::pod_position(std::uint32_t root_leaf, std::uint32_t pod) const {
    return minus(pod, pod_of_[root_leaf], pods());
}

std::uint32_t Placement::first_index(std::uint32_t root_leaf, std::uint32_t pod) const {
    return (listed_at(root_leaf) - first_leaf_[pod_of_[root_leaf]]) % leaves_of(pod);
}

std::uint32_t Placement::leaf_position(std::uint32_t root_leaf, std::uint32_t leaf) const {
    const std::uint32_t pod = pod_of_[leaf];
    return minus(listed_at(leaf) - first_leaf_[pod], first_index(root_leaf, pod), leaves_of(pod));
}

std::uint32_t Placement::leaf_at_position(std::uint32_t root_leaf, std::uint32_t pod, std::uint32_t position) const {
    const std::uint32_t size = leaves_of(pod);
    const std::uint32_t index = first_index(root_leaf, pod) + position;
    return leaf_at(first_leaf_[pod] + (index < size ? index : index - size));
}

std::optional<std::uint32_t> Placement::parent_leaf(std::uint32_t root, std::uint32_t leaf) const {
    const std::uint32_t root_leaf = leaf_of_[root];
    const std::uint32_t pod = pod_of_[leaf];
    if (const auto parent = leaf_tree(pod).parent(Position{leaf_position(root_leaf, leaf)}))
        return leaf_at_position(root_leaf, pod, parent->value);
    const auto parent = pod_tree().parent(Position{pod_position(root_leaf, pod)});
    if (!parent) return std::nullopt;
    return leaf_at_position(root_leaf, (pod_of_[root_leaf] + parent->value) % pods(), 0);
}

std::uint32_t Placement::child_leaf_count(std::uint32_t root, std::uint32_t leaf) const {
    const std::uint32_t root_leaf = leaf_of_[root];
    const std::uint32_t pod = pod_of_[leaf];
    const std::uint32_t position = leaf_position(root_leaf, leaf);
    const std::uint32_t within = leaf_tree(pod).child_count(Position{position});
    if (position != 0) return within;
    return within + pod_tree().child_count(Position{pod_position(root_leaf, pod)});
}

std::uint32_t Placement::child_leaf(std::uint32_t root, std::uint32_t leaf, std::uint32_t index) const {
    const std::uint32_t root_leaf = leaf_of_[root];
    const std::uint32_t pod = pod_of_[leaf];
    const std::uint32_t position = leaf_position(root_leaf, leaf);
    std::uint32_t beyond = 0;
    if (position == 0) {
        const Position at{pod_position(root_leaf, pod)};
        beyond = pod_tree().child_count(at);
        if (index < beyond) {
            const std::uint32_t child = pod_tree().child(at, index).value;
            return leaf_at_position(root_leaf, (pod_of_[root_leaf] + child) % pods(), 0);
        }
    }
    const Position child = leaf_tree(pod).child(Position{position}, index - beyond);
    return leaf_at_position(root_leaf, pod, child.value);
}

// -------------------------------------------------------------------------------------------- the tree of hosts

std::uint32_t Placement::leader(std::uint32_t root, std::uint32_t leaf) const {
    const auto hosts = hosts_of(leaf);
    return hosts[index_in_leaf_[root] % hosts.size()];
}

std::uint32_t Placement::behind_leader(std::uint32_t root, std::uint32_t host) const {
    const auto size = static_cast<std::uint32_t>(hosts_of(leaf_of_[host]).size());
    return minus(index_in_leaf_[host], index_in_leaf_[root] % size, size);
}

std::optional<std::uint32_t> Placement::parent(std::uint32_t root, std::uint32_t host) const {
    const std::uint32_t leaf = leaf_of_[host];
    const auto hosts = hosts_of(leaf);
    const auto size = static_cast<std::uint32_t>(hosts.size());
    if (const auto parent = host_tree(leaf).parent(Position{behind_leader(root, host)}))
        return hosts[(index_in_leaf_[root] + parent->value) % size];
    const auto parent = parent_leaf(root, leaf);
    if (!parent) return std::nullopt;
    return leader(root, *parent);
}

std::uint32_t Placement::child_count(std::uint32_t root, std::uint32_t host) const {
    const std::uint32_t leaf = leaf_of_[host];
    const std::uint32_t behind = behind_leader(root, host);
    return (behind == 0 ? child_leaf_count(root, leaf) : 0) + host_tree(leaf).child_count(Position{behind});
}

std::uint32_t Placement::child(std::uint32_t root, std::uint32_t host, std::uint32_t index) const {
    const std::uint32_t leaf = leaf_of_[host];
    const std::uint32_t behind = behind_leader(root, host);
    const std::uint32_t beyond = behind == 0 ? child_leaf_count(root, leaf) : 0;
    if (index < beyond) return leader(root, child_leaf(root, leaf, index));
    const auto hosts = hosts_of(leaf);
    const auto size = static_cast<std::uint32_t>(hosts.size());
    const Position child = host_tree(leaf).child(Position{behind}, index - beyond);
    return hosts[(index_in_leaf_[root] + child.value) % size];
}

// ----------------------------------------------------------------------------------------------------- what it is

Placement::Spread Placement::spread(std::uint32_t reach) const {
    Spread found{.nearest = leaves(), .close_pairs = 0};
    std::vector<std::uint32_t> places;
    for (std::uint32_t pod = 0; pod < pods(); ++pod) {
        places.clear();
        for (std::uint32_t listed = first_leaf_[pod]; listed < first_leaf_[pod + 1]; ++listed)
            places.push_back(leaf_at(listed));
        std::ranges::sort(places);
        const auto size = static_cast<std::uint32_t>(places.size());
        for (std::uint32_t i = 0; i < size && size > 1; ++i) {
            // To the right of each, so that a pair counts once; two that face each other on the ring count from one side.
            for (std::uint32_t next = 1; next < size; ++next) {
                const std::uint32_t other = places[(i + next) % size];
                const std::uint32_t apart = minus(other, places[i], leaves());
                if (next == 1) found.nearest = std::min(found.nearest, apart);
                if (apart > reach || (2 * apart > leaves()) || (2 * apart == leaves() && other < places[i])) break;
                ++found.close_pairs;
            }
        }
    }
    return found;
}

std::size_t Placement::memory() const {
    std::size_t words = 0;
    for (const auto* list : {&leaf_of_, &index_in_leaf_, &hosts_of_, &first_host_, &pod_of_, &first_leaf_})
        words += list->capacity();
    return sizeof *this + words * sizeof(std::uint32_t) +
           (pod_trees_.capacity() + leaf_trees_.capacity() + host_trees_.capacity()) * sizeof(Tree);
}

}  // namespace coppice::topology
