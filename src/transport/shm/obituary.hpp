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

#include <cstdint>

#include "base/error.hpp"
#include "transport/shm/layout.hpp"

namespace coppice::transport::shm {

// Marks `obituary` as that of a living process. Starts the holder at the first call of a process. Any thread.
Result<void> hold(Obituary& obituary);

// Before the memory goes away; to others the process is then dead as far as this obituary is concerned. Any thread.
void let_go(Obituary& obituary);

// False once the process that held it is dead (or let go). One load.
bool is_held(const Obituary& obituary);

// For a process that has come to hold much memory. Whichever of a killed process's threads is the last to end takes that memory
// apart, some 20 ms per GB; meanwhile survivors on the same core, which give it away while they wait, do not get on with what
// they have to agree about. So a thread of the library's, which sleeps like the holder, then gets the lowest priority there is
// (SCHED_IDLE): where cores are busy it is the last to end, and takes its time. The price: where something else keeps all
// cores busy, an ordinary end of such a process takes that much longer, too.
// A system call; call it now and then, in the process itself. Small processes (below 64 MiB at their peak) are left alone.
void stand_last();

}  // namespace coppice::transport::shm
