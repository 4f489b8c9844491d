// Keeps a dead process's memory together until its survivors have agreed.
//
// When a process is killed, the kernel takes its memory apart before it closes its files and tells its parent: 0.3 ms for
// a small one with the libraries that it has mapped, 15 to 24 ms more per GB. Where a host has more ranks than cores,
// survivors wait for that core meanwhile, in the very agreement that detects the death. So there a second process shares
// the rank's memory (clone(2) with CLONE_VM): it has no files, takes no signals, has given up nearly all rights, and does
// nothing but read an obituary of the rank's a few times in a second. After the rank's end it ends too, and the memory with
// it, at the lowest priority: some 20 to 270 ms later. The rank itself has ended at once, whatever it held: its connections
// break and its parent is told some 0.1 ms after the kill. What stays open is what was mapped: of an RDMA device, its
// queues, so that peers get answers until the memory is gone.
//
// It is a child of the rank that wait(2) does not report without __WALL, and its name is "coppice-keep". It costs a kernel
// stack and no memory, but tools that add up the memory of processes count the rank's twice.
#pragma once

#include <sys/types.h>

#include "transport/shm/layout.hpp"

namespace coppice::transport::shm {

// Starts the calling process's keeper, which stays until `life` is held no longer; at most one at a time. The caller must be
// a thread that does nothing else meanwhile and ends only with the process.
// -1 where there can't be one: the limit of processes, a kernel before 5.9, Valgrind, ThreadSanitizer. It ends at once where
// the kernel, or a container, does not let it give up its rights.
pid_t start_keeper(const Obituary& life);

// Ends it, and waits for its end. Its `life` has to be let go before: a process that has changed its user since may not kill
// it. Any thread of the process that started it.
void end_keeper(pid_t keeper);

// Leaves the calling thread the few system calls that a keeper makes, for good: it keeps the rights of the rank that started
// it, and the rank, which may give up its own, can write to its memory. False: the kernel, or a container, does not let it.
bool give_up_rights();

}  // namespace coppice::transport::shm
