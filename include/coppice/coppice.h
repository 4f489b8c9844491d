/*
 * Coppice: group communication that goes on when processes die.
 *
 * The C interface, and the stable one: what is declared here keeps its meaning for all of libcoppice.so.0.
 * C++ programs may prefer coppice.hpp, which is a thin RAII layer over it.
 *
 * Conventions
 *  - Every call returns a coppice_status_t; coppice_last_error() has the sentence to it: which rank, which
 *    transport, what to do. No call ends the process, and no C++ exception leaves the library.
 *  - Sizes are in bytes, times in nanoseconds, ranks are 0 … size−1 in their group.
 *  - Options structs begin with their own size. Zero-initialise them with their _INIT macro; a field left 0
 *    (or NULL) takes the value of its environment variable, else the default. Fields are only ever added at
 *    the end.
 *  - Threads: with COPPICE_THREAD_SINGLE one thread at a time may be inside the library for a context. With
 *    COPPICE_THREAD_MULTIPLE any thread may call anything at any time, except that an object must not be
 *    destroyed while another thread uses it. coppice_last_error() is per thread.
 *  - Every operation on a group is collective: all its ranks call the same operations in the same order.
 */
#ifndef COPPICE_H
#define COPPICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COPPICE_API __attribute__((visibility("default")))

typedef enum coppice_status {
    COPPICE_OK = 0,
    COPPICE_IN_PROGRESS = 1, /* not an error: a non-blocking operation has not ended yet */

    COPPICE_ERR_INVALID_ARGUMENT = -1,
    COPPICE_ERR_OUT_OF_RANGE = -2, /* a rank, root, position or size */
    COPPICE_ERR_TOO_LARGE = -3,    /* a payload above coppice_group_info_t.max_payload */
    COPPICE_ERR_TRUNCATED = -4,    /* the payload is larger than the buffer, which is untouched */
    COPPICE_ERR_TIMEOUT = -5,      /* the deadline passed; still under way unless said otherwise */
    COPPICE_ERR_ROOT_FAILED = -6,  /* the root died and no survivor has the payload */
    COPPICE_ERR_PEER_FAILED = -7,  /* nothing stands in for a dead rank (corrections none, ack) */
    COPPICE_ERR_FENCED = -8,       /* this rank was taken for dead by the others */
    COPPICE_ERR_REVOKED = -9,      /* reserved for revoked groups */
    COPPICE_ERR_MISMATCH = -10,    /* ranks disagree: version, word size, settings or root */
    COPPICE_ERR_NO_MEMORY = -11,
    COPPICE_ERR_NO_RESOURCES = -12, /* descriptors, devices, limits: the message says which */
    COPPICE_ERR_NO_TRANSPORT = -13, /* no allowed transport reaches a peer */
    COPPICE_ERR_BOOTSTRAP = -14,    /* the exchange of addresses failed or somebody did not show up */
    COPPICE_ERR_BUSY = -15,         /* the object is in use, or the window is full */
    COPPICE_ERR_CONFIG = -16,       /* a setting of the environment or the options does not parse */
    COPPICE_ERR_INTERNAL = -17
} coppice_status_t;

/* A static English sentence for a status; never NULL, also for numbers that are none. Any thread. */
COPPICE_API const char* coppice_status_string(coppice_status_t status);

/* What went wrong in this thread's last call that failed; "" before that. Valid until the thread's next
 * failing call. */
COPPICE_API const char* coppice_last_error(void);

/* The version of the library that is linked at run time, as "major.minor.patch". */
COPPICE_API const char* coppice_version(void);

/* -------------------------------------------------------------------------------------------- context --- */

typedef struct coppice_context coppice_context_t;

typedef enum coppice_thread_mode { COPPICE_THREAD_SINGLE = 0, COPPICE_THREAD_MULTIPLE = 1 } coppice_thread_mode_t;

typedef struct coppice_context_options {
    size_t size; /* sizeof(coppice_context_options_t) */
    coppice_thread_mode_t thread_mode;

    /* Non-zero: a thread of the library moves things while the application computes; implies
     * COPPICE_THREAD_MULTIPLE. Also COPPICE_PROGRESS_THREAD=1. */
    int progress_thread;

    /* "shm,ucx": which may be used, per peer the first that reaches it. Also COPPICE_TRANSPORT. */
    const char* transports;
} coppice_context_options_t;
#define COPPICE_CONTEXT_OPTIONS_INIT \
    { sizeof(coppice_context_options_t), COPPICE_THREAD_SINGLE, 0, NULL }

/* Reads the settings (environment, then options; options win) and refuses those that do not parse with
 * COPPICE_ERR_CONFIG. `options` may be NULL. Allocates; opens no connection. */
COPPICE_API coppice_status_t coppice_context_create(const coppice_context_options_t* options,
                                                    coppice_context_t** context);

/* COPPICE_ERR_BUSY while a group of it exists. NULL is allowed. */
COPPICE_API coppice_status_t coppice_context_destroy(coppice_context_t* context);

/* Moves everything of all groups that can be moved now; never blocks. Any blocking call, test and wait do
 * it as well. */
COPPICE_API coppice_status_t coppice_progress(coppice_context_t* context);

/* ---------------------------------------------------------------------------------------------- group --- */

typedef struct coppice_group coppice_group_t;

/* The user's own exchange: an allgather of `bytes` bytes a rank, `mine` in, size·bytes `all` out in rank
 * order. Called from within coppice_group_create only, by its thread. Returns 0, or anything else when the
 * exchange failed. An exchange that knows that a rank has died fills that rank's place with zeros, the same at all
 * ranks: the group is then formed with that rank as a failed member. */
typedef int (*coppice_exchange_fn)(void* argument, const void* mine, size_t bytes, void* all);

/* A rank has failed. Called once per failed rank from within any library call (or the progress thread), at
 * every survivor, in no particular order. It may call coppice_group_failed and nothing else of the
 * library. */
typedef void (*coppice_failure_fn)(void* argument, coppice_group_t* group, uint32_t rank);

typedef struct coppice_group_options {
    size_t struct_size; /* sizeof(coppice_group_options_t) */

    /* How ranks find each other. With `exchange`, rank and size are the caller's to give. Without, the
     * launcher's environment is used (coppice-run sets it); there rank and size are ignored. */
    coppice_exchange_fn exchange;
    void* exchange_argument;
    uint32_t rank;
    uint32_t size;

    /* "auto" (default: "star" up to 16 positions, then "binomial"), "kary:K", "lame:K", "optimal", "chain". Also
     * COPPICE_TREE. */
    const char* tree;

    /* "opportunistic:1" (default), "checked", "optimized:D", "none", "ack". Also COPPICE_CORRECTION;
     * docs/corrections.md has what each one promises. */
    const char* correction;

    /* "host" (default): tree and ring run between hosts, inside a host ranks publish; "flat": every rank is a
     * position of its own. Also COPPICE_HIERARCHY. */
    const char* hierarchy;

    /* W, how many broadcasts may be under way; a power of two, 2 … 1024 (default 32). Also COPPICE_WINDOW. */
    uint32_t window;

    /* How long creation may take (default 60 s). Also COPPICE_START_TIMEOUT. */
    uint64_t timeout_ns;

    coppice_failure_fn on_failure;
    void* on_failure_argument;
} coppice_group_options_t;
/* Every field is spelled out, so that -Wmissing-field-initializers is content in C and C++ alike. */
#define COPPICE_GROUP_OPTIONS_INIT \
    { sizeof(coppice_group_options_t), NULL, NULL, 0, 0, NULL, NULL, NULL, 0, 0, NULL, NULL }

/* Collective over all ranks of the new group. Tree, correction, hierarchy and window must be the same
 * everywhere (COPPICE_ERR_MISMATCH names the rank that differs). A rank that died before is a failed
 * member from the start where the launcher knows of it; one that never shows up ends the call with
 * COPPICE_ERR_BOOTSTRAP at the deadline, naming it. Everything that the group will ever need is allocated
 * here. `options` may be NULL under coppice-run. */
COPPICE_API coppice_status_t coppice_group_create(coppice_context_t* context, const coppice_group_options_t* options,
                                                  coppice_group_t** group);

/* Collective; ends when every live rank has everything of this group (it may still need this one's copy),
 * or with COPPICE_ERR_TIMEOUT at `timeout_ns` from now, naming the rank it waits for; the group is gone
 * either way. timeout_ns 0 leaves at once: the others may then see this rank as failed. Open requests end
 * with COPPICE_ERR_BUSY (free them first); views must have been released. */
COPPICE_API coppice_status_t coppice_group_destroy(coppice_group_t* group, uint64_t timeout_ns);

typedef struct coppice_group_info {
    size_t struct_size; /* in: sizeof(coppice_group_info_t) */
    uint32_t rank;
    uint32_t size;
    uint32_t hosts;       /* positions of the tree and the ring: hosts, or ranks with hierarchy "flat" */
    uint32_t window;      /* W */
    size_t max_payload;   /* bytes per broadcast */
    uint32_t connections; /* opened by this rank so far */
    uint64_t garbage;     /* messages dropped because they made no sense */
    uint64_t refused;     /* messages dropped: their sender had failed, or their group or epoch was over */
} coppice_group_info_t;

COPPICE_API coppice_status_t coppice_group_query(const coppice_group_t* group, coppice_group_info_t* info);

/* The ranks that this rank knows to have failed, ascending. Writes at most `capacity` of them into `ranks`
 * (may be NULL when capacity is 0) and the number of all into `count`. Survivors learn of a death at
 * different times. */
COPPICE_API coppice_status_t coppice_group_failed(const coppice_group_t* group, uint32_t* ranks, size_t capacity,
                                                  size_t* count);

/* ------------------------------------------------------------------------------------------ broadcast --- */

#define COPPICE_NO_TIMEOUT UINT64_MAX

/* Broadcast of `bytes` bytes from `root` to all. Collective; the n-th broadcast of one rank is the n-th of
 * all.
 *
 * At the root: `buffer` is the payload. It may be reused as soon as the call returns.
 * Elsewhere: `bytes` is the room in `buffer`; the payload's own size goes to *received (which may be NULL). A
 * payload larger than the room is COPPICE_ERR_TRUNCATED: the broadcast counts as done, the buffer is
 * untouched. 0 bytes (buffer may be NULL) up to coppice_group_info_t.max_payload.
 *
 * Returns COPPICE_OK when the payload is here and this rank has done its part for the others; the promise of
 * the group's correction says who gets it. COPPICE_ERR_TIMEOUT after `timeout_ns` (COPPICE_NO_TIMEOUT:
 * never), naming the ranks waited for: the broadcast is given up at this rank (it counts as done here, its
 * buffer is not touched any more, the others are still served). COPPICE_ERR_BUSY when the window was still full by then,
 * naming the rank that holds it up: nothing was started, make the same call again. COPPICE_ERR_ROOT_FAILED when
 * nobody can have the payload any more. Source: PPoPP'19 §3; what holds when ranks die in mid-operation:
 * docs/corrections.md. */
COPPICE_API coppice_status_t coppice_broadcast(coppice_group_t* group, void* buffer, size_t bytes, uint32_t root,
                                               size_t* received, uint64_t timeout_ns);

typedef struct coppice_request coppice_request_t;

/* The same without waiting. `buffer` belongs to the library until the request has ended (test or wait
 * returned anything but COPPICE_IN_PROGRESS and COPPICE_ERR_TIMEOUT). Up to W broadcasts may be under way,
 * with different roots; the next one returns COPPICE_ERR_BUSY until the oldest is done everywhere
 * (coppice_progress moves it). */
COPPICE_API coppice_status_t coppice_broadcast_nb(coppice_group_t* group, void* buffer, size_t bytes, uint32_t root,
                                                  coppice_request_t** request);

/* The same, delivering a view of the memory in which the payload landed instead of a copy: no byte is
 * copied at the receivers. coppice_request_view gives it once the request has ended with COPPICE_OK, for
 * the root too. The view is good until coppice_request_free; a view that is held for W further broadcasts
 * holds them up. `payload` is the root's; ignored elsewhere. */
COPPICE_API coppice_status_t coppice_broadcast_view_nb(coppice_group_t* group, const void* payload, size_t bytes,
                                                       uint32_t root, coppice_request_t** request);

/* COPPICE_IN_PROGRESS, or how the operation ended (and *received its size, may be NULL). Makes progress. */
COPPICE_API coppice_status_t coppice_request_test(coppice_request_t* request, size_t* received);
/* Waits until it has ended. COPPICE_ERR_TIMEOUT leaves it under way: wait again, or free it. */
COPPICE_API coppice_status_t coppice_request_wait(coppice_request_t* request, size_t* received, uint64_t timeout_ns);
/* The payload of a view request that ended with COPPICE_OK. */
COPPICE_API coppice_status_t coppice_request_view(const coppice_request_t* request, const void** payload,
                                                  size_t* bytes);
/* Releases the request and its view. One still under way is given up as by a timeout. NULL is allowed. */
COPPICE_API coppice_status_t coppice_request_free(coppice_request_t* request);

/* ---------------------------------------------------------------------------------- registered memory --- */

/* Memory from which a root's payload leaves without being staged first: it is copied, to serve others from later,
 * only after its messages have been handed over. That is so where the root is the only rank of its position; where
 * ranks of a host publish, the copy is the transfer itself. The memory must stay mapped until deregistered. No
 * transport of this version pins it, so registering is cheap; do it once all the same, for one that does.
 * COPPICE_ERR_BUSY when the range overlaps a registered one. After COPPICE_ERR_TIMEOUT at a root the memory may
 * still be on its way out: leave it as it is until deregistering it succeeds (COPPICE_ERR_BUSY until then). */
COPPICE_API coppice_status_t coppice_memory_register(coppice_group_t* group, void* address, size_t bytes);
COPPICE_API coppice_status_t coppice_memory_deregister(coppice_group_t* group, void* address);

#ifdef __cplusplus
}
#endif

#endif /* COPPICE_H */
