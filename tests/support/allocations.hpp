// Counts what this program asks memory for: operator new, and malloc and its kin, through which UCX and the C library
// allocate as well. Sanitizers bring an allocator of their own: with them operator new alone is counted.
#pragma once

#include <cstdint>

namespace coppice::testing {

struct Allocations {
    std::uint64_t objects = 0;  // by operator new
    std::uint64_t blocks = 0;   // by malloc and its kin, those of operator new included
};
Allocations allocations_so_far();

extern const bool kCountsMalloc;

}  // namespace coppice::testing
