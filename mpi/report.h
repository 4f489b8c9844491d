/* What was counted, for COPPICE_MPI_REPORT=1. */
#ifndef COPPICE_MPI_REPORT_H
#define COPPICE_MPI_REPORT_H

#include <mpi.h>

#include "operations.h"

#define AS_NUMBER(name, ...) kOperation##name,
enum operation { COPPICE_MPI_OPERATIONS(AS_NUMBER) kOperations };
#undef AS_NUMBER
#define AS_NUMBER(name, ...) kCounted##name,
enum counted { COPPICE_MPI_COUNTED(AS_NUMBER) kCounted };
#undef AS_NUMBER

/* Why an operation was passed on to MPI; the sentences are in report.c. */
enum reason { kTooLarge, kAlone, kIntercommunicator, kNoGroup, kNotYet, kSeldom, kArguments, kReasons };

void count_ours(enum operation operation);
void count_passed_on(enum operation operation, enum reason reason);
void count_call(enum counted operation);
/* A payload that MPI packs or unpacks. */
void count_packed(void);
void count_group(void);
/* Of the groups, how many could not be made, and the last sentence about that. */
void count_failed_group(const char* sentence);

/* Says a sentence to stderr and ends the program. A launcher that is told to abort may end before it has read what its processes wrote, so
 * this waits until the sentence was read. */
__attribute__((format(printf, 2, 3), noreturn)) void end_program(MPI_Comm comm, const char* format, ...);

int report_is_wanted(void);

/* Prints it to stderr at process 0 of MPI_COMM_WORLD, where it is asked for. */
void print_report(int rank, int size);

#endif
