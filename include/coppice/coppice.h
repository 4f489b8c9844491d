/*
 * Coppice: group communication that goes on when processes die.
 *
 * The C interface, and the stable one: what its parts declare keeps its meaning for all of libcoppice.so.0.
 * C++ programs may prefer coppice.hpp, which is a thin RAII layer over it.
 *
 * Conventions
 *  - Every call returns a coppice_status_t; coppice_last_error() has the sentence to it: which rank, which
 *    transport, what to do. No C++ exception leaves the library.
 *  - No call ends the process, nor does anything that a peer or a stranger sends, but for UCX: it trusts those whom its
 *    filter lets through, and ends the process when its own RDMA device is taken down. UCX is what runs between hosts that
 *    have RDMA devices, unless COPPICE_TRANSPORT names others. docs/security.md says more.
 *  - Sizes are in bytes, times in nanoseconds, ranks are 0 … size−1 in their group. The largest payload has 1 TiB
 *    (coppice_group_info_t.max_payload).
 *  - Options structs begin with their own size. Zero-initialise them with their _INIT macro; a field left 0
 *    (or NULL) takes the value of its environment variable, else the default. Fields are only ever added at
 *    the end.
 *  - Progress: a process owes the others no further call. What they still need of it (messages on their way, answers,
 *    what a death asks for) happens although it computes, waits in another library, or never calls again: by one
 *    thread of the library, which sleeps while it is not needed (coppice_context_options_t.progress_thread).
 *  - Threads: with COPPICE_THREAD_SINGLE one thread at a time may be inside the library for a context. With
 *    COPPICE_THREAD_MULTIPLE any thread may call anything at any time, except that an object must not be
 *    destroyed while another thread uses it. coppice_last_error() is per thread.
 *  - Processes: in a child that was forked while its process had a context, and in its own children, every call fails with
 *    COPPICE_ERR_FORKED, destroying included, which does nothing; so the child may end by exit(), or run on. Programs that are
 *    executed (fork or vfork and exec, posix_spawn, system) are not concerned, and get no descriptors of the library's.
 *    docs/processes.md says more.
 *  - Every operation on a group is collective: all its ranks call the same operations in the same order.
 */
#ifndef COPPICE_H
#define COPPICE_H

#include <coppice/agreement.h>
#include <coppice/broadcast.h>
#include <coppice/context.h>
#include <coppice/group.h>
#include <coppice/membership.h>
#include <coppice/request.h>
#include <coppice/status.h>

#endif /* COPPICE_H */
