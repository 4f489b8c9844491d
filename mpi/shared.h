/* The words that threads of a program share here, as src/base/shared_words.hpp has them for the library. No other file of mpi/ names an
 * atomic (tests/arrows/check_shared_words.py). Words that are used with a mutex alone are none of these. */
#ifndef COPPICE_MPI_SHARED_H
#define COPPICE_MPI_SHARED_H

/* Of any type. One writer at a time. A thread that reads a published value sees all that its writer stored before publishing it. */
#define SHARED_PUBLISH(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELEASE)
#define SHARED_READ(word) __atomic_load_n(&(word), __ATOMIC_ACQUIRE)

/* A hint: orders nothing. */
static inline int shared_look(const int* word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* What has happened, by many writers; for people: orders nothing. */
static inline void shared_count(unsigned long* count) {
    __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}
static inline unsigned long shared_counted(const unsigned long* count) {
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

/* How often something has changed, by many writers: SHARED_READ sees what they stored before. */
static inline void shared_raise(unsigned* count) {
    __atomic_add_fetch(count, 1, __ATOMIC_RELEASE);
}

/* How many are under way, by many writers. SHARED_READ of none sees what was stored before each of them ended. */
static inline void shared_begin(int* under_way) {
    __atomic_add_fetch(under_way, 1, __ATOMIC_RELAXED);
}
static inline void shared_end(int* under_way) {
    __atomic_sub_fetch(under_way, 1, __ATOMIC_RELEASE);
}

/* The value before: each value is returned to one thread. */
static inline int shared_swap(int* word, int value) {
    return __atomic_exchange_n(word, value, __ATOMIC_ACQ_REL);
}

#endif
