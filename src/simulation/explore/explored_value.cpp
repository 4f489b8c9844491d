#include "simulation/explore/explored_value.hpp"

#include <cstring>

namespace coppice::simulation {
namespace {

using protocol::Operation;
using protocol::Operator;

void or_function(void* /*context*/, std::byte* into, const std::byte* from, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
        into[i] |= from[i];
}

// Under MIN and MAX: ranks in another order than their own, below the agreement's number.
constexpr std::uint32_t kPlaces = 8;
constexpr std::uint32_t place_of(std::uint32_t rank) {
    return (rank * 5 + 3) % kPlaces;
}

bool is_of_bits(Operator op) {
    return op != Operator::min && op != Operator::max;
}

std::uint32_t number_in(std::span<const std::byte> value) {
    std::uint32_t number = 0;
    std::memcpy(&number, value.data(), sizeof number);
    return number;
}

// AND is of the complements.
std::uint32_t bits_in(Operator op, std::span<const std::byte> value) {
    return op == Operator::bit_and ? ~number_in(value) : number_in(value);
}

constexpr std::uint32_t kAgreementShift = 8;
constexpr std::uint32_t kUnacknowledgedShift = 24;
constexpr std::uint32_t kRankBits = 0xff;
static_assert(kMostAgreements <= kUnacknowledgedShift - kAgreementShift);

std::string reason_against_bits(Operator op, const ExploredOutcome& outcome, std::uint32_t all) {
    const std::uint32_t bits = bits_in(op, outcome.value);
    const std::uint32_t contributed = bits & kRankBits;
    const std::uint32_t unacknowledged = bits >> kUnacknowledgedShift;
    if ((bits >> kAgreementShift & 0xffff) != 1U << outcome.agreement) return "the value of another agreement";
    if ((contributed >> outcome.rank & 1) == 0) return "Participation: its own contribution is missing";
    if ((contributed | outcome.failed) != all) {
        return "the contribution of " + ranks_of(all & ~(contributed | outcome.failed)) +
               " is missing, and it is not in the failed set";
    }
    const std::uint32_t news = outcome.failed & unacknowledged;
    if (outcome.acknowledged && news != 0) return "acknowledged, but not by all: " + ranks_of(news);
    if (!outcome.acknowledged && news == 0) return "not acknowledged, though all had done so";
    return "";
}

std::string reason_against_number(Operator op, const ExploredOutcome& outcome, std::uint32_t ranks) {
    const std::uint32_t number = number_in(outcome.value);
    if (number / kPlaces != outcome.agreement) return "the value of another agreement";
    bool is_somebodys = false;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const std::uint32_t place = place_of(rank);
        is_somebodys |= place == number % kPlaces;
        const bool counts = op == Operator::min ? number % kPlaces <= place : number % kPlaces >= place;
        if (!counts && (outcome.failed >> rank & 1) == 0)
            return "the contribution of " + std::to_string(rank) + " is missing, and it is not in the failed set";
        if (!counts && rank == outcome.rank) return "Participation: its own contribution is missing";
    }
    return is_somebodys ? "" : "a value that nobody has contributed";
}

}  // namespace

std::string ranks_of(std::uint32_t bits) {
    std::string text;
    for (std::uint32_t rank = 0; rank < 32; ++rank) {
        if ((bits >> rank & 1) != 0) text.append(text.empty() ? "" : ",").append(std::to_string(rank));
    }
    return text.empty() ? "none" : text;
}

Operation explored_operation(Operator op) {
    return {.op = op, .element = protocol::Element::u32, .combine = op == Operator::user ? or_function : nullptr};
}

ExploredValue explored_value(Operator op, std::uint32_t rank, std::uint32_t agreement, std::uint32_t unacknowledged) {
    std::uint32_t number = agreement * kPlaces + place_of(rank);
    if (is_of_bits(op)) {
        number = 1U << rank | 1U << (kAgreementShift + agreement) | unacknowledged << kUnacknowledgedShift;
        if (op == Operator::bit_and) number = ~number;
    }
    ExploredValue value;
    std::memcpy(value.data(), &number, sizeof number);
    return value;
}

std::string reason_against(Operator op, const ExploredOutcome& outcome, std::uint32_t ranks) {
    if (outcome.value.size() != kExploredBytes) return "a value of another size";
    return is_of_bits(op) ? reason_against_bits(op, outcome, (1U << ranks) - 1)
                          : reason_against_number(op, outcome, ranks);
}

std::string describe_value(Operator op, std::span<const std::byte> value) {
    if (value.size() != kExploredBytes) return value.empty() ? "nothing" : "?";
    return is_of_bits(op) ? ranks_of(bits_in(op, value) & kRankBits) : std::to_string(number_in(value));
}

}  // namespace coppice::simulation
