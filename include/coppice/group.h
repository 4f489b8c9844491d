/* Groups: the ranks that broadcast and agree together. Programs include <coppice/coppice.h>, of which this is a part.
 * Revoking, shrinking and renewing them: <coppice/membership.h>. */
#ifndef COPPICE_GROUP_H
#define COPPICE_GROUP_H

#include <coppice/context.h>
#include <coppice/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coppice_group coppice_group_t;

/* The user's own exchange, an allgather. It
 *  - takes `bytes` bytes, `mine`, from each rank, and writes size·bytes to `all`, in rank order;
 *  - returns 0, or anything else when the exchange failed;
 *  - fills the place of a rank that it knows to have died with zeros, the same at all ranks, from any call on: the group
 *    is then formed with that rank as a failed member.
 * It is called from within coppice_group_create only, by its thread, several times. */
typedef int (*coppice_exchange_fn)(void* argument, const void* mine, size_t bytes, void* all);

/* The program's own witness of deaths: something that outlives every host of the job, such as its launcher or a key-value store, and that
 * knows for certain when a process has ended. Under COPPICE_QUORUM=certain, the default, a host that is lost as a whole then costs no quorum, as under
 * coppice-run, which is a witness by itself. Without one of either kind, ranks that lose half of the others with their hosts can't go on
 * (docs/membership.md). All ranks of a group have the same one, or none; groups that are made from the group keep it.
 *
 * The functions
 *  - are called from within any call of the library, and by its progress thread (whatever coppice_context_options_t.progress_thread says), at any time
 *    until the last of these groups is destroyed; for one coppice_group_create, and what is made from its group, one at a time;
 *  - call nothing of the library (COPPICE_ERR_BUSY), take no lock that is held around a call of the library, and come back soon: meanwhile this
 *    rank answers nobody;
 *  - get (group, rank), a name that no other process has. */
typedef struct coppice_witness {
    size_t struct_size; /* sizeof(coppice_witness_t) */

    /* Keeps `bytes` bytes, at most COPPICE_WITNESS_BYTES, as the last words of this process by the name of (group, rank), in place of earlier ones. The
     * first time, with none, says that this process has that name.
     * 0: they are kept, and will be read whatever dies now. Anything else: they may not be. Words are then given again with this rank's next
     * progress, until they are kept: its renewal, and with it the others', and destroying the group wait for that. */
    int (*tell)(void* argument, uint64_t group, uint32_t rank, const void* words, size_t bytes);
    /* 1: the process that has this name has certainly ended; its last words are written to `words`, which has room for COPPICE_WITNESS_BYTES, and how
     * many they are to *bytes. 0: it lives, or nothing is known. Once 1, always 1, and with the same words. Called often where a rank has
     * failed: it answers with what it knows. A process has several names at once. When it is 1 for one of them, it is so for all the others that it
     * was told, and that were not forgotten: where it is not, the process never had that name. */
    int (*ended)(void* argument, uint64_t group, uint32_t rank, void* words, size_t* bytes);
    /* This process has left the group and goes on. May be NULL. */
    void (*forget)(void* argument, uint64_t group, uint32_t rank);
    void* argument;
} coppice_witness_t;
#define COPPICE_WITNESS_INIT \
    { sizeof(coppice_witness_t), NULL, NULL, NULL, NULL }
#define COPPICE_WITNESS_BYTES 2040

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
     * COPPICE_TREE; "auto" goes by what was measured where COPPICE_LOGP names it. */
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

    /* How long creation may take (default 60 s). Also COPPICE_START_TIMEOUT. A process that coppice-run has started late connects for so long
     * to the launcher; it then waits for the others without a bound, unless one is given here. */
    uint64_t timeout_ns;

    coppice_failure_fn on_failure;
    void* on_failure_argument;

    /* "tree" (default): a tree and a correction. To compare: "ocg", "ccg", "fcg:F", gossip with a correction of its own. Also
     * COPPICE_ALGORITHM; docs/corrections.md has what each promises. */
    const char* algorithm;

    /* "auto" (default): ranks of one host publish their contributions; between hosts a binary tree, within each a star or, where there are
     * more than 16 ranks, a binary tree. To compare: "binary", "heap", "binomial", "kary:K", "star", "chain", or two of them,
     * "X/Y", across hosts and within each; contributions then travel along it. Also COPPICE_AGREEMENT_TREE. */
    const char* agreement_tree;

    /* The switches above this rank's host, from the outermost to its leaf switch: "pod1/leaf3"; the same at all ranks of a host. Default: what
     * the launcher, COPPICE_TOPOLOGY or Slurm say; where any rank knows nothing, hosts stand in the order of their ranks. Also
     * COPPICE_SWITCHES; docs/topology.md. */
    const char* switches;

    /* A group of some of the ranks that the launcher has started, or of the `size` ones of which `rank` is this one: `rank_count`
     * distinct numbers, this rank's among them. ranks[i] is the new group's rank i. They alone call, all with the same list; an
     * `exchange` gathers among them alone, in the order of the list. Default: all ranks. */
    const uint32_t* ranks;
    size_t rank_count;

    /* Default: none but the launcher, where that is coppice-run. The structure is copied. */
    const coppice_witness_t* witness;
} coppice_group_options_t;
/* Every field is spelled out, so that -Wmissing-field-initializers is content in C and C++ alike. */
#define COPPICE_GROUP_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(coppice_group_options_t), NULL, NULL, 0, 0, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, \
            0, NULL                                                                                                    \
    }

/* Makes a group. The caller
 *  - calls it at all ranks of the new group, at most 1048576 (COPPICE_ERR_OUT_OF_RANGE);
 *  - gives the same trees, correction, hierarchy and window everywhere (COPPICE_ERR_MISMATCH names the rank that differs);
 *  - may pass NULL for `options` where a launcher has started it (coppice-run, PMIx, PMI; docs/launchers.md);
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

/* Leaves the group and frees it. The caller
 *  - calls it at all ranks, once, and again only after COPPICE_ERR_BUSY;
 *  - frees its requests and views before: while some are open it gets COPPICE_ERR_BUSY, and the group is as it was;
 *  - gives the others time: with timeout_ns 0 it leaves immediately, and they may then see this rank as failed.
 * Ends when every live rank has everything of this group, because it may still need this one's copy; or with COPPICE_ERR_TIMEOUT
 * at `timeout_ns` from now, naming the rank it waits for. COPPICE_ERR_MISMATCH when several ranks of this host were root of
 * one broadcast (coppice_broadcast). With all that is returned but COPPICE_ERR_BUSY the group is gone, and to use it is a mistake. A call that
 * does returns COPPICE_ERR_INVALID_ARGUMENT, and says that the group has been destroyed, as long as no more than 256 others have been since. */
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

/* What this rank has done for the group so far, for measurements and tests. Makes no progress; failure callbacks
 * that are due run in it (docs/progress.md). Those from `doorbells` to
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
    uint64_t chunks_read;    /* of `chunks`: out of others' memory, whose processes had no part in it */
    uint64_t reads;          /* of others' memory in all, those of how much is there included */
    /* Messages of broadcasts, of the tree and of the correction, by what is between this rank and the one that it went to. What is published
     * within a host is no message, and the chunks of large payloads are not among them. */
    uint64_t sent_in_host;
    uint64_t sent_in_leaf; /* hosts of one leaf switch */
    uint64_t sent_in_pod;  /* leaves of one pod, where there are several pods */
    uint64_t sent_beyond;  /* also where it is not known which switches there are */
    /* Payloads that others could not read out of this rank's memory, or that this rank could not read into its own, because the device would
     * not register that memory: more would have been locked than may be, say. Their chunks went in messages. */
    uint64_t unregistered;
} coppice_group_counts_t;

COPPICE_API coppice_status_t coppice_group_count(const coppice_group_t* group, coppice_group_counts_t* counts);

/* The ranks that this rank knows to have failed, ascending. Writes at most `capacity` of them into `ranks`
 * (may be NULL when capacity is 0) and the number of all into `count`. Survivors learn of a death at
 * different times. Makes progress first, so a rank that only asks learns of deaths, too; not when the failure callback asks. */
COPPICE_API coppice_status_t coppice_group_failed(const coppice_group_t* group, uint32_t* ranks, size_t capacity,
                                                  size_t* count);

#ifdef __cplusplus
}
#endif

#endif /* COPPICE_GROUP_H */
