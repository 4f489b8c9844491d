// A process or machine that has nothing left to take a connection with.
#pragma once

#include <cerrno>
#include <cstdint>

namespace coppice {

// What accept(2) says then. The connection stays where it is, and its listener readable: whoever sleeps on that would be woken again and
// again for nothing, so it looks away, and tries again kShortageNs later.
inline bool is_shortage(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

inline constexpr std::uint64_t kShortageNs = 500'000'000;

}  // namespace coppice
