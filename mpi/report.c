#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "library.h"
#include "shared.h"

#define AS_TEXT(name, ...) "MPI_" #name,
static const char* const kNames[kOperations] = {COPPICE_MPI_OPERATIONS(AS_TEXT)};
static const char* const kCountedNames[kCounted] = {COPPICE_MPI_COUNTED(AS_TEXT)};

static const char* const kSentences[kReasons] = {
    [kTooLarge] = "larger than one message of Coppice",
    [kAlone] = "on communicators of one process",
    [kIntercommunicator] = "on intercommunicators",
    [kNoGroup] = "on communicators whose group could not be made",
    [kNotYet] = "on communicators that nothing had waited on before",
    [kSeldom] = "on communicators before their group was worth it (COPPICE_MPI_AFTER)",
    [kArguments] = "with arguments for MPI to complain about",
};

static unsigned long ours[kOperations];
static unsigned long passed_on[kOperations];
static unsigned long reasons[kReasons];
static unsigned long calls[kCounted];
static unsigned long packed;
static unsigned long groups;
static unsigned long failed_groups;
static char failure[256];

void count_ours(enum operation operation) {
    shared_count(&ours[operation]);
}

void count_passed_on(enum operation operation, enum reason reason) {
    shared_count(&passed_on[operation]);
    shared_count(&reasons[reason]);
}

void count_call(enum counted operation) {
    shared_count(&calls[operation]);
}

void count_packed(void) {
    shared_count(&packed);
}

void count_group(void) {
    shared_count(&groups);
}

void count_failed_group(const char* sentence) {
    shared_count(&failed_groups);
    snprintf(failure, sizeof failure, "%s", sentence);
}

int report_is_wanted(void) {
    const char* wanted = getenv("COPPICE_MPI_REPORT");
    return wanted != NULL && strcmp(wanted, "1") == 0;
}

void print_report(int rank, int size) {
    if (rank != 0 || !report_is_wanted()) return;
    fprintf(stderr, "coppice-mpi: process 0 of %d, %lu groups\n", size, shared_counted(&groups));
    for (int i = 0; i < kOperations; ++i)
        fprintf(stderr, "coppice-mpi: %s: %lu by Coppice, %lu passed on to MPI\n", kNames[i], shared_counted(&ours[i]),
                shared_counted(&passed_on[i]));
    for (int i = 0; i < kCounted; ++i)
        if (shared_counted(&calls[i]) != 0)
            fprintf(stderr, "coppice-mpi: %s: %lu calls, which are MPI's\n", kCountedNames[i],
                    shared_counted(&calls[i]));
    if (shared_counted(&packed) != 0)
        fprintf(stderr, "coppice-mpi: %lu payloads of types with gaps were packed\n", shared_counted(&packed));
    if (!library_was_wanted()) fprintf(stderr, "coppice-mpi: no group was needed, and the library was not loaded\n");
    for (int i = 0; i < kReasons; ++i)
        if (shared_counted(&reasons[i]) != 0)
            fprintf(stderr, "coppice-mpi: passed on: %lu %s\n", shared_counted(&reasons[i]), kSentences[i]);
    if (shared_counted(&failed_groups) != 0)
        fprintf(stderr, "coppice-mpi: %lu groups could not be made: %s\n", shared_counted(&failed_groups), failure);
}

/* A reader that reads no more is not waited for longer than this. */
enum { kPatienceMilliseconds = 2000 };

static void wait_until_read(int descriptor) {
    const struct timespec millisecond = {.tv_nsec = 1000000};
    int unread = 0;
    for (int waited = 0; waited < kPatienceMilliseconds; ++waited) {
        if (isatty(descriptor) || ioctl(descriptor, FIONREAD, &unread) != 0 || unread == 0) return;
        nanosleep(&millisecond, NULL);
    }
}

void end_program(MPI_Comm comm, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fflush(stderr);
    wait_until_read(STDERR_FILENO);
    PMPI_Abort(comm, 1);
    abort();
}
