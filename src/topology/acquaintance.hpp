// Which ranks know each other's addresses from a group's start, where a launcher's store would have to be asked for each one.
//
// A rank knows those of its own host; and of the nodes 1, 2, 4 … places to either side, which binomial trees, agreement and the news of deaths
// lead to, and up to `ring` places, which correction leads to, the ranks of its own row: a host's leader knows leaders, its second rank the
// second ones, which stand in. Of the next node to either side it knows those 1, 2, 4 … rows away, too, so that few large hosts hang together by
// many ranks. Besides, its two neighbours in the order in which ranks observe each other (protocol/detector/): row after row. What one rank
// knows of another, that one knows of it, but where a node has fewer rows: there it knows one that need not know it, so that it has a way out when its
// leader is dead. Any other node is at most log2 of them away, by steps that each halve the distance, so what every rank knows is soon known
// to all that ask around.
//
// At most 2⌈log2 N⌉ + 2⌊log2 R⌋ + 2·ring + 2 ranks of other hosts, of N nodes, of which its own has R ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "base/words.hpp"
#include "topology/nodes.hpp"

namespace coppice::topology {

class Acquaintance {
  public:
    Acquaintance(Nodes nodes, std::uint32_t ring) : nodes_(std::move(nodes)), ring_(ring) {}

    const Nodes& nodes() const { return nodes_; }
    // Whom it knows: ascending, without itself.
    std::vector<Rank> of(Rank rank) const;
    // Likewise, those of them that know it.
    std::vector<Rank> mutual(Rank rank) const;
    // ⌈log2⌉ of the nodes.
    std::uint32_t steps() const;

  private:
    std::uint32_t row_of(Rank rank) const;
    // The next rank in the order of observation.
    Rank next(Rank rank, bool forward) const;

    Nodes nodes_;
    std::uint32_t ring_;
};

}  // namespace coppice::topology
