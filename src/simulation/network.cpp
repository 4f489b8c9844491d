#include "simulation/network.hpp"

#include <algorithm>
#include <map>

namespace coppice::simulation {

std::optional<std::string> reason_against(const NetworkTimes& times) {
    constexpr Step kLongest = 1U << 24;
    const auto is_too_long = [](Step step) { return step > kLongest; };
    if (std::ranges::any_of(times.latency, is_too_long) || std::ranges::any_of(times.gap, is_too_long))
        return "latencies and gaps of a network are " + std::to_string(kLongest) + " steps at most: use coarser steps";
    if (!std::ranges::is_sorted(times.latency)) return "the latencies of a network do not descend from leaf to top";
    return std::nullopt;
}

Network::Network(std::span<const topology::Site> hosts, std::span<const std::uint32_t> host_at,
                 const NetworkTimes& times, std::uint32_t taper)
    : times_(times), ends_(host_at.size()), host_at_(host_at.begin(), host_at.end()) {
    std::map<std::uint32_t, std::uint32_t> leaf_numbers;
    std::map<std::uint32_t, std::uint32_t> pod_numbers;
    std::vector<End> by_host(hosts.size());
    for (std::size_t host = 0; host < hosts.size(); ++host) {
        const auto [leaf, is_new_leaf] =
            leaf_numbers.try_emplace(hosts[host].leaf, static_cast<std::uint32_t>(leaves_.size()));
        if (is_new_leaf) {
            const auto [pod, is_new_pod] =
                pod_numbers.try_emplace(hosts[host].pod, static_cast<std::uint32_t>(pods_.size()));
            if (is_new_pod) pods_.emplace_back();
            leaves_.push_back({.pod = pod->second, .index = pods_[pod->second].leaves++});
        }
        by_host[host] = {leaf->second, leaves_[leaf->second].hosts++};
    }
    for (Leaf& leaf : leaves_) {
        leaf.links = std::max(1U, leaf.hosts / taper);
        leaf.first_link = links_;
        links_ += leaf.links;
        pods_[leaf.pod].links += leaf.links;
    }
    for (Pod& pod : pods_) {
        pod.first_link = links_;
        links_ += pod.links;
    }
    for (std::size_t position = 0; position < host_at.size(); ++position)
        ends_[position] = by_host[host_at[position]];
}

std::uint32_t Network::level(Position from, Position to) const {
    const std::uint32_t one = ends_[from.value].leaf;
    const std::uint32_t other = ends_[to.value].leaf;
    if (one == other) return 0;
    return leaves_[one].pod == leaves_[other].pod ? 1 : 2;
}

void NetworkWire::start() {
    std::ranges::fill(free_, 0);
    messages_.fill(0);
}

Step NetworkWire::arrival(Step sent, Position from, Position to) {
    const Network& network = *network_;
    const std::uint32_t level = network.level(from, to);
    ++messages_[level];
    std::uint64_t start = sent;
    if (level > 0) {
        const Network::End& end = network.ends_[to.value];
        const Network::Leaf& target = network.leaves_[end.leaf];
        const Network::Leaf& source = network.leaves_[network.ends_[from.value].leaf];
        const std::uint32_t down = network.links_;
        std::array<std::uint32_t, 4> path{source.first_link + end.index % source.links,
                                          down + target.first_link + end.index % target.links};
        std::size_t links = 2;
        if (level == 2) {
            const Network::Pod& there = network.pods_[target.pod];
            const Network::Pod& here = network.pods_[source.pod];
            const std::uint32_t spread = end.index * there.leaves + target.index;
            path[links++] = here.first_link + spread % here.links;
            path[links++] = down + there.first_link + spread % there.links;
        }
        for (std::size_t i = 0; i < links; ++i)
            start = std::max<std::uint64_t>(start, free_[path[i]]);
        for (std::size_t i = 0; i < links; ++i) {
            const std::uint64_t until = start + network.times_.gap[i < 2 ? 0 : 1];
            free_[path[i]] = static_cast<Step>(std::min<std::uint64_t>(until, kLastStep));
        }
    }
    return static_cast<Step>(std::min<std::uint64_t>(start + network.times_.latency[level], kLastStep));
}

}  // namespace coppice::simulation
