// Whether a simulation fits, asked before it starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace coppice::sim {

// What this process may still take: the machine's available memory, or what its control group leaves. Nothing if
// unknown.
std::optional<std::uint64_t> available_memory();

// "312 MiB", "1.5 GiB"
std::string in_words(std::uint64_t bytes);

// A sentence when `simulators` of `each` bytes do not fit.
std::optional<std::string> reason_against_size(std::uint64_t each, unsigned simulators);

}  // namespace coppice::sim
