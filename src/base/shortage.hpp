// A process or machine that has nothing left to take a connection with.
#pragma once

#include <cerrno>
#include <cstdint>

namespace coppice {

// Errors of accept(2) that leave the connection in the queue. The listener stays readable then and would wake its poller without end: so
// it is taken out of the poll set, and tried again kShortageNs later.
inline bool is_shortage(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

inline constexpr std::uint64_t kShortageNs = 500'000'000;

}  // namespace coppice
