// What a rank's page of the host's board holds: the contributions to agreements from its beginning (contributions.hpp), and at its
// end words of other components. A component that needs words there adds its region here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/board.hpp"

namespace coppice::engine::page {

// The tail, from its beginning: cache lines apart, because different ranks read them at different times.
inline constexpr std::size_t kRevocationAt = 0;  // one word (revocation.cpp)
inline constexpr std::size_t kFoundAt = 128;     // two words (roots.cpp)
inline constexpr std::size_t kRootWordsAt = 256;
inline constexpr std::size_t kRootWords = 64;
inline constexpr std::size_t kTail = kRootWordsAt + kRootWords * sizeof(std::uint64_t);

inline std::size_t tail_at(const transport::Board& board) {
    return board.page_bytes() - kTail;
}

}  // namespace coppice::engine::page
