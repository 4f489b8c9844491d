/* How calls end, and what they say of it. Programs include <coppice/coppice.h>, of which this is a part. */
#ifndef COPPICE_STATUS_H
#define COPPICE_STATUS_H

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

/* The deadline of calls that wait for ever. Deadlines are from now. */
#define COPPICE_NO_TIMEOUT UINT64_MAX

#ifdef __cplusplus
}
#endif

#endif /* COPPICE_STATUS_H */
