/* Groups of communicators that were freed (mpi/retired.c), on a library that only counts: what a call costs while there are many, and
 * that all end. */
#include "retired.h"

#include <stdio.h>
#include <stdlib.h>

#include "library.h"
#include "requests.h"

enum { kMany = 10000, kFew = 16 };

struct library coppice;
static long looks;
static long ended;
static int others_have_come;
static char handle; /* of all groups and barriers */

static coppice_status_t barrier_nb(coppice_group_t* group, coppice_request_t** request) {
    (void)group;
    ++looks;
    *request = (coppice_request_t*)&handle;
    return COPPICE_OK;
}

static coppice_status_t request_test(coppice_request_t* request, size_t* size) {
    (void)request;
    (void)size;
    ++looks;
    return others_have_come ? COPPICE_OK : COPPICE_IN_PROGRESS;
}

static coppice_status_t request_wait(coppice_request_t* request, size_t* size, uint64_t timeout_ns) {
    (void)timeout_ns;
    return request_test(request, size);
}

static coppice_status_t request_free(coppice_request_t* request) {
    (void)request;
    return COPPICE_OK;
}

static coppice_status_t group_revoke(coppice_group_t* group) {
    (void)group;
    return COPPICE_OK;
}

static coppice_status_t group_destroy(coppice_group_t* group, uint64_t timeout_ns) {
    (void)group;
    (void)timeout_ns;
    ++ended;
    return COPPICE_OK;
}

void let_mpi_work(void) {
    look_at_retired();
}

static void free_communicator(void) {
    struct communicator* const state = calloc(1, sizeof *state);
    if (state == NULL) exit(1);
    state->group = (coppice_group_t*)&handle;
    state->is_freed = 1;
    retire(state);
}

static long looks_of_one_call(void) {
    const long before = looks;
    look_at_retired();
    return looks - before;
}

static void expect(int holds, const char* what) {
    if (holds) return;
    fprintf(stderr, "%s (looks: %ld, ended: %ld)\n", what, looks, ended);
    exit(1);
}

int main(void) {
    coppice = (struct library){.barrier_nb = barrier_nb,
                               .request_test = request_test,
                               .request_wait = request_wait,
                               .request_free = request_free,
                               .group_revoke = group_revoke,
                               .group_destroy = group_destroy};
    expect(looks_of_one_call() == 0, "nothing was freed, and something is looked at");
    for (int i = 0; i < kMany; ++i)
        free_communicator();
    for (int i = 0; i < kMany; ++i)
        expect(looks_of_one_call() <= kFew, "what one call costs grows with the communicators that were freed");
    expect(ended == 0, "a group has ended before the others have come");

    others_have_come = 1;
    for (int i = 0; i < kMany; ++i)
        expect(looks_of_one_call() <= kFew, "what one call costs grows with the communicators that were freed");
    expect(ended == kMany, "not all have had their turn");
    expect(looks_of_one_call() == 0, "one is left");

    /* A program that frees one and makes one call, again and again. */
    for (int i = 0; i < kMany; ++i) {
        free_communicator();
        look_at_retired();
    }
    expect(2 * kMany - ended <= kFew, "more and more are left behind");

    for (int i = 0; i < kMany; ++i)
        free_communicator();
    end_retired();
    expect(ended == 3 * kMany, "MPI_Finalize leaves some");
    return 0;
}
