// Counts what operator new is asked for in this program. Linked into tests that show what does not allocate.
#pragma once

#include <cstdint>

namespace coppice::protocol::testing {

std::uint64_t allocations_so_far();

}  // namespace coppice::protocol::testing
