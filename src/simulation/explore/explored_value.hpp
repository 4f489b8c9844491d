// What ranks of an explored group contribute, so that a value says by itself whether it is the right one: which ranks
// it is of, which agreement's, and whose failure some contributor had not acknowledged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "protocol/agreement/agreement.hpp"

namespace coppice::simulation {

inline constexpr std::uint32_t kMostAgreements = 12;  // a flush included
inline constexpr std::size_t kExploredBytes = 4;
using ExploredValue = std::array<std::byte, kExploredBytes>;

// The operation that is meant: `user` is OR as a function of the caller's.
protocol::Operation explored_operation(protocol::Operator op);
ExploredValue explored_value(protocol::Operator op, std::uint32_t rank, std::uint32_t agreement,
                             std::uint32_t unacknowledged);

// Whether this rank knows of a change of members that waits, and says so in all that it contributes.
constexpr bool knows_of_change(std::uint32_t rank) {
    return rank == 1;
}

// What one rank is told, ranks as bits.
struct ExploredOutcome {
    std::uint32_t rank = 0;
    std::uint32_t agreement = 0;
    std::span<const std::byte> value;
    std::uint32_t failed = 0;
    bool acknowledged = false;
};
// Why that can't be, in a group of so many; empty if it can.
std::string reason_against(protocol::Operator op, const ExploredOutcome& outcome, std::uint32_t ranks);
// Of which ranks it is, as far as it says so.
std::string describe_value(protocol::Operator op, std::span<const std::byte> value);

std::string ranks_of(std::uint32_t bits);

}  // namespace coppice::simulation
