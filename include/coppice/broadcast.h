/* Broadcasts, and memory that they leave from. Programs include <coppice/coppice.h>, of which this is a part. */
#ifndef COPPICE_BROADCAST_H
#define COPPICE_BROADCAST_H

#include <coppice/group.h>
#include <coppice/request.h>
#include <coppice/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Broadcast of a payload from `root` to all. The caller
 *  - calls it at all ranks, with the same root; the n-th broadcast of one rank is the n-th of all;
 *  - at the root: gives the payload, `bytes` from 0 (buffer may be NULL) to coppice_group_info_t.max_payload. The buffer may be
 *    used again as soon as the call returns, and is not changed;
 *  - elsewhere: gives `bytes` of room in `buffer`. The payload's size goes to *received (which may be NULL). A payload that is
 *    larger than the room is COPPICE_ERR_TRUNCATED: the broadcast counts as done, the buffer is untouched.
 * Above COPPICE_EAGER (8192) bytes the payload goes in chunks (docs/payloads.md), which are written to a receiver's buffer as they
 * come. It holds the payload when the call returns COPPICE_OK, and not before. What is in it after any other outcome is undefined,
 * but after COPPICE_ERR_TRUNCATED, _BUSY and _INVALID_ARGUMENT, which leave it as it was. The call then also serves the ranks that
 * take their chunks from this one, until they have all, no chunk was wanted for 0.2 ms, or the deadline, which changes nothing about
 * its outcome. Where ranks read its memory (verbs) it only tells them where that is. They read the library's memory, never a caller's
 * buffer; a rank that stops in the middle of that holds up this memory, and leaving the group, until it goes on or is dead.
 * COPPICE_OK: the payload is here, and this rank has done its part for the others, which means that a transport has accepted
 * its messages. The rest (connections that are being made, full queues, messages over tcp that leave with the next broadcast's, a
 * rank that needs the payload again after a death) is left to the progress thread; without one, to later calls, coppice_progress
 * among them. The promise of the group's correction says which ranks get the payload.
 * COPPICE_ERR_TIMEOUT, `timeout_ns` from now (COPPICE_NO_TIMEOUT: never), names the ranks waited for. The broadcast is given
 * up at this rank: it counts as done here, its buffer is not touched any more, the others are still served.
 * COPPICE_ERR_BUSY: the window was full until then; names the rank that holds it up. Nothing was started: make the same call again.
 * COPPICE_ERR_ROOT_FAILED: the root has died, and no rank can have (all of) the payload any more. COPPICE_ERR_NO_MEMORY: for its chunks.
 * COPPICE_ERR_INVALID_ARGUMENT: of a payload of 256 KiB or more the ends of the buffer show that it can't be read (at the root: nothing
 * was started) or written (elsewhere: the broadcast counts as done). Smaller ones, and holes in between, are not looked for.
 * COPPICE_ERR_NO_QUORUM: too few ranks are left, see coppice_group_shrink.
 * COPPICE_ERR_MISMATCH: others name another root. Several ranks that name themselves root may all return COPPICE_OK, and so may
 * others, with the payload of one of them. The group is then revoked as soon as a rank sees that, and every rank of that rank's
 * host is told with COPPICE_ERR_MISMATCH, naming two of the roots and the broadcast. Where the roots are of one host that is their
 * host: the last of them is told by one of its next 32 calls of a broadcast or agreement, or by a coppice_group_destroy that
 * waits; the others by the same, or sooner where they wait for a rank that has been told. Where they are of several hosts, or the
 * hierarchy is flat, a rank sees it that is sent the payloads of two roots before it has left; there may be none. Ranks of other
 * hosts are told COPPICE_ERR_MISMATCH of that broadcast, or COPPICE_ERR_REVOKED by a later call once they hear of it, or nothing:
 * coppice_group_destroy returns COPPICE_OK there.
 *
 * Source: PPoPP'19 §3; what holds when ranks die in mid-operation: docs/corrections.md. */
COPPICE_API coppice_status_t coppice_broadcast(coppice_group_t* group, void* buffer, size_t bytes, uint32_t root,
                                               size_t* received, uint64_t timeout_ns);

/* The same without waiting. The caller
 *  - leaves `buffer` to the library until the request has ended: test or wait returned anything but COPPICE_IN_PROGRESS and
 *    COPPICE_ERR_TIMEOUT;
 *  - frees the request (coppice_request_free).
 * Up to W broadcasts may be under way, with different roots; the next one returns COPPICE_ERR_BUSY until the oldest is done
 * everywhere. */
COPPICE_API coppice_status_t coppice_broadcast_nb(coppice_group_t* group, void* buffer, size_t bytes, uint32_t root,
                                                  coppice_request_t** request);

/* The same, delivering a view of the memory in which the payload landed instead of a copy: no byte is copied at the
 * receivers. The caller
 *  - gives `payload` at the root, and may use that memory again as soon as the request has ended: the root's view, too, is of the library's
 *    memory. Memory of coppice_memory_allocate is viewed where it is, and not written to again. It is ignored elsewhere;
 *  - asks coppice_request_view for the view once the request has ended with COPPICE_OK, at the root too;
 *  - frees the request soon, which ends the view: one that is held for W further broadcasts holds them up. Above COPPICE_EAGER bytes it
 *    counts with its bytes against COPPICE_PAYLOAD_WINDOW until then, and so do the payloads behind it: a program that holds a view while it
 *    broadcasts more bytes than that waits for itself. */
COPPICE_API coppice_status_t coppice_broadcast_view_nb(coppice_group_t* group, const void* payload, size_t bytes,
                                                       uint32_t root, coppice_request_t** request);

/* ---------------------------------------------------------------------------------- registered memory --- */

/* Memory from which a root's payload of up to COPPICE_EAGER bytes leaves without being staged first; a larger one is copied in the
 * call. The caller
 *  - keeps it mapped until it is deregistered;
 *  - registers once, not per broadcast: over verbs memory is pinned and made known to the device, which takes time;
 *  - after COPPICE_ERR_TIMEOUT at a root leaves the payload as it is until deregistering succeeds (COPPICE_ERR_BUSY until
 *    then): it may still be on its way out.
 * The payload is copied, to serve others from later, only after its messages have been handed over. That is so where the root
 * is the only rank of its position; where ranks of a host publish, the copy is the transfer itself.
 * COPPICE_ERR_NO_RESOURCES when the device or the limit of locked memory (ulimit -l) does not allow it. COPPICE_ERR_BUSY when
 * the range overlaps a registered one. */
COPPICE_API coppice_status_t coppice_memory_register(coppice_group_t* group, void* address, size_t bytes);
COPPICE_API coppice_status_t coppice_memory_deregister(coppice_group_t* group, void* address);

/* ------------------------------------------------------------------------------------ the library's memory --- */

/* Memory for a root to fill, from which payloads above COPPICE_EAGER go out without a copy: on one host the others read them there. The
 * caller
 *  - writes to it before the first broadcast from it, and never after: the others read it when they come to it, which may be long
 *    after the call has returned. The next payload takes memory of its own, whose pages are those of an earlier one;
 *  - broadcasts any part of it, any number of times, with the calls of this group; it may be read all the time;
 *  - frees it, at any time, a view of it included: what others still have to read, or read just now, stays until they have. Memory that is not freed goes
 *    with its group;
 *  - does not touch it in a child of fork(2), which may not have it.
 * It is memory that other ranks of the host map. Where there is none, or where a bound of silence is set (COPPICE_DETECTION_BOUND) and it is
 * larger than COPPICE_PAYLOAD_WINDOW, it is ordinary memory, that a broadcast copies.
 * allocate: aligned to 4,096 bytes, and its contents are undefined. COPPICE_ERR_NO_MEMORY; COPPICE_ERR_TOO_LARGE for more than max_payload.
 * free: nothing for NULL. COPPICE_ERR_INVALID_ARGUMENT for what is not (or no more) the start of such memory.
 * A broadcast that reaches beyond such memory, or begins in some that was freed and is still kept, is COPPICE_ERR_INVALID_ARGUMENT. */
COPPICE_API coppice_status_t coppice_memory_allocate(coppice_group_t* group, size_t bytes, void** memory);
COPPICE_API coppice_status_t coppice_memory_free(coppice_group_t* group, void* memory);

#ifdef __cplusplus
}
#endif

#endif /* COPPICE_BROADCAST_H */
