/*
 * The limit of a large broadcast on one machine that hands every receiver a copy: each of them copies the payload once, all at the same
 * time, out of memory that the root has filled right before. Measured as coppice-perf measures (measure.h). Compiled and run by large.sh.
 *
 *   copies RANKS BYTES ITERATIONS      one result line, µs
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "measure.h"

static void run(measure_area_t* area, char* payload, uint32_t self, size_t bytes) {
    measure_pin(self);
    measure_clear_row(area, self);
    measure_stamp_t* row = measure_row(area, self);
    measure_crew_t crew = measure_join(area, self);
    char* buffer = (char*)malloc(bytes);
    if (buffer == NULL) _exit(1);
    memset(buffer, 1, bytes);
    const uint64_t warmup = area->iterations / 10;
    for (uint64_t i = 0; i < warmup + area->iterations; ++i) {
        if (self == 0) memset(payload, (int)i, bytes);
        measure_barrier(&crew, NULL, NULL);
        measure_stamp_t stamp;
        stamp.start = measure_now();
        if (self != 0) {
            memcpy(buffer, payload, bytes);
            __asm__ volatile("" : : "r"(buffer) : "memory"); /* nobody reads it, and it is copied all the same */
        }
        stamp.end = measure_now();
        if (i >= warmup) row[i - warmup] = stamp;
    }
    free(buffer);
}

int main(int argc, char** argv) {
    const uint32_t ranks = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2;
    const size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 1 << 20;
    const uint64_t iterations = argc > 3 ? strtoull(argv[3], NULL, 10) : 10;
    if (ranks < 2 || ranks > MEASURE_MAX_RANKS || bytes == 0 || iterations == 0) {
        fprintf(stderr, "copies: RANKS from 2, BYTES and ITERATIONS from 1 on are wanted\n");
        return 2;
    }
    measure_area_t* area = measure_create(ranks, iterations, sizeof(uint64_t), NULL);
    char* payload = (char*)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (area == NULL || payload == (char*)MAP_FAILED) {
        perror("copies: no shared memory");
        return 1;
    }
    memset(payload, 7, bytes);
    for (uint32_t rank = 1; rank < ranks; ++rank) {
        const pid_t pid = fork();
        if (pid < 0) {
            perror("copies: fork");
            return 1; /* the others die with this process */
        }
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run(area, payload, rank, bytes);
            _exit(0);
        }
    }
    run(area, payload, 0, bytes);
    while (wait(NULL) > 0) {
    }
    double* done = (double*)malloc(iterations * sizeof *done);
    double mean = 0;
    if (done == NULL) return 1;
    for (uint64_t i = 0; i < iterations; ++i)
        measure_evaluate(area, i, 0, &done[i], &mean);
    const measure_stats_t stats = measure_statistics(done, iterations);
    puts(MEASURE_HEADINGS);
    measure_print(stdout, bytes, &stats);
    puts("");
    free(done);
    return 0;
}
