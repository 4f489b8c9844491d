/*
 * MPI_Bcast or MPI_Allreduce (of integers, by MPI_BOR) measured exactly as coppice-perf measures (measure.h): the same
 * barrier, the same stamps, the same figures. Compiled with mpicc and run by the comparisons; not part of the build.
 *
 *   mpirun … mpi_collective bcast|allreduce BYTES ITERATIONS [nopin|staggered|rewritten]
 *
 * rewritten: the root writes its payload anew before each call, as coppice-perf --rewrite.
 * staggered: as coppice-perf --staggered, for counting instructions: a rank calls when the rank before it is through. Not pinned.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <mpi.h>

#include "measure.h"

typedef struct ticket {
    char path[MEASURE_PATH];
    uint64_t nonce;
} ticket_t;

static measure_area_t* share(int self, int ranks, uint64_t iterations) {
    ticket_t ticket;
    memset(&ticket, 0, sizeof ticket);
    measure_area_t* area = NULL;
    if (self == 0) {
        area = measure_create((uint32_t)ranks, iterations, sizeof(uint64_t), ticket.path);
        if (area != NULL) ticket.nonce = area->nonce;
    }
    MPI_Bcast(&ticket, (int)sizeof ticket, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (self != 0) area = measure_open(ticket.path, ticket.nonce, (uint32_t)ranks, iterations, sizeof(uint64_t));
    if (area == NULL) {
        fprintf(stderr, "mpi_collective: rank %d: no shared memory for the time stamps\n", self);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return area;
}

static void report(measure_area_t* area, int rooted, size_t bytes, uint64_t iterations) {
    double* done = (double*)malloc(iterations * sizeof *done);
    double mean = 0;
    if (done == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    for (uint64_t i = 0; i < iterations; ++i)
        measure_evaluate(area, i, rooted ? 0 : MEASURE_LAST, &done[i], &mean);
    measure_stats_t stats = measure_statistics(done, iterations);
    puts(MEASURE_HEADINGS);
    measure_print(stdout, bytes, &stats);
    puts("");
    free(done);
}

/* How many calls of that rank have returned. */
static uint64_t* finished(measure_area_t* area, int rank) {
    return (uint64_t*)measure_own(area, (uint64_t)rank);
}

static void wait_for_turn(measure_area_t* area, int self, uint64_t calls) {
    if (self == 0) return;
    while (__atomic_load_n(finished(area, self - 1), __ATOMIC_ACQUIRE) <= calls)
        sched_yield();
}

/* A function of its own, so that what it costs can be counted. */
__attribute__((noinline)) static void call_once(int rooted, void* buffer, void* result, size_t bytes) {
    if (rooted) {
        MPI_Bcast(buffer, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    } else {
        MPI_Allreduce(buffer, result, (int)(bytes / sizeof(int)), MPI_INT, MPI_BOR, MPI_COMM_WORLD);
    }
}

int main(int argc, char** argv) {
    int rooted = argc <= 1 || strcmp(argv[1], "allreduce") != 0;
    size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 8;
    uint64_t iterations = argc > 3 ? strtoull(argv[3], NULL, 10) : 5000;
    MPI_Init(&argc, &argv);
    int self = 0, ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &self);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int staggered = argc > 4 && strcmp(argv[4], "staggered") == 0;
    int rewritten = argc > 4 && strcmp(argv[4], "rewritten") == 0;
    if (argc <= 4 || rewritten) measure_pin((uint32_t)self);

    measure_area_t* area = share(self, ranks, iterations);
    measure_clear_row(area, (uint32_t)self);
    measure_stamp_t* row = measure_row(area, (uint32_t)self);
    measure_crew_t crew = measure_join(area, (uint32_t)self);
    char* buffer = (char*)malloc(bytes + 1);
    char* result = (char*)calloc(1, bytes + 1);
    if (buffer == NULL || result == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    memset(buffer, 7, bytes + 1); /* memory of its own, not pages of zeroes that are all one and the same */
    uint64_t warmup = iterations / 10;
    for (uint64_t i = 0; i < warmup + iterations; ++i) {
        if (rewritten && self == 0) memset(buffer, (int)i, bytes);
        measure_barrier(&crew, NULL, NULL);
        if (staggered) wait_for_turn(area, self, i);
        measure_stamp_t stamp;
        stamp.start = measure_now();
        call_once(rooted, buffer, result, bytes);
        stamp.end = measure_now();
        __atomic_store_n(finished(area, self), i + 1, __ATOMIC_RELEASE);
        if (i >= warmup) row[i - warmup] = stamp;
    }
    measure_barrier(&crew, NULL, NULL);
    if (self == 0) report(area, rooted, bytes, iterations);
    free(buffer);
    free(result);
    MPI_Finalize();
    return 0;
}
