/* Operations under way. Programs include <coppice/coppice.h>, of which this is a part. */
#ifndef COPPICE_REQUEST_H
#define COPPICE_REQUEST_H

#include <coppice/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coppice_request coppice_request_t;

/* COPPICE_IN_PROGRESS, or how the operation ended (and *received its size, may be NULL). Makes progress. */
COPPICE_API coppice_status_t coppice_request_test(coppice_request_t* request, size_t* received);
/* Waits until it has ended. COPPICE_ERR_TIMEOUT leaves it under way: wait again, or free it. */
COPPICE_API coppice_status_t coppice_request_wait(coppice_request_t* request, size_t* received, uint64_t timeout_ns);
/* The payload of a view request that ended with COPPICE_OK. COPPICE_ERR_FENCED when the others take this rank for dead. They wait
 * for its views no longer, and the memory may be in use for later broadcasts. That happens to a rank that was silent for longer than
 * COPPICE_DETECTION_BOUND, where one is set, and to one that the network has cut off. A program that must exclude it asks again
 * after it has read: COPPICE_OK proves what it has read. Before the end, callbacks as in coppice_group_pending. */
COPPICE_API coppice_status_t coppice_request_view(const coppice_request_t* request, const void** payload,
                                                  size_t* bytes);
/* Releases the request and its view. One that is still under way is given up as by a timeout. NULL is allowed. To free a request
 * twice is a mistake, and every call says so (COPPICE_ERR_INVALID_ARGUMENT) as long as its group is there and no more than
 * 63 others have been in its place. */
COPPICE_API coppice_status_t coppice_request_free(coppice_request_t* request);

#ifdef __cplusplus
}
#endif

#endif /* COPPICE_REQUEST_H */
