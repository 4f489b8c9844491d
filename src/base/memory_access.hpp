// Whether memory that a caller hands over is there: what can be told without a signal handler, and before anything is done with it.
#pragma once

#include <cstddef>
#include <span>

namespace coppice {

// A look takes half a microsecond or more: below this many bytes that is worth more than what it tells.
inline constexpr std::size_t kLeastLookedAt = std::size_t{256} * 1024;

// Looks at the first and the last 8 bytes, by the kernel, which answers instead of ending the process; not at less than 8. What lies
// between may still be missing.
bool may_read(std::span<const std::byte> memory);
// The same; leaves in it what was there. Nobody else may write there meanwhile.
bool may_write(std::span<std::byte> memory);

// Whether this process may map far more than it uses: its address space has no limit of its own (RLIMIT_AS), and what it maps is not
// locked in memory at once (mlockall with MCL_FUTURE).
bool may_map_plenty();

}  // namespace coppice
