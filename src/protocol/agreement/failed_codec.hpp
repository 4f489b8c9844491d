// Sets of ranks as bytes: ranges or a bitmap, whichever is smaller.
//
//   0                                nobody
//   1  count  (gap length)×count     ranges: `gap` ranks that are not in the set, then `length` that are
//   2  gap  bytes  bitmap            8·gap ranks that are not in the set, then one bit for each rank, lowest first
//
// Numbers are unsigned LEB128 of at most five bytes. Each set has exactly one form that read_failed() takes: of two
// forms of one size the ranges. So what is read takes at most 32 times the memory of what came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "protocol/failed_set.hpp"

namespace coppice::protocol {

// As much as write_failed() writes at most of a group of so many ranks: a bitmap of all.
constexpr std::size_t longest_failed(std::uint32_t ranks) {
    return 1 + 5 + 5 + (std::size_t{ranks} + 7) / 8;
}

// Appends.
void write_failed(const FailedSet& failed, std::vector<std::byte>& out);

// Takes a set of ranks below `ranks` from the front of `bytes` and moves it on. False, with `failed` empty, for
// everything that write_failed() would not have written.
bool read_failed(std::span<const std::byte>& bytes, std::uint32_t ranks, FailedSet& failed);

}  // namespace coppice::protocol
