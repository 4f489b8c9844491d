// How many ranks die before a broadcast and while it runs, and how likely the dead keep a corrected tree from reaching
// everybody: what a correction is chosen for (IPDPS'17 §IV.C and D).
//
// Ranks die independently of each other, each after an exponentially distributed time with the mean MTBF, and none
// comes back. A rank is here whatever fails by itself: a host, where the processes of a host stand in for each other.
// Times are hours unless a name says otherwise. Pure functions.
#pragma once

#include <cstdint>

#include "simulation/model.hpp"
#include "simulation/random.hpp"
#include "topology/tree.hpp"

namespace coppice::simulation {

// The probability that a rank that lives at first is dead after `hours`.
double probability_of_death(double mtbf_hours, double hours);

// The probability that more than `tolerated` of `ranks` die within `seconds`: within one broadcast, say.
double probability_of_more_deaths(std::uint32_t ranks, double mtbf_hours, double seconds, std::uint32_t tolerated);

// The probability that more than `tolerated` of `ranks` are dead, each with the probability `dead`.
double probability_of_more_dead(std::uint32_t ranks, double dead, std::uint32_t tolerated);

// The smallest number of dead of which no more than this share of all cases has more.
std::uint32_t dead_at_most(std::uint32_t ranks, double dead, double share);

// From how many ranks on the failures expected within a job, ranks · job / MTBF, are log2(ranks) and more, so that the
// binomial graph may leave somebody out (IPDPS'17 §IV.E). Nothing below `most` ranks: `most`.
double ranks_with_log2_failures(double mtbf_hours, double job_hours, double most = 4294967296.0);

// The probability that overlapped opportunistic correction (plain or optimized) of `distance` messages a side leaves a
// live rank out, where every rank but the root is dead from before the start with probability `dead` (below one half)
// and nobody else dies or is told. Not an estimation by drawing, so that small ones have a value, too.
//
// A colored rank sends to its children and its neighbours, however it was colored. So a live rank stays
// uncolored only when its parent and the `distance` ranks on each side of it are dead or uncolored, mostly dead: the
// sum of that over all ranks. Several ranks in a row of which each has a dead parent add about `dead` of it, which is
// accounted for. O(ranks · log ranks).
double probability_of_unreached(const topology::Tree& tree, std::uint32_t distance, double dead);

// The smallest distance of 1 … most for which that is no more than `tolerated`; `most` if none is.
std::uint32_t distance_for(const topology::Tree& tree, double dead, double tolerated, std::uint32_t most = 64);

// The probability that the tree alone leaves a live rank out: that an inner rank is dead. An upper bound, since all
// below it might be dead as well.
double probability_of_unreached_by_tree(const topology::Tree& tree, double dead);

// Every position but the root with the probability `dead`, in O(their number).
std::vector<Position> draw_dead(std::uint32_t ranks, double dead, Random& random);

}  // namespace coppice::simulation
