/*
 * What every benchmark here measures with, ours and the ones we compare with: the clock, the start barrier,
 * the rows of time stamps, and the statistics over them. One implementation, in C, so that an MPI program
 * uses the very same.
 *
 * The area is memory shared by all ranks of one machine. Each rank writes its own words only, so a rank that
 * dies at any instruction leaves nothing locked. The barrier between two operations:
 *  - does not wait for ranks that its caller marked dead, and calls `idle` while it waits, so that deaths are noticed;
 *  - the lowest live rank (the leader) sees all arrivals and says go; when it dies the next one takes over;
 *  - with no more ranks than cores all leave at one common instant; with more, every waiting poll yields the
 *    core, for otherwise one measures the scheduler's time slice (docs/benchmarks.md).
 *
 * All ranks of one kernel share CLOCK_MONOTONIC, so differences of stamps of two ranks are valid.
 */
#ifndef COPPICE_BENCH_MEASURE_H
#define COPPICE_BENCH_MEASURE_H

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MEASURE_LINE = 64, MEASURE_MAX_RANKS = 1024, MEASURE_PATH = 64 };

/* How long before the common start the leader names it: long enough for a flag to reach the other cores. */
enum { MEASURE_LEAD_NS = 2000 };

static inline uint64_t measure_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline void measure_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Ranks that were bound to a core each can't see how many the job may use, where those are not all: they are told. */
static inline uint32_t measure_cores(void) {
    const char* told = getenv("COPPICE_BENCH_CORES");
    if (told != NULL && atoi(told) > 0) return (uint32_t)atoi(told);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1u : (uint32_t)cores;
}

/* Rank mod cores, as coppice-run does it. */
static inline void measure_pin(uint32_t rank) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(rank % measure_cores(), &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* ---------------------------------------------------------------------------------------------------------- area --- */

typedef struct measure_stamp {
    uint64_t start;
    uint64_t end; /* 0: this rank did not complete the operation */
} measure_stamp_t;

typedef struct measure_word {
    uint64_t value;
    char padding[MEASURE_LINE - sizeof(uint64_t)];
} measure_word_t;

typedef struct measure_area {
    uint64_t nonce; /* told to the others along with the path: a wrong machine's /proc would not have it */
    uint64_t ranks;
    uint64_t iterations; /* stamps per rank */
    uint64_t own_bytes;  /* what the benchmark itself keeps per rank */
    char padding[MEASURE_LINE - 4 * sizeof(uint64_t)];
    uint64_t go;         /* the last round that was let go */
    uint64_t instant[2]; /* when round r starts, at [r % 2]; 0: at once */
    char more_padding[MEASURE_LINE - 3 * sizeof(uint64_t)];
    /* follows: per rank a measure_word_t, the round at which it is; then the rows; then what is the benchmark's own */
} measure_area_t;

static inline uint64_t* measure_arrival(measure_area_t* area, uint64_t rank) {
    return &((measure_word_t*)(void*)(area + 1))[rank].value;
}

static inline size_t measure_round_up(size_t bytes) {
    return (bytes + 4095u) / 4096u * 4096u;
}

static inline size_t measure_rows_offset(uint64_t ranks) {
    return measure_round_up(sizeof(measure_area_t) + ranks * sizeof(measure_word_t));
}

static inline size_t measure_row_bytes(uint64_t iterations) {
    return measure_round_up(iterations * sizeof(measure_stamp_t));
}

static inline size_t measure_area_bytes(uint64_t ranks, uint64_t iterations, uint64_t own_bytes) {
    return measure_rows_offset(ranks) + ranks * (measure_row_bytes(iterations) + measure_round_up(own_bytes));
}

static inline measure_stamp_t* measure_row(measure_area_t* area, uint64_t rank) {
    char* rows = (char*)area + measure_rows_offset(area->ranks);
    return (measure_stamp_t*)(void*)(rows + rank * measure_row_bytes(area->iterations));
}

static inline void* measure_own(measure_area_t* area, uint64_t rank) {
    char* rows = (char*)area + measure_rows_offset(area->ranks);
    return rows + area->ranks * measure_row_bytes(area->iterations) + rank * measure_round_up(area->own_bytes);
}

/* A new area: anonymous for forked ranks (path NULL), else one that other processes open by the path written
 * there; it vanishes with its last user, however that one ends. NULL and errno when there is not enough memory. */
static inline measure_area_t* measure_create(uint32_t ranks, uint64_t iterations, uint64_t own_bytes, char* path) {
    size_t bytes = measure_area_bytes(ranks, iterations, own_bytes);
    int fd = -1;
    if (path != NULL) {
        fd = memfd_create("coppice-bench", MFD_CLOEXEC);
        if (fd < 0) return NULL;
        if (ftruncate(fd, (off_t)bytes) != 0) {
            close(fd);
            return NULL;
        }
        snprintf(path, MEASURE_PATH, "/proc/%ld/fd/%d", (long)getpid(), fd);
    }
    void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
    if (memory == MAP_FAILED) {
        if (fd >= 0) close(fd);
        return NULL;
    }
    measure_area_t* area = (measure_area_t*)memory;
    area->ranks = ranks;
    area->iterations = iterations;
    area->own_bytes = own_bytes;
    area->nonce = measure_now() ^ ((uint64_t)getpid() << 40);
    return area;
}

/* NULL when there is no such area at `path` on this machine. */
static inline measure_area_t* measure_open(const char* path, uint64_t nonce, uint32_t ranks, uint64_t iterations,
                                           uint64_t own_bytes) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return NULL;
    size_t bytes = measure_area_bytes(ranks, iterations, own_bytes);
    void* memory = MAP_FAILED;
    if (lseek(fd, 0, SEEK_END) == (off_t)bytes) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (memory == MAP_FAILED) return NULL;
    measure_area_t* area = (measure_area_t*)memory;
    if (area->nonce != nonce || area->ranks != ranks) {
        munmap(memory, bytes);
        return NULL;
    }
    return area;
}

/* Touches a rank's own row, so that no page fault falls into a measurement. */
static inline void measure_clear_row(measure_area_t* area, uint32_t rank) {
    memset(measure_row(area, rank), 0, measure_row_bytes(area->iterations));
}

/* ------------------------------------------------------------------------------------------------------- barrier --- */

/* One rank's side of the barrier. */
typedef struct measure_crew {
    measure_area_t* area;
    uint32_t self;
    uint32_t ranks;
    int crowded; /* more ranks than cores: yield at every poll, and no common instant */
    uint64_t round;
    const uint8_t* dead; /* per rank, non-zero: not waited for any more. NULL: nobody dies */
    int (*idle)(void*);  /* called now and then while waiting; non-zero ends the wait. May be NULL */
    void* idle_argument;
} measure_crew_t;

static inline measure_crew_t measure_join(measure_area_t* area, uint32_t self) {
    measure_crew_t crew;
    memset(&crew, 0, sizeof crew);
    crew.area = area;
    crew.self = self;
    crew.ranks = (uint32_t)area->ranks;
    crew.crowded = crew.ranks > measure_cores();
    return crew;
}

static inline int measure_is_dead(const measure_crew_t* crew, uint32_t rank) {
    return crew->dead != NULL && __atomic_load_n(&crew->dead[rank], __ATOMIC_ACQUIRE) != 0;
}

static inline int measure_has_arrived(const measure_crew_t* crew, uint32_t rank) {
    return __atomic_load_n(measure_arrival(crew->area, rank), __ATOMIC_ACQUIRE) >= crew->round;
}

static inline uint32_t measure_leader(const measure_crew_t* crew) {
    uint32_t rank = 0;
    while (rank < crew->self && measure_is_dead(crew, rank))
        ++rank;
    return rank;
}

/* One step of waiting. Non-zero when idle wants it ended. */
static inline int measure_relax(const measure_crew_t* crew, uint64_t poll) {
    if (crew->crowded || poll % 4096 == 4095) {
        sched_yield();
    } else {
        measure_pause();
    }
    if (crew->idle == NULL || poll % (crew->crowded ? 16 : 1024) != 0 || poll == 0) return 0;
    return crew->idle(crew->idle_argument);
}

/* Waits for all live ranks. The leader runs `action` (may be NULL) when all have arrived and before anybody
 * leaves. Non-zero when idle ended the wait. */
static inline int measure_barrier(measure_crew_t* crew, void (*action)(void*), void* argument) {
    measure_area_t* area = crew->area;
    uint64_t round = ++crew->round;
    uint32_t next = 0; /* ranks below have arrived or are dead */
    __atomic_store_n(measure_arrival(area, crew->self), round, __ATOMIC_RELEASE);
    for (uint64_t poll = 0; __atomic_load_n(&area->go, __ATOMIC_ACQUIRE) < round; ++poll) {
        if (measure_leader(crew) == crew->self) {
            while (next < crew->ranks && (measure_has_arrived(crew, next) || measure_is_dead(crew, next)))
                ++next;
            if (next == crew->ranks) {
                if (action != NULL) action(argument);
                __atomic_store_n(&area->instant[round % 2], crew->crowded ? 0 : measure_now() + MEASURE_LEAD_NS,
                                 __ATOMIC_RELAXED);
                __atomic_store_n(&area->go, round, __ATOMIC_RELEASE);
                break;
            }
        }
        int ended = measure_relax(crew, poll);
        if (ended != 0) return ended;
    }
    uint64_t instant = __atomic_load_n(&area->instant[round % 2], __ATOMIC_RELAXED);
    while (instant != 0 && measure_now() < instant)
        measure_pause();
    return 0;
}

/* ---------------------------------------------------------------------------------------------------- statistics --- */

typedef struct measure_stats {
    uint64_t count;
    double min, max, typical, average, deviation, p99, p999; /* µs; typical is the median */
} measure_stats_t;

static inline int measure_compare(const void* left, const void* right) {
    double a = *(const double*)left, b = *(const double*)right;
    return (a > b) - (a < b);
}

static inline double measure_quantile(const double* sorted, uint64_t count, double part) {
    uint64_t index = (uint64_t)(part * (double)count);
    return sorted[index < count ? index : count - 1];
}

/* Sorts `values` (µs). */
static inline measure_stats_t measure_statistics(double* values, uint64_t count) {
    measure_stats_t stats;
    memset(&stats, 0, sizeof stats);
    stats.count = count;
    if (count == 0) return stats;
    qsort(values, count, sizeof *values, measure_compare);
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < count; ++i)
        sum += values[i];
    stats.average = sum / (double)count;
    for (uint64_t i = 0; i < count; ++i)
        squares += (values[i] - stats.average) * (values[i] - stats.average);
    stats.deviation = sqrt(squares / (double)count);
    stats.min = values[0];
    stats.max = values[count - 1];
    stats.typical = count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
    stats.p99 = measure_quantile(values, count, 0.99);
    stats.p999 = measure_quantile(values, count, 0.999);
    return stats;
}

/* The start of an operation without a root: when the last of its ranks calls. */
#define MEASURE_LAST UINT32_MAX

/* One operation over all ranks. Both are µs; false when its root did not start it or nobody completed it. */
static inline int measure_evaluate(measure_area_t* area, uint64_t iteration, uint32_t root, double* done,
                                   double* mean) {
    uint64_t start = root == MEASURE_LAST ? 0 : measure_row(area, root)[iteration].start;
    uint64_t last = 0, durations = 0, ranks = 0;
    for (uint32_t rank = 0; rank < area->ranks; ++rank) {
        measure_stamp_t stamp = measure_row(area, rank)[iteration];
        if (stamp.end == 0) continue;
        if (stamp.end > last) last = stamp.end;
        if (root == MEASURE_LAST && stamp.start > start) start = stamp.start;
        durations += stamp.end - stamp.start;
        ++ranks;
    }
    if (start == 0 || ranks == 0) return 0;
    *done = last > start ? (double)(last - start) / 1e3 : 0;
    *mean = (double)durations / (double)ranks / 1e3;
    return 1;
}

#define MEASURE_HEADINGS                                                                                    \
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   " \
    "99% percentile[usec]   99.9% percentile[usec]"

static inline void measure_print(FILE* out, size_t bytes, const measure_stats_t* s) {
    fprintf(out, " %-6zu %-14llu %-14.2f %-12.2f %-16.2f %-14.2f %-16.2f %-22.2f %-22.2f", bytes,
            (unsigned long long)s->count, s->min, s->max, s->typical, s->average, s->deviation, s->p99, s->p999);
}

#endif
