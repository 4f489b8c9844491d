#include "simulation/mortality.hpp"

#include <algorithm>
#include <cmath>

namespace coppice::simulation {
namespace {

// The probability that, of `count` things that each happen with the probability `one`, exactly `k` do.
double binomial(double count, double one, double k) {
    return std::exp(std::lgamma(count + 1) - std::lgamma(k + 1) - std::lgamma(count - k + 1) + k * std::log(one) +
                    (count - k) * std::log1p(-one));
}

// The probability that more than `tolerated` do. Summed from `tolerated` outwards on the side of the smaller terms:
// small tails are no differences of large numbers, and terms that are too small to be numbers are the last ones.
double upper_tail(double count, double one, double tolerated) {
    if (one <= 0 || tolerated >= count) return 0;
    if (one >= 1) return 1;
    const double odds = one / (1 - one);
    const bool upwards = tolerated + 1 >= count * one;
    double sum = 0;
    if (upwards) {
        double term = binomial(count, one, tolerated + 1);
        for (double k = tolerated + 1; k <= count && term > sum * 1e-16; ++k) {
            sum += term;
            term *= (count - k) / (k + 1) * odds;
        }
        return std::min(sum, 1.0);
    }
    double term = binomial(count, one, tolerated);
    for (double k = tolerated; k >= 0 && term > sum * 1e-16; --k) {
        sum += term;
        term *= k / (count - k + 1) / odds;
    }
    return std::max(1 - sum, 0.0);
}

// Whether a position lies within `distance` of another one, on a ring of `ranks`.
bool is_near(std::uint32_t one, std::uint32_t other, std::uint32_t distance, std::uint32_t ranks) {
    const std::uint32_t apart = one > other ? one - other : other - one;
    return std::min(apart, ranks - apart) <= distance;
}

}  // namespace

double probability_of_death(double mtbf_hours, double hours) {
    return -std::expm1(-hours / mtbf_hours);
}

double probability_of_more_deaths(std::uint32_t ranks, double mtbf_hours, double seconds, std::uint32_t tolerated) {
    return upper_tail(ranks, probability_of_death(mtbf_hours, seconds / 3600), tolerated);
}

double probability_of_more_dead(std::uint32_t ranks, double dead, std::uint32_t tolerated) {
    return upper_tail(ranks, dead, tolerated);
}

std::uint32_t dead_at_most(std::uint32_t ranks, double dead, double share) {
    std::uint32_t low = 0;
    std::uint32_t enough = ranks;
    while (low < enough) {
        const std::uint32_t middle = low + (enough - low) / 2;
        if (probability_of_more_dead(ranks, dead, middle) <= share) {
            enough = middle;
        } else {
            low = middle + 1;
        }
    }
    return enough;
}

double ranks_with_log2_failures(double mtbf_hours, double job_hours, double most) {
    // Where ranks · job / MTBF grows faster than log2(ranks), one crossing is left.
    double low = std::max(2.0, mtbf_hours / job_hours / std::log(2.0));
    if (low * job_hours / mtbf_hours >= std::log2(low)) return 2;
    double high = most;
    if (high * job_hours / mtbf_hours < std::log2(high)) return most;
    while (high - low > 1e-6 * high) {
        const double middle = (low + high) / 2;
        (middle * job_hours / mtbf_hours < std::log2(middle) ? low : high) = middle;
    }
    return high;
}

double probability_of_unreached(const topology::Tree& tree, std::uint32_t distance, double dead) {
    const std::uint32_t ranks = tree.processes();
    if (std::uint64_t{2} * distance + 1 >= ranks || dead <= 0) return 0;
    const double both_sides = std::pow(dead, 2.0 * distance);
    double sum = 0;
    // A rank that has the root nearby, or for a parent, is served by it.
    for (std::uint32_t rank = distance + 1; rank < ranks - distance; ++rank) {
        const std::uint32_t parent = tree.parent(Position{rank})->value;
        if (parent == 0) continue;
        sum += is_near(rank, parent, distance, ranks) ? both_sides : both_sides * dead;
    }
    // Of w ranks in a row the first and the last live, the others may: 2^(w-2) patterns, each dead^(w-1) times as
    // likely.
    const double rows = dead < 0.5 ? 1 + dead / (1 - 2 * dead) : 2;
    return -std::expm1(-sum * (1 - dead) * rows);
}

std::uint32_t distance_for(const topology::Tree& tree, double dead, double tolerated, std::uint32_t most) {
    for (std::uint32_t distance = 1; distance < most; ++distance) {
        if (probability_of_unreached(tree, distance, dead) <= tolerated) return distance;
    }
    return most;
}

double probability_of_unreached_by_tree(const topology::Tree& tree, double dead) {
    double inner = 0;
    for (std::uint32_t rank = 1; rank < tree.processes(); ++rank) {
        if (tree.child_count(Position{rank}) > 0) ++inner;
    }
    return -std::expm1(inner * std::log1p(-dead));
}

std::vector<Position> draw_dead(std::uint32_t ranks, double dead, Random& random) {
    std::vector<Position> drawn;
    if (dead <= 0) return drawn;
    // How many live ones lie between two dead ones is geometrically distributed.
    const double live = std::log1p(-std::min(dead, 1 - 1e-12));
    for (double at = 0;;) {
        const double share = (static_cast<double>(random.next() >> 11) + 1) * 0x1p-53;  // 0 < share <= 1
        at += 1 + std::floor(std::log(share) / live);
        if (at >= ranks) return drawn;
        drawn.push_back(Position{static_cast<std::uint32_t>(at)});
    }
}

}  // namespace coppice::simulation
