/* Coppice's library, which is loaded when the first group is made: a program that makes none pays for the preload alone, and so does
 * each process that it starts. The preloads are not linked with it. */
#ifndef COPPICE_MPI_LIBRARY_H
#define COPPICE_MPI_LIBRARY_H

#include <coppice/coppice.h>

/* What is called of it. */
#define COPPICE_MPI_LIBRARY(FUNCTION) \
    FUNCTION(context_create)          \
    FUNCTION(context_destroy)         \
    FUNCTION(group_create)            \
    FUNCTION(group_query)             \
    FUNCTION(group_ack_failed)        \
    FUNCTION(group_revoke)            \
    FUNCTION(group_destroy)           \
    FUNCTION(broadcast)               \
    FUNCTION(broadcast_nb)            \
    FUNCTION(barrier_nb)              \
    FUNCTION(request_test)            \
    FUNCTION(request_wait)            \
    FUNCTION(request_free)            \
    FUNCTION(last_error)

#define AS_FIELD(name) __typeof__(&coppice_##name) name;
struct library {
    COPPICE_MPI_LIBRARY(AS_FIELD)
};
#undef AS_FIELD

/* Empty until load_library() has succeeded. */
extern struct library coppice;

/* Loads it, the first time: the one that the process has, else the one that was installed with the preload, else the one that the system
 * finds. NULL, or the sentence about why it can't be loaded. By one thread at a time. */
const char* load_library(void);

/* Whether it was asked for. */
int library_was_wanted(void);

#endif
