// Networks of switches for the simulated clock: how far a message has to go, and which links it shares with others.
//
// A message goes up only as far as it must: to the leaf switch, to a switch of the pod, or to the top. Each level has a latency,
// which stands for the L of LogP. A link above a leaf, and one between a pod and the top, carries one message at a time, each
// for a gap; links of hosts are the ports that LogP has. Which of several links a message takes follows from its destination
// alone, as the forwarding tables of a fat tree have it: host number i of its leaf is reached by up-link i. So nothing that
// goes to different hosts meets on its way down, unless the network is tapered.
//
// A message leaves when all links of its path are free, as if it took them all at once: those behind wait. Who has sent
// first goes first.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "simulation/model.hpp"
#include "topology/placement.hpp"

namespace coppice::simulation {

inline constexpr std::size_t kNetworkLevels = 3;

// By the highest switch that a message passes: its leaf's, one of its pod, one above.
struct NetworkTimes {
    std::array<Step, kNetworkLevels> latency{1, 2, 3};
    // Between two messages on one link above a leaf, and on one above a pod.
    std::array<Step, 2> gap{1, 1};

    bool operator==(const NetworkTimes&) const = default;
};

std::optional<std::string> reason_against(const NetworkTimes& times);

// Immutable, shared by threads.
class Network {
  public:
    // hosts[h] is where host h is; position p is host host_at[p]. A leaf has a link up for each `taper` of its hosts, and a pod
    // as many as its leaves together.
    Network(std::span<const topology::Site> hosts, std::span<const std::uint32_t> host_at, const NetworkTimes& times,
            std::uint32_t taper = 1);

    const NetworkTimes& times() const { return times_; }
    std::uint32_t positions() const { return static_cast<std::uint32_t>(ends_.size()); }
    // 0 within a leaf, 1 within a pod, 2 beyond.
    std::uint32_t level(Position from, Position to) const;
    std::uint32_t host_at(Position position) const { return host_at_[position.value]; }

  private:
    friend class NetworkWire;

    struct End {
        std::uint32_t leaf = 0;
        std::uint32_t index = 0;  // of the host in its leaf
    };
    struct Leaf {
        std::uint32_t pod = 0;
        std::uint32_t index = 0;  // in its pod
        std::uint32_t hosts = 0;
        std::uint32_t links = 0;       // up, and as many down
        std::uint32_t first_link = 0;  // up; one further the other way
    };
    struct Pod {
        std::uint32_t leaves = 0;
        std::uint32_t links = 0;
        std::uint32_t first_link = 0;
    };

    NetworkTimes times_;
    std::vector<End> ends_;  // by position
    std::vector<Leaf> leaves_;
    std::vector<Pod> pods_;
    std::vector<std::uint32_t> host_at_;
    std::uint32_t links_ = 0;  // of leaves and pods, one way
};

// What one run knows of its links. One for each simulation.
class NetworkWire {
  public:
    explicit NetworkWire(std::shared_ptr<const Network> network)
        : network_(std::move(network)), free_(2 * std::size_t{network_->links_}) {}

    // A run begins.
    void start();
    // When a message arrives that its sender's port has let go at `sent`.
    Step arrival(Step sent, Position from, Position to);
    // Messages of this run, by level.
    const std::array<std::uint64_t, kNetworkLevels>& messages() const { return messages_; }

  private:
    std::shared_ptr<const Network> network_;
    std::vector<Step> free_;  // links up, then links down
    std::array<std::uint64_t, kNetworkLevels> messages_{};
};

}  // namespace coppice::simulation
