// In the place of the transport that will lead to a rank, until this one has used its address: whatever is to be sent to it finds no room, and
// makes the address wanted (copying.hpp). Once the rank is wired, all goes on to that transport.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "transport/transport.hpp"

namespace coppice::engine {

class Copying;
class Seats;

class Unwired final : public transport::Transport {
  public:
    // References outlive this object.
    Unwired(Seats& seats, Copying& copying) : seats_(seats), copying_(copying) {}

    // Only other hosts' ranks are behind it.
    const transport::Capabilities& capabilities() const override {
        static constexpr transport::Capabilities kNone{.name = "(not wired yet)", .eager_size = transport::kMaxPayload};
        return kNone;
    }
    transport::Counters counters() const override { return {}; }
    std::vector<std::byte> address() const override { return {}; }
    Result<void> add_peer(Seat /*peer*/, std::span<const std::byte> /*address*/) override { return {}; }
    void watch(Seat peer) override;
    bool is_connected(Seat peer) const override;
    std::size_t largest(Seat to) const override;
    transport::SendStatus send(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                               std::uint32_t* in_flight) override;
    transport::SendStatus write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                                std::uint32_t* in_flight) override;
    std::size_t poll(transport::Receiver& /*receiver*/) override { return 0; }
    // Nothing of a rank that is not known yet can be kept.
    void release(transport::Buffer /*buffer*/) override {}
    void probe(Seat peer) override;
    // It may know this rank, and connect.
    void fence(Seat peer) override;
    void forget(Seat peer) override;
    void say_farewell(Seat peer) override;
    bool leave() override { return true; }

  private:
    // The one that leads there by now; null: none does.
    transport::Transport* behind(Seat peer) const;
    // None leads there: not yet, or never.
    transport::SendStatus without(Seat peer);

    Seats& seats_;
    Copying& copying_;
};

}  // namespace coppice::engine
