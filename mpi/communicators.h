/* Groups of Coppice's for communicators: made when an operation needs one, by an exchange over that communicator, and destroyed behind
 * MPI_Comm_free, or in MPI_Finalize (retired.h). */
#ifndef COPPICE_MPI_COMMUNICATORS_H
#define COPPICE_MPI_COMMUNICATORS_H

#include <coppice/coppice.h>
#include <mpi.h>
#include <stddef.h>

#include "report.h"

struct communicator {
    coppice_group_t* group; /* NULL: its operations are passed on, for that reason */
    enum reason reason;
    int size;
    int rank;
    size_t max_payload;
    int after;      /* its group is made when so many operations have been passed on for kSeldom */
    int is_unasked; /* process 0 has not said yet what `after` is: it is less than 0 then, by what has been passed on */
    int unstarted;  /* broadcasts that wait for room in the group's window; by requests.c */
    int pending;    /* broadcasts that refer to this; by requests.c */
    int is_freed;   /* the program does not have it any more */
    int is_retired; /* retired.c has it */
    coppice_request_t* last; /* the barrier behind everything else; by retired.c */
    struct communicator* next;
};

/* The state of the communicator. Collective where no call has waited for the others yet and `may_wait` says that this one may: it asks
 * process 0, and makes the group when it is worth it. NULL where MPI would complain. */
struct communicator* communicator_of(MPI_Comm comm, int may_wait);

/* MPI has been initialized: a report that is asked for comes, whatever the program calls. */
void expect_report(void);

/* Ends the process, with a sentence, where it is one of the other MPI: its handles are of other types, and nothing could even be
 * passed on. */
void refuse_other_mpi(void);

/* MPI's code for how one of Coppice's calls has ended; calls the communicator's error handler where that was badly. */
int raise_status(MPI_Comm comm, coppice_status_t status);
int code_of(coppice_status_t status);

#endif
