// The host memory of simulated ranks under the conformance suite that shm passes.
#include <vector>

#include "simulation/world/host_board.hpp"
#include "transport/host_memory_conformance.hpp"

namespace coppice::testing {
namespace {

world::Fate quiet_fate(std::uint32_t ranks) {
    world::Fate fate;
    fate.ranks = ranks;
    fate.host_of.assign(ranks, 0);
    fate.preempt_one_in = 0;
    fate.has_thread = false;
    return fate;
}

class WorldHost final : public Host {
  public:
    explicit WorldHost(std::uint32_t ranks)
        : fate_(quiet_fate(ranks)),
          clockwork_(fate_, 1),
          network_(clockwork_, kHostWindow, kHostRegions, [](std::uint32_t, bool) {}) {
        for (std::uint32_t rank = 0; rank < ranks; ++rank)
            network_.port(world::Wire::near, rank).open();
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            for (std::uint32_t peer = 0; peer < ranks; ++peer)
                if (peer != rank) network_.port(world::Wire::near, rank).add_peer(peer);
            memories_.push_back(std::make_unique<world::WorldMemory>(network_, rank));
        }
    }
    transport::HostMemory& memory(std::uint32_t rank) override { return *memories_[rank]; }
    void end(std::uint32_t rank) override { clockwork_.kill(rank); }
    void fence(std::uint32_t by, std::uint32_t rank) override { network_.port(world::Wire::near, by).fence(rank); }
    void poll(std::uint32_t rank, transport::Receiver& receiver) override {
        network_.port(world::Wire::near, rank).poll(receiver);
    }

  private:
    world::Fate fate_;
    world::Clockwork clockwork_;
    world::Network network_;
    std::vector<std::unique_ptr<world::WorldMemory>> memories_;
};

INSTANTIATE_TEST_SUITE_P(world, HostMemory,
                         ::testing::Values(HostKind{"world",
                                                    [](std::uint32_t ranks) -> std::unique_ptr<Host> {
                                                        return std::make_unique<WorldHost>(ranks);
                                                    }}),
                         host_kind_name);

}  // namespace
}  // namespace coppice::testing
