// What each rank sends in which order, where nobody asks for it (chunked.hpp): a rank sends the first of its list when it has it.
#pragma once

#include <cstdint>
#include <vector>

#include "simulation/chunked.hpp"

namespace coppice::simulation {

struct ChunkSend {
    std::uint32_t to;
    std::uint32_t chunk;
};
using ChunkOrder = std::vector<std::vector<ChunkSend>>;  // by rank

ChunkOrder chain_order(std::uint32_t ranks, std::uint32_t chunks);
ChunkOrder binomial_pipeline_order(std::uint32_t ranks, std::uint32_t chunks);
// `chunks`: a multiple of the ranks; each rank's part is as many as the other's.
ChunkOrder scatter_allgather_order(std::uint32_t ranks, std::uint32_t chunks);

}  // namespace coppice::simulation
