// Which transport reaches whom: the first allowed one per peer, and one place to poll them all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "topology/words.hpp"
#include "transport/transport.hpp"

namespace coppice::engine {

class Router {
  public:
    explicit Router(std::uint32_t ranks) : route_(ranks, kNobody) {}

    // Takes a transport; returns its index for route().
    std::uint8_t add(std::unique_ptr<transport::Transport> wire) {
        wires_.push_back(std::move(wire));
        return static_cast<std::uint8_t>(wires_.size() - 1);
    }
    void route(Rank peer, std::uint8_t index) { route_[peer.value] = index; }

    transport::Transport* to(Rank peer) const {
        const std::uint8_t index = route_[peer.value];
        return index == kNobody ? nullptr : wires_[index].get();
    }
    std::span<const std::unique_ptr<transport::Transport>> wires() const { return wires_; }

    std::size_t poll(transport::Receiver& receiver) {
        std::size_t events = 0;
        for (const auto& wire : wires_)
            events += wire->poll(receiver);
        return events;
    }

  private:
    static constexpr std::uint8_t kNobody = 0xff;
    std::vector<std::unique_ptr<transport::Transport>> wires_;
    std::vector<std::uint8_t> route_;
};

}  // namespace coppice::engine
