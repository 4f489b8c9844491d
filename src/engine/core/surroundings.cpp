#include "engine/core/surroundings.hpp"

#include "transport/host_memory.hpp"

namespace coppice::engine {

void Surroundings::count_out_of_cores(Rank dead) {
    const transport::HostMemory* const host_memory = router_.transport_set()->host_memory();
    if (ranks_per_core() <= 1 || host_memory == nullptr) return;
    const Seat there = router_.seat_of(dead);
    sharing_cores_ -= host_memory->sharing_cores({&there, 1});
    ranks_per_core_.set(ranks_for_each(cores_, sharing_cores_));
}

}  // namespace coppice::engine
