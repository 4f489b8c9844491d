// Room in this process's table of descriptors.
//
// The kernel doubles the table when it is full: at 64 descriptors, 128, 256 … In a process with several threads the call that opens
// one more waits meanwhile until every core has passed through the scheduler (an RCU grace period). That takes 10 to 20 ms on a
// quiet machine, and took a minute where busy ranks left the kernel's own thread no core. Connections are made in whichever
// call needs them first. It holds its context, so the rank's other threads wait for it, and then the other ranks.
#pragma once

namespace coppice {

// Room for 1,024 descriptors, or as many as the process may have (RLIMIT_NOFILE). It costs 8 KiB; in a process that has several
// threads already also that wait, once.
void make_room_for_descriptors();

}  // namespace coppice
