#include "retired.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "library.h"
#include "requests.h"
#include "shared.h"

/* How long MPI_Finalize waits at most for processes that do not come, and a call for the end of a revoked group. */
#define LAST_WAIT_NS 30000000000U

/* How many groups one call looks at: more than the two looks that most of them need, so that a program that frees a communicator and makes
 * one call, again and again, leaves no more and more of them behind. */
enum { kLooks = 4 };

/* Of the queue; held as list_mutex is (communicators.c). */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct communicator* head; /* the next to be looked at */
static struct communicator* tail;
static unsigned length;

/* With the mutex. */
static void put_at_tail(struct communicator* state) {
    state->next = NULL;
    if (length++ == 0) {
        SHARED_PUBLISH(head, state);
    } else {
        tail->next = state;
    }
    tail = state;
}

static struct communicator* take_head(void) {
    struct communicator* const state = head;
    --length;
    SHARED_PUBLISH(head, state->next);
    return state;
}

void retire(struct communicator* state) {
    pthread_mutex_lock(&mutex);
    state->is_retired = 1;
    put_at_tail(state);
    pthread_mutex_unlock(&mutex);
}

/* However the last barrier ends, once it has begun: all that live have entered it, so they have received everything, or this process is
 * not one of them any more. */
static int is_over(struct communicator* state) {
    if (SHARED_READ(state->pending) > 0) return 0;
    if (state->last == NULL) {
        const coppice_status_t status = coppice.barrier_nb(state->group, &state->last);
        if (status == COPPICE_ERR_BUSY || status == COPPICE_ERR_NO_MEMORY || status == COPPICE_ERR_NO_RESOURCES)
            return 0;
        if (status != COPPICE_OK) return 1;
    }
    return coppice.request_test(state->last, NULL) != COPPICE_IN_PROGRESS;
}

static void forget_group(struct communicator* state) {
    state->last = NULL;
    state->group = NULL;
    state->reason = kNoGroup;
}

/* A group is destroyed by calls that wait for each other, while others may wait for a message of this process. Of a revoked one nobody
 * waits for a call, and all are done with it. */
static void end_group(struct communicator* state) {
    coppice.request_free(state->last);
    coppice.group_revoke(state->group);
    if (coppice.group_destroy(state->group, LAST_WAIT_NS) == COPPICE_ERR_TIMEOUT)
        fprintf(stderr, "coppice-mpi: %s\n", coppice.last_error());
    forget_group(state);
    if (state->is_freed) free(state);
}

/* Each of them once, or as many of them. */
static void look_at(unsigned most) {
    if (SHARED_READ(head) == NULL || pthread_mutex_trylock(&mutex) != 0) return;
    struct communicator* over = NULL;
    for (unsigned looks = length < most ? length : most; looks > 0; --looks) {
        struct communicator* state = take_head();
        if (is_over(state)) {
            state->next = over;
            over = state;
        } else {
            put_at_tail(state);
        }
    }
    pthread_mutex_unlock(&mutex);
    while (over != NULL) {
        struct communicator* state = over;
        over = state->next;
        end_group(state);
    }
}

void look_at_retired(void) {
    look_at(kLooks);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* No other thread is in MPI any more. */
void end_retired(void) {
    const uint64_t deadline = now_ns() + LAST_WAIT_NS;
    for (;;) {
        let_mpi_work();
        look_at(UINT_MAX); /* all barriers begin here at once, because others may wait for any of them */
        if (head == NULL || now_ns() >= deadline) break;
        if (head->last != NULL) coppice.request_wait(head->last, NULL, PATIENCE_NS);
    }
    const unsigned left = length;
    while (head != NULL) {
        struct communicator* state = take_head();
        coppice.request_free(state->last);
        coppice.group_destroy(state->group, 0);
        forget_group(state); /* which stays: requests may refer to it */
    }
    if (left > 0)
        fprintf(stderr,
                "coppice-mpi: MPI_Finalize has waited for other processes for %u s, and ends %u groups without them\n",
                (unsigned)(LAST_WAIT_NS / 1000000000U), left);
}
