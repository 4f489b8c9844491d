// How a process's death is written down at the moment it happens, by the kernel.
//
// A thread that dies, however it dies, has the futex words on its robust list marked FUTEX_OWNER_DIED by the kernel,
// before the process's memory is taken apart: some 40 µs after SIGKILL, where pidfd, sockets and wait() tell tens of
// milliseconds later per GB of memory. Robust lists belong to threads, so the holder here is a thread of the library's
// own that does nothing else and ends only with the process. A forked child does not hold its parent's
// obituaries, and execve ends the holder, so it counts as death.
//
// The list is the thread's own, set with set_robust_list(2), and not glibc's: it may only hold words of which we know
// that nobody else writes the links next to them, and any thread may add to it.
#pragma once

#include <linux/futex.h>

#include <cstdint>

#include "base/error.hpp"
#include "transport/shm/layout.hpp"

namespace coppice::transport::shm {

// Marks `obituary` as that of a living process. Starts the holder at the first call of a process. Any thread.
Result<void> hold(Obituary& obituary);

// Before the memory goes away; to others the process is then dead as far as this obituary is concerned. Any thread.
void let_go(Obituary& obituary);

// False once the process that held it is dead (or let go). One load.
inline bool is_held(const Obituary& obituary) {
    const std::uint32_t word = obituary.word.read();
    return (word & FUTEX_OWNER_DIED) == 0 && (word & FUTEX_TID_MASK) != 0;
}

// From now on until the last obituary is let go, another process keeps this one's memory for a moment when it dies: see
// keeper.hpp. After hold(); where there can't be such a process, nothing happens. Any thread.
void keep_memory();

}  // namespace coppice::transport::shm
