#include "simulation/chunked_order.hpp"

#include <bit>
#include <utility>

namespace coppice::simulation {
namespace {

// The chunks that a rank has, or will have.
class ChunkSet {
  public:
    explicit ChunkSet(std::uint32_t chunks) : words_((chunks + 63) / 64) {}

    bool has(std::uint32_t chunk) const { return (words_[chunk / 64] >> chunk % 64 & 1) != 0; }
    void add(std::uint32_t chunk) { words_[chunk / 64] |= std::uint64_t{1} << chunk % 64; }
    // The last one that it has and `other` has not; none: UINT32_MAX.
    std::uint32_t last_beyond(const ChunkSet& other) const {
        for (std::size_t i = words_.size(); i-- > 0;) {
            const std::uint64_t word = words_[i] & ~other.words_[i];
            if (word != 0)
                return static_cast<std::uint32_t>(i * 64 + 63 - static_cast<std::size_t>(std::countl_zero(word)));
        }
        return UINT32_MAX;
    }

  private:
    std::vector<std::uint64_t> words_;
};

}  // namespace

ChunkOrder chain_order(std::uint32_t ranks, std::uint32_t chunks) {
    ChunkOrder order(ranks);
    for (std::uint32_t rank = 0; rank + 1 < ranks; ++rank)
        for (std::uint32_t chunk = 0; chunk < chunks; ++chunk)
            order[rank].push_back({rank + 1, chunk});
    return order;
}

// Rounds are made until everybody has everything. With as many ranks as a power of two these are chunks + log2 P - 1; of others some
// have no partner in some rounds, and it takes more.
ChunkOrder binomial_pipeline_order(std::uint32_t ranks, std::uint32_t chunks) {
    ChunkOrder order(ranks);
    std::vector<ChunkSet> sets(ranks, ChunkSet(chunks));
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk)
        sets[0].add(chunk);
    const auto bits = static_cast<std::uint32_t>(std::bit_width(ranks - 1));
    std::uint64_t missing = std::uint64_t{ranks - 1} * chunks;
    std::uint32_t fresh = 0;  // that the root sends next
    std::vector<std::pair<std::uint32_t, ChunkSend>> round;
    for (std::uint32_t number = 0; missing > 0; ++number) {
        round.clear();
        const std::uint32_t bit = 1U << number % bits;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            const std::uint32_t partner = rank ^ bit;
            if (partner >= ranks || partner == 0) continue;
            const std::uint32_t chunk = rank == 0 && fresh < chunks ? fresh++ : sets[rank].last_beyond(sets[partner]);
            if (chunk != UINT32_MAX && !sets[partner].has(chunk)) round.push_back({rank, {partner, chunk}});
        }
        for (const auto& [rank, send] : round) {
            order[rank].push_back(send);
            sets[send.to].add(send.chunk);
            --missing;
        }
    }
    return order;
}

ChunkOrder scatter_allgather_order(std::uint32_t ranks, std::uint32_t chunks) {
    ChunkOrder order(ranks);
    const std::uint32_t part = chunks / ranks;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges{{0, ranks}};  // its first rank has the parts of all
    while (!ranges.empty()) {
        const auto [first, end] = ranges.back();
        ranges.pop_back();
        if (end - first < 2) continue;
        const std::uint32_t middle = first + std::bit_floor(end - first - 1);
        // The last parts first: they have the longest way.
        for (std::uint32_t chunk = end * part; chunk-- > middle * part;)
            order[first].push_back({middle, chunk});
        ranges.emplace_back(middle, end);
        ranges.emplace_back(first, middle);
    }
    for (std::uint32_t step = 0; step + 1 < ranks; ++step) {
        for (std::uint32_t rank = 0; rank + 1 < ranks; ++rank) {  // the last one's neighbour is the root
            const std::uint32_t of = (rank + ranks - step) % ranks;
            for (std::uint32_t chunk = of * part; chunk < (of + 1) * part; ++chunk)
                order[rank].push_back({rank + 1, chunk});
        }
    }
    return order;
}

}  // namespace coppice::simulation
