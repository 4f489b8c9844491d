/* Agreements and barriers. Programs include <coppice/coppice.h>, of which this is a part. */
#ifndef COPPICE_AGREEMENT_H
#define COPPICE_AGREEMENT_H

#include <coppice/group.h>
#include <coppice/request.h>
#include <coppice/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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

/* Agreement: one value and one set of failed ranks, the same at every survivor, whichever ranks die, and whenever. (Where all
 * ranks die that were told them, the survivors may agree on others: SC'15, §2.) The caller
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
 * COPPICE_ERR_NO_QUORUM: too few ranks are left, see coppice_group_shrink.
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

#ifdef __cplusplus
}
#endif

#endif /* COPPICE_AGREEMENT_H */
