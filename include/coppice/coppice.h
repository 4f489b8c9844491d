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
    COPPICE_ERR_PEER_FAILED = -7,  /* broadcast: nothing stands in for a dead rank (corrections none, ack);
                                    * agreement: the value is agreed, but a failure was not acknowledged by all */
    COPPICE_ERR_FENCED = -8,       /* this rank was taken for dead by the others */
    COPPICE_ERR_REVOKED = -9,      /* a rank has revoked the group (coppice_group_revoke) */
    COPPICE_ERR_MISMATCH = -10,    /* ranks disagree: version, word size, settings, root or operation */
    COPPICE_ERR_NO_MEMORY = -11,
    COPPICE_ERR_NO_RESOURCES = -12, /* descriptors, devices, limits: the message says which */
    COPPICE_ERR_NO_TRANSPORT = -13, /* no allowed transport reaches a peer */
    COPPICE_ERR_BOOTSTRAP = -14,    /* the exchange of addresses failed or a rank did not show up */
    COPPICE_ERR_BUSY = -15,         /* the object is in use, or the window is full */
    COPPICE_ERR_CONFIG = -16,       /* a setting of the environment or the options does not parse */
    COPPICE_ERR_INTERNAL = -17,
    COPPICE_ERR_FORKED = -18,   /* this process was forked from one that has a context */
    COPPICE_ERR_NO_QUORUM = -19 /* too few ranks can be reached to go on without the others (COPPICE_QUORUM) */
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
    size_t struct_size; /* sizeof(coppice_context_options_t) */
    coppice_thread_mode_t thread_mode;

    /* The thread that makes progress while no call of the application does. Also COPPICE_PROGRESS_THREAD=auto, 1, 0.
     *  0: one thread a process, however many contexts and groups. It takes over a context that no thread has
     *     entered for 1 to 4 ms. It blocks all signals and calls no function of the application: failure callbacks wait for
     *     the next call, and so does the part of an agreement that needs a combine function.
     *  1: the same thread, and it calls these functions, too; implies COPPICE_THREAD_MULTIPLE.
     * -1: none, for runtimes that poll by themselves. Until its groups are destroyed, each process must then call
     *     coppice_progress as often as the others can wait, within any bound of silence (COPPICE_DETECTION_BOUND),
     *     also while it waits elsewhere. coppice_group_create then makes progress in no other group. */
    int progress_thread;

    /* "shm,tcp": which may be used, per peer the first that reaches it. Also COPPICE_TRANSPORT. */
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

/* Makes all progress that can be made now, in all groups; never blocks. Blocking calls, test and wait do the same.
 * Needed only with coppice_context_options_t.progress_thread -1. */
COPPICE_API coppice_status_t coppice_progress(coppice_context_t* context);

/* ---------------------------------------------------------------------------------------------- group --- */

typedef struct coppice_group coppice_group_t;

/* The user's own exchange, an allgather. It
 *  - takes `bytes` bytes, `mine`, from each rank, and writes size·bytes to `all`, in rank order;
 *  - returns 0, or anything else when the exchange failed;
 *  - fills the place of a rank that it knows to have died with zeros, the same at all ranks, from any call on: the group
 *    is then formed with that rank as a failed member.
 * It is called from within coppice_group_create only, by its thread, several times. */
typedef int (*coppice_exchange_fn)(void* argument, const void* mine, size_t bytes, void* all);

/* A rank has failed. The function may call coppice_group_failed and nothing else of the library: other calls from within it, of
 * any group, do nothing and return COPPICE_ERR_BUSY.
 * It is called once per failed rank, at every survivor, in no particular order, from within a library call of the application
 * on this context, or by the progress thread where that was asked for (coppice_context_options_t.progress_thread 1).
 * A rank that left before it knew of any death can't be told from a dead one by a rank that connects to it only then, and counts as
 * failed there; over UCX and verbs so does one that knew. */
typedef void (*coppice_failure_fn)(void* argument, coppice_group_t* group, uint32_t rank);

typedef struct coppice_group_options {
    size_t struct_size; /* sizeof(coppice_group_options_t) */

    /* How ranks find each other. With `exchange`, rank and size are the caller's to give. Without, the launcher that has
     * started this process brings them together: coppice-run, or one that speaks PMIx or PMI (also COPPICE_BOOTSTRAP;
     * docs/launchers.md); there rank and size are ignored. */
    coppice_exchange_fn exchange;
    void* exchange_argument;
    uint32_t rank;
    uint32_t size;

    /* "auto" (default: "star" up to 16 positions, then "binomial"), "kary:K", "lame:K", "optimal", "chain". Also
     * COPPICE_TREE. */
    const char* tree;

    /* "optimized:2" (default), "opportunistic:D", "checked", "delayed:NS", "failure-proof:F", "none", "ack". Also
     * COPPICE_CORRECTION; docs/corrections.md has what each one promises. opportunistic:D and optimized:D:
     * When hosts have died unnoticed before a broadcast whose root lives, a live host gets it without waiting
     * exactly if a chain of live hosts leads to it from the root, each a child of the one before it in the tree
     * or one of its D nearest neighbours on either side of the ring that are not known to be dead; a host that is
     * left out gets it as soon as the deaths that cut it off are noticed. */
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

    /* "tree" (default): a tree and a correction. To compare: "ocg", "ccg", "fcg:F", gossip with a correction of its own; "bfb",
     * a tree that is started anew around the dead. Also COPPICE_ALGORITHM; docs/corrections.md has what each promises. */
    const char* algorithm;

    /* "auto" (default): ranks of one host publish their contributions; between hosts a binary tree, within each a star or, where there are
     * more than 16 ranks, a binary tree. To compare: "binary", "heap", "binomial", "kary:K", "star", "chain", or two of them,
     * "X/Y", across hosts and within each; contributions then travel along it. Also COPPICE_AGREEMENT_TREE. */
    const char* agreement_tree;

    /* The switches above this rank's host, from the outermost to its leaf switch: "pod1/leaf3"; the same at all ranks of a host. Default: what
     * the launcher, COPPICE_TOPOLOGY or Slurm say; where any rank knows nothing, hosts stand in the order of their ranks. Also
     * COPPICE_SWITCHES; docs/topology.md. */
    const char* switches;
} coppice_group_options_t;
/* Every field is spelled out, so that -Wmissing-field-initializers is content in C and C++ alike. */
#define COPPICE_GROUP_OPTIONS_INIT \
    { sizeof(coppice_group_options_t), NULL, NULL, 0, 0, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL }

/* Makes a group. The caller
 *  - calls it at all ranks of the new group, at most 1048576 (COPPICE_ERR_OUT_OF_RANGE);
 *  - gives the same trees, correction, hierarchy and window everywhere (COPPICE_ERR_MISMATCH names the rank that differs);
 *  - may pass NULL for `options` under coppice-run;
 *  - destroys the group, before the context.
 * A rank that died before is a failed member from the start where the launcher knows of its death. A rank that never shows up
 * ends the call at the deadline with COPPICE_ERR_BOOTSTRAP, which names it. Everything that the group will ever need is
 * allocated here.
 * In a process that coppice-run has started late, the first call without an exchange of the caller's own joins the others' group: it
 * returns when a renewal has taken this process in (coppice_group_view then has an epoch above 0, and the eldest rank), however late
 * that is, unless `timeout_ns` is given: then COPPICE_ERR_TIMEOUT. COPPICE_ERR_BOOTSTRAP, with the reason, when no member is left, or
 * this process can't be taken in, or has joined before; COPPICE_ERR_MISMATCH when its settings or version are not the group's. */
COPPICE_API coppice_status_t coppice_group_create(coppice_context_t* context, const coppice_group_options_t* options,
                                                  coppice_group_t** group);

/* Leaves the group and frees it; it is gone whatever is returned. The caller
 *  - calls it at all ranks, once;
 *  - frees its requests and views before (COPPICE_ERR_BUSY ends those that are open);
 *  - gives the others time: with timeout_ns 0 it leaves immediately, and they may then see this rank as failed.
 * Ends when every live rank has everything of this group, because it may still need this one's copy; or with COPPICE_ERR_TIMEOUT
 * at `timeout_ns` from now, naming the rank it waits for. COPPICE_ERR_MISMATCH when several ranks of this host were root of
 * one broadcast (coppice_broadcast). A later call on the group says that it has been destroyed (COPPICE_ERR_INVALID_ARGUMENT), as
 * long as no more than 256 others have been since: it is a mistake all the same. */
COPPICE_API coppice_status_t coppice_group_destroy(coppice_group_t* group, uint64_t timeout_ns);

typedef struct coppice_group_info {
    size_t struct_size; /* in: sizeof(coppice_group_info_t) */
    uint32_t rank;
    uint32_t size;
    uint32_t hosts;       /* positions of the tree and the ring: hosts, or ranks with hierarchy "flat" */
    uint32_t window;      /* W */
    size_t max_payload;   /* bytes that one broadcast may carry: 1 TiB in this version. Give room for what you send */
    uint32_t connections; /* opened by this rank so far */
    uint32_t epoch;       /* of its membership: 0, and one more with every coppice_group_renew or shrink since */
    uint64_t garbage;     /* messages dropped because they made no sense */
    uint64_t refused;     /* messages dropped: their sender had failed, or their group or epoch was over */
    /* What carries messages to the other ranks, for people: "shm within hosts, verbs (rxe0) between them"; "none" where there
     * are no others. Cut off where it is longer. */
    char transports[96];
    uint32_t leaves; /* leaf switches by which broadcasts go; 0 where hosts stand in the order of their ranks */
} coppice_group_info_t;

COPPICE_API coppice_status_t coppice_group_query(const coppice_group_t* group, coppice_group_info_t* info);

/* What this rank has done for the group so far, for measurements and tests. Those from `doorbells` to
 * `registrations` are counted where the library drives the network device itself (verbs), and are 0 elsewhere. */
typedef struct coppice_group_counts {
    size_t struct_size;     /* in: sizeof(coppice_group_counts_t) */
    uint64_t sends;         /* messages of the tree, and between ranks about the group */
    uint64_t writes;        /* messages of the correction, one-sided where the network has that */
    uint64_t received;      /* messages */
    uint64_t doorbells;     /* calls that handed work requests to the device */
    uint64_t work_requests; /* handed over with them */
    uint64_t signalled;     /* of those, with a completion to be told of */
    uint64_t probes;     /* reads of a peer's memory, to see that it lives or has room; not among the work requests */
    uint64_t busy_polls; /* polls that found something */
    uint64_t copies;     /* payloads copied because they were not in memory that the device knows */
    uint64_t registrations; /* memory registered with the device */
    /* Of all groups of the context: */
    uint64_t takeovers;     /* times that the progress thread found no caller and took over */
    uint64_t thread_rounds; /* of progress that it made then */
    uint64_t thread_events; /* things that happened in these rounds */
    /* Of the group's payloads that go in chunks: */
    uint64_t chunks;         /* taken from others */
    uint64_t chunks_sent;    /* to others */
    uint64_t chunks_again;   /* that came in vain: they were here, or had been asked of another rank meanwhile */
    uint64_t chunks_damaged; /* whose check failed; they were asked of another rank */
} coppice_group_counts_t;

COPPICE_API coppice_status_t coppice_group_count(const coppice_group_t* group, coppice_group_counts_t* counts);

/* The ranks that this rank knows to have failed, ascending. Writes at most `capacity` of them into `ranks`
 * (may be NULL when capacity is 0) and the number of all into `count`. Survivors learn of a death at
 * different times. Makes progress first, so a rank that only asks learns of deaths, too; not when the failure callback asks. */
COPPICE_API coppice_status_t coppice_group_failed(const coppice_group_t* group, uint32_t* ranks, size_t capacity,
                                                  size_t* count);

/* ------------------------------------------------------------------------------------------ broadcast --- */

#define COPPICE_NO_TIMEOUT UINT64_MAX

/* Broadcast of a payload from `root` to all. The caller
 *  - calls it at all ranks, with the same root; the n-th broadcast of one rank is the n-th of all;
 *  - at the root: gives the payload, `bytes` from 0 (buffer may be NULL) to coppice_group_info_t.max_payload. The buffer may be
 *    used again as soon as the call returns, and is not changed;
 *  - elsewhere: gives `bytes` of room in `buffer`. The payload's size goes to *received (which may be NULL). A payload that is
 *    larger than the room is COPPICE_ERR_TRUNCATED: the broadcast counts as done, the buffer is untouched.
 * Above COPPICE_EAGER (8192) bytes the payload goes in chunks (docs/payloads.md): a receiver's buffer is written when all are here,
 * never in part.
 * COPPICE_OK: the payload is here, and this rank has done its part for the others, which means that a transport has accepted
 * its messages. The rest (connections that are being made, full queues, messages over tcp that leave with the next broadcast's, a
 * rank that needs the payload again after a death) is left to the progress thread; without one, to later calls, coppice_progress
 * among them. The promise of the group's correction says which ranks get the payload.
 * COPPICE_ERR_TIMEOUT, `timeout_ns` from now (COPPICE_NO_TIMEOUT: never), names the ranks waited for. The broadcast is given
 * up at this rank: it counts as done here, its buffer is not touched any more, the others are still served.
 * COPPICE_ERR_BUSY: the window was full until then; names the rank that holds it up. Nothing was started: make the same call again.
 * COPPICE_ERR_ROOT_FAILED: the root has died, and no rank can have (all of) the payload any more. COPPICE_ERR_NO_MEMORY: for its chunks.
 * COPPICE_ERR_MISMATCH: others name another root. On a host several ranks that name themselves root may all return COPPICE_OK,
 * and so may others, with the payload of one of them. The group is then revoked as soon as that is seen, and every rank of
 * the host is told with COPPICE_ERR_MISMATCH, naming two of the roots and the broadcast: the last of these roots by one of its
 * next 32 calls of a broadcast or agreement, or by a coppice_group_destroy that waits; the others by the same, or sooner
 * where they wait for a rank that has been told. Ranks of other hosts are told COPPICE_ERR_MISMATCH of the broadcast or
 * COPPICE_ERR_REVOKED.
 *
 * Source: PPoPP'19 §3; what holds when ranks die in mid-operation: docs/corrections.md. */
COPPICE_API coppice_status_t coppice_broadcast(coppice_group_t* group, void* buffer, size_t bytes, uint32_t root,
                                               size_t* received, uint64_t timeout_ns);

typedef struct coppice_request coppice_request_t;

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
 *  - gives `payload` at the root; it is ignored elsewhere;
 *  - asks coppice_request_view for the view once the request has ended with COPPICE_OK, at the root too;
 *  - frees the request soon, which ends the view: one that is held for W further broadcasts holds them up. */
COPPICE_API coppice_status_t coppice_broadcast_view_nb(coppice_group_t* group, const void* payload, size_t bytes,
                                                       uint32_t root, coppice_request_t** request);

/* COPPICE_IN_PROGRESS, or how the operation ended (and *received its size, may be NULL). Makes progress. */
COPPICE_API coppice_status_t coppice_request_test(coppice_request_t* request, size_t* received);
/* Waits until it has ended. COPPICE_ERR_TIMEOUT leaves it under way: wait again, or free it. */
COPPICE_API coppice_status_t coppice_request_wait(coppice_request_t* request, size_t* received, uint64_t timeout_ns);
/* The payload of a view request that ended with COPPICE_OK. COPPICE_ERR_FENCED when the others take this rank for dead. They wait
 * for its views no longer, and the memory may be in use for later broadcasts. That happens to a rank that was silent for longer than
 * COPPICE_DETECTION_BOUND, where one is set, and to one that the network has cut off. A program that must exclude it asks again
 * after it has read: COPPICE_OK proves what it has read. */
COPPICE_API coppice_status_t coppice_request_view(const coppice_request_t* request, const void** payload,
                                                  size_t* bytes);
/* Releases the request and its view. One that is still under way is given up as by a timeout. NULL is allowed. To free a request
 * twice is a mistake, and every call says so (COPPICE_ERR_INVALID_ARGUMENT) as long as its group is there and no more than
 * 63 others have been in its place. */
COPPICE_API coppice_status_t coppice_request_free(coppice_request_t* request);

/* ---------------------------------------------------------------------------------- registered memory --- */

/* Memory from which a root's payload leaves without being staged first. The caller
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

/* ------------------------------------------------------------------------------------------ agreement --- */

/* The longest value of an agreement, in bytes. */
#define COPPICE_MAX_AGREED 256

/* How the values of all ranks become one. Every operation here gives the same result in whatever order, and however
 * often, a value is put in, because after a death a contribution may be counted twice. */
typedef enum coppice_operation {
    COPPICE_AND = 0, /* bit by bit; any number of bytes */
    COPPICE_OR = 1,
    COPPICE_MIN = 2, /* of each element of an array of `type` */
    COPPICE_MAX = 3,
    COPPICE_COMBINE = 4 /* the caller's own function */
} coppice_operation_t;

typedef enum coppice_type {
    COPPICE_UINT8 = 0,
    COPPICE_UINT16 = 1,
    COPPICE_UINT32 = 2,
    COPPICE_UINT64 = 3,
    COPPICE_INT8 = 4,
    COPPICE_INT16 = 5,
    COPPICE_INT32 = 6,
    COPPICE_INT64 = 7
} coppice_type_t;

/* into = into o from; both are `bytes` long and aligned to 8. The function must be
 *  - idempotent (x o x = x): otherwise the value depends on who died when, though it is still the same at all survivors;
 *  - commutative and associative: otherwise different ranks' values may be combined in different orders;
 *  - the same at every rank. None of these can be checked.
 * It may call nothing of the library. It is called from within any call of the library until the agreement has ended, and by
 * the progress thread only where that was asked for. While a rank that has started such an agreement is outside of the
 * library, others whose values it has to combine wait until its next call. */
typedef void (*coppice_combine_fn)(void* argument, void* into, const void* from, size_t bytes);

typedef struct coppice_agree_options {
    size_t struct_size; /* sizeof(coppice_agree_options_t) */
    coppice_operation_t operation;
    coppice_type_t type;        /* COPPICE_MIN and COPPICE_MAX only */
    coppice_combine_fn combine; /* COPPICE_COMBINE only */
    void* combine_argument;
} coppice_agree_options_t;
#define COPPICE_AGREE_OPTIONS_INIT \
    { sizeof(coppice_agree_options_t), COPPICE_AND, COPPICE_UINT32, NULL, NULL }

/* Agreement: one value and one set of failed ranks, the same at every rank that lives to see them, whichever ranks die, and
 * whenever. The caller
 *  - calls it at all ranks, with the same operation, type and bytes; the n-th agreement of one rank is the n-th of all;
 *  - gives its contribution in `value`, 0 … COPPICE_MAX_AGREED bytes, which takes the result;
 *  - may pass NULL for `options`: COPPICE_AND.
 *
 * COPPICE_OK, or COPPICE_ERR_PEER_FAILED when ranks have failed and not every rank that contributed had acknowledged all these
 * failures before (coppice_group_ack_failed): the same of the two at every survivor, and the value is agreed in both
 * cases. It combines the contributions of all ranks but (some of) those in the agreed set of failed ranks, which
 * coppice_group_agreed has.
 * COPPICE_ERR_MISMATCH, at every rank, when they differ in operation, type or bytes; `value` is untouched then.
 * COPPICE_ERR_TIMEOUT after `timeout_ns`, naming ranks waited for: the contribution has been made and counts; the agreement goes
 * on without this caller.
 * COPPICE_ERR_BUSY when no more agreements could be under way until then: this one was not started, make the same call again.
 * COPPICE_ERR_FENCED when the others take this rank for dead.
 *
 * A rank that is merely slow, or stopped, is waited for, unless COPPICE_DETECTION_BOUND says for how long. Ranks that have
 * returned answer the others' late questions by the progress thread, or in later calls.
 * Source: SC'15 (ERA), and docs/architecture.md for what is done where ranks share a host. */
COPPICE_API coppice_status_t coppice_agree(coppice_group_t* group, void* value, size_t bytes,
                                           const coppice_agree_options_t* options, uint64_t timeout_ns);

/* The same without waiting; `value` belongs to the library until the request has ended. As many agreements may be
 * under way at a rank as COPPICE_AGREEMENT_WINDOW says (8, at most 16); the next one returns COPPICE_ERR_BUSY. Broadcasts and
 * agreements may be mixed freely. The request is used as those of broadcasts (test, wait, free). */
COPPICE_API coppice_status_t coppice_agree_nb(coppice_group_t* group, void* value, size_t bytes,
                                              const coppice_agree_options_t* options, coppice_request_t** request);

/* Barrier: no rank is through before every live rank has entered. It is an agreement on nothing, and counts as one. The caller
 *  - calls it at all ranks; the n-th agreement or barrier of one rank is the n-th of all.
 *
 * Returns as coppice_agree() does: COPPICE_OK, or COPPICE_ERR_PEER_FAILED when ranks have failed and not every rank that entered
 * had acknowledged all these failures before; the same at every survivor, and all are through in both cases.
 * coppice_group_agreed has the ranks that have failed.
 * COPPICE_ERR_MISMATCH where other ranks agree on a value instead.
 * COPPICE_ERR_TIMEOUT after `timeout_ns`, naming ranks waited for: this rank has entered, and the others do not wait for it. */
COPPICE_API coppice_status_t coppice_barrier(coppice_group_t* group, uint64_t timeout_ns);

/* The same without waiting: the request ends when this rank is through. It takes the place of an agreement under way. */
COPPICE_API coppice_status_t coppice_barrier_nb(coppice_group_t* group, coppice_request_t** request);

/* The failed ranks that the last agreement whose end this rank was told (by coppice_agree, coppice_request_test or
 * coppice_request_wait) agreed upon, ascending: at most `capacity` of them into `ranks` (may be NULL when capacity is
 * 0), the number of all into `count`. None before the first agreement. */
COPPICE_API coppice_status_t coppice_group_agreed(const coppice_group_t* group, uint32_t* ranks, size_t capacity,
                                                  size_t* count);
/* The same of one request that has ended (COPPICE_ERR_INVALID_ARGUMENT before, and for a broadcast's). */
COPPICE_API coppice_status_t coppice_request_agreed(const coppice_request_t* request, uint32_t* ranks, size_t capacity,
                                                    size_t* count);

/* This rank has taken note of the failures of `count` ranks: agreements that it starts from now on do not end with
 * COPPICE_ERR_PEER_FAILED for them, once all others have done the same. Local. With `ranks` NULL: of all failures that
 * this rank knows of by now. COPPICE_ERR_INVALID_ARGUMENT, and nothing is acknowledged, for a rank that has not
 * failed as far as this rank knows. */
COPPICE_API coppice_status_t coppice_group_ack_failed(coppice_group_t* group, const uint32_t* ranks, size_t count);

/* ---------------------------------------------------------------------------------- revoking, shrinking --- */

/* Ends the group's work: every broadcast and agreement of it that is pending, and every later one, ends with COPPICE_ERR_REVOKED,
 * at every member, sooner or later. For a rank that has seen that the group cannot go on while others wait for it in other
 * calls. The caller
 *  - may be any member, at any time, also several at once, also again (which does nothing); COPPICE_OK each time;
 *  - then shrinks the group, or destroys it. An agreement that is revoked here may have ended well at another rank: a rank that
 *    has to know agrees in the shrunk group;
 *  - leaves a root's registered memory as after a timeout (coppice_memory_register).
 *
 * Local: it returns immediately. It reaches every live member while the ranks that know of it stay in the group, whichever ranks
 * die, the caller included once one other rank has heard of it; on one host it has reached all when the call returns. A rank
 * learns of it in any call of the library; its progress thread passes it on.
 *
 * A revoked group can be asked (query, failed, agreed), shrunk, and destroyed, which waits for nobody's calls; only for
 * answers that the news has arrived where this rank had to bring it, for half a second at most. Views that have been delivered
 * stay good until they are freed, unless this rank is taken for dead (coppice_request_view).
 * Source: ULFM's MPI_Comm_revoke; unlike there, an agreement on a revoked group is refused, too. */
COPPICE_API coppice_status_t coppice_group_revoke(coppice_group_t* group);

/* Makes a group of the survivors, in *shrunk: all ranks but those that all agree to have failed, numbered 0 … in their old
 * order, with the old group's settings. It is good for everything that a group is good for, shrinking again included. The caller
 *  - calls it at all live ranks of `group`, which may have been revoked, and usually has been; the n-th shrink of one rank is
 *    the n-th of all. Broadcasts and agreements may be under way, and are not touched;
 *  - destroys both groups, in any order. The old one's memory is used again for groups that are shrunk after its end;
 *  - registers memory with the new group where it needs that: what was registered with the old one is not;
 *  - after COPPICE_ERR_TIMEOUT calls it again, which goes on with the same shrink, or destroys `group`: the others count on this
 *    rank by now, and it is then one that has failed in the new group.
 *
 * coppice_group_agreed(group) has the ranks that were agreed upon; they have failed, or have left. No rank that contributes is
 * left out, and no rank that was known to be dead is in. A rank that dies while others are done already is in the new group,
 * as a member that has failed. Where nobody has failed the new group has all ranks: a duplicate.
 *
 * The new group has the old one's transports and connections; no launcher and no exchange is asked. Its failure callback is
 * the old one's, with the same argument, called with the new group and its ranks.
 *
 * COPPICE_OK; *shrunk is NULL otherwise.
 * COPPICE_ERR_TIMEOUT after `timeout_ns`, naming ranks waited for.
 * COPPICE_ERR_BUSY while a request shrinks this group.
 * COPPICE_ERR_NO_RESOURCES, at all ranks alike, when 8 groups that come from one share memory on a host, or there is no more
 * memory for that: destroy groups that are not used any more at all ranks.
 * COPPICE_ERR_CONFIG, alike, where the group's algorithm can't be with so few ranks.
 * COPPICE_ERR_NO_QUORUM, naming the ranks that can't be reached, where too few are left for what COPPICE_QUORUM asks for (never by
 * default). It stays under way, and another call says whether more has become known. Other operations of `group` go on
 * among the ranks that can be reached.
 * COPPICE_ERR_FENCED when the others take this rank for dead.
 *
 * Source: ULFM's MPI_Comm_shrink; SC'15 (ERA). */
COPPICE_API coppice_status_t coppice_group_shrink(coppice_group_t* group, coppice_group_t** shrunk,
                                                  uint64_t timeout_ns);

/* The same without waiting. *shrunk belongs to the library until coppice_request_test or coppice_request_wait has said how the
 * request ended. A request that is freed before goes on as after a timeout. */
COPPICE_API coppice_status_t coppice_group_shrink_nb(coppice_group_t* group, coppice_group_t** shrunk,
                                                     coppice_request_t** request);

/* ----------------------------------------------------------------------------------------- membership --- */

/* A group never changes: it is one view of its members. A renewal makes the next one, without the ranks that have failed or
 * want to leave, and with the processes that wait to join. Under coppice-run with --respawn, --spares or --join processes are started late:
 * their first coppice_group_create joins the group that the ranks have made first, or that was made of it by renewals; on one host, so far. */

typedef enum coppice_numbering {
    COPPICE_NUMBERS_OF_THE_GONE = 0, /* newcomers take the numbers of those that are gone, in their order */
    COPPICE_NUMBERS_LAST = 1         /* newcomers come last */
} coppice_numbering_t;

typedef struct coppice_renew_options {
    size_t struct_size; /* sizeof(coppice_renew_options_t) */
    uint32_t least;     /* waits until so many members are there (default 0: for nobody) */
    uint32_t most;      /* newcomers are taken in up to so many members (default: as many as wait) */
    coppice_numbering_t numbering;
} coppice_renew_options_t;
#define COPPICE_RENEW_OPTIONS_INIT \
    { sizeof(coppice_renew_options_t), 0, 0, COPPICE_NUMBERS_OF_THE_GONE }

/* Makes the next group, in *next: coppice_group_shrink, which is a renewal that admits nobody, with more to choose. The caller
 *  - does what coppice_group_shrink asks for; calls of the two count as one operation;
 *  - gives the same options at all ranks (the lowest one that lives decides); NULL: the defaults.
 * Newcomers are taken in that all members can reach when the lowest of them decides: the next group has them as members, also where
 * one dies meanwhile. A process that was started again gets the rank of the one before it, where that was a member of this group.
 * Broadcasts in a group that newcomers have joined do not go by the network's switches.
 * A rank that has called coppice_group_leave gets COPPICE_OK and no group: *next is NULL. coppice_group_agreed(group) then has the
 * ranks that are not in the next group, those that have left among them.
 * COPPICE_ERR_TIMEOUT also when fewer than `least` members are there by then: another call may ask for other numbers.
 * Otherwise as coppice_group_shrink.
 * Source: Varma et al., ICS'06; docs/membership.md. */
COPPICE_API coppice_status_t coppice_group_renew(coppice_group_t* group, const coppice_renew_options_t* options,
                                                 coppice_group_t** next, uint64_t timeout_ns);
/* The same without waiting, as coppice_group_shrink_nb. */
COPPICE_API coppice_status_t coppice_group_renew_nb(coppice_group_t* group, const coppice_renew_options_t* options,
                                                    coppice_group_t** next, coppice_request_t** request);

/* This rank will not be in the next group. Local: it tells the others with its next agreement (coppice_group_pending) and with the
 * renewal. Until then it is a member as before. The caller
 *  - takes part in the next renewal or shrink, which returns COPPICE_OK and no group;
 *  - then destroys this group, as everybody does. The others do not count it as failed (but some may, in this group, where it has
 *    been revoked or nothing was ever agreed on).
 * COPPICE_ERR_BUSY when this rank has called the next renewal already. Again: does nothing. */
COPPICE_API coppice_status_t coppice_group_leave(coppice_group_t* group);

/* Into *pending: 1 when, in the last agreement or barrier whose end this rank was told, some rank contributed that knew of a rank
 * that wants to leave, or of a process that waits to join and can (unless the last renewal asked for no more members than there are); else 0. The same at all ranks that were told of that end. So programs that ask after an agreement renew
 * together, or not at all. It costs no message. */
COPPICE_API coppice_status_t coppice_group_pending(const coppice_group_t* group, int* pending);

#define COPPICE_NOBODY UINT32_MAX

typedef struct coppice_member {
    uint32_t seat;        /* its rank in the first group, else the launcher's number; stays as it is */
    uint32_t incarnation; /* how often the seat was taken before */
    uint32_t before;      /* its rank in the group of which this one was made; COPPICE_NOBODY: it was not in it */
    uint32_t since;       /* the epoch of its first group */
} coppice_member_t;

typedef struct coppice_view {
    size_t struct_size; /* in: sizeof(coppice_view_t) */
    uint32_t epoch;     /* as coppice_group_info_t.epoch */
    uint32_t size;
    uint32_t newcomers; /* members that were not in the group before; all, in one that was not made of another */
    uint32_t eldest;    /* the lowest rank of those that have been in for longest: has the state that newcomers need */
} coppice_view_t;

/* Which ranks are in the group, and where they come from: *view, and the first `capacity` members into `members` (may be NULL when
 * capacity is 0), by rank. The same at all ranks. Local. */
COPPICE_API coppice_status_t coppice_group_view(const coppice_group_t* group, coppice_view_t* view,
                                                coppice_member_t* members, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif /* COPPICE_H */
