// Two ranks of a job with one transport between them, while the others wait: what put_lat, send_lat and logp measure on.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/bootstrap.hpp"
#include "engine/settings.hpp"
#include "transport/transport.hpp"

namespace perf {

// Counts what arrives. A header's first byte may say that this is the last message of a kind.
class Arrivals final : public coppice::transport::Receiver {
  public:
    static constexpr std::byte kLast{1};

    bool message(coppice::Seat, std::span<const std::byte> header, std::span<const std::byte>,
                 coppice::transport::Buffer) override {
        ++messages;
        last = !header.empty() && header[0] == kLast;
        return false;
    }
    void peer_failed(coppice::Seat, coppice::transport::FailureCause) override { failed = true; }

    std::uint64_t messages = 0;
    bool last = false;
    bool failed = false;
};

class Pair {
  public:
    // Collective over all ranks of the job; `first` is 0 of the pair and `second` is 1. Null at the others.
    static coppice::Result<std::unique_ptr<Pair>> connect(coppice::bootstrap::Bootstrap& exchange,
                                                          const coppice::engine::Settings& settings,
                                                          const std::string& transport, std::uint32_t first,
                                                          std::uint32_t second, std::uint64_t deadline_ns);

    coppice::Seat self() const { return self_; }
    coppice::transport::Transport& wire() { return *wire_; }
    const Arrivals& arrivals() const { return arrivals_; }

    // Each: false when the other rank died, or the deadline passed.
    bool move();
    bool send(std::span<const std::byte> header, std::span<const std::byte> payload, bool one_sided = false);
    bool receive(std::uint64_t count);  // until so many have arrived since the start
    bool leave();

  private:
    Pair(coppice::Seat self, std::unique_ptr<coppice::transport::Transport> wire, std::uint64_t deadline_ns)
        : self_(self), wire_(std::move(wire)), deadline_ns_(deadline_ns) {}

    coppice::Seat self_;
    std::unique_ptr<coppice::transport::Transport> wire_;
    std::uint64_t deadline_ns_;
    std::uint32_t in_flight_ = 0;
    std::uint32_t polls_ = 0;
    Arrivals arrivals_;
};

}  // namespace perf
