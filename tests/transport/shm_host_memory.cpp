// The memory of shm under the conformance suite of host memory.
#include <stdexcept>
#include <vector>

#include "transport/host_memory_conformance.hpp"
#include "transport/shm/shm_transport.hpp"

namespace coppice::testing {
namespace {

class ShmHost final : public Host {
  public:
    explicit ShmHost(std::uint32_t ranks) {
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            auto made = transport::ShmTransport::create(
                {.self = Seat(rank), .group_size = ranks, .window = kHostWindow, .host = {}, .regions = kHostRegions});
            if (!made) throw std::runtime_error(made.error().message);
            ranks_.push_back(std::move(*made));
        }
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            for (std::uint32_t peer = 0; peer < ranks; ++peer) {
                if (auto added = ranks_[rank]->add_peer(Seat(peer), ranks_[peer]->address()); !added)
                    throw std::runtime_error(added.error().message);
            }
        }
    }
    transport::HostMemory& memory(std::uint32_t rank) override { return *ranks_[rank]; }
    void end(std::uint32_t rank) override { ranks_[rank].reset(); }
    void fence(std::uint32_t by, std::uint32_t rank) override { ranks_[by]->fence(Seat(rank)); }
    void poll(std::uint32_t rank, transport::Receiver& receiver) override { ranks_[rank]->poll(receiver); }

  private:
    std::vector<std::unique_ptr<transport::ShmTransport>> ranks_;
};

INSTANTIATE_TEST_SUITE_P(shm, HostMemory,
                         ::testing::Values(HostKind{"shm",
                                                    [](std::uint32_t ranks) -> std::unique_ptr<Host> {
                                                        return std::make_unique<ShmHost>(ranks);
                                                    }}),
                         host_kind_name);

}  // namespace
}  // namespace coppice::testing
