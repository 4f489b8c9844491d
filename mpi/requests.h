/* Operations that do not wait: generalized requests of MPI's, completed from within MPI's progress. */
#ifndef COPPICE_MPI_REQUESTS_H
#define COPPICE_MPI_REQUESTS_H

#include <mpi.h>

#include "communicators.h"
#include "payload.h"

/* Whether this MPI lets others take part in its progress. */
int can_have_requests(void);

/* Starts the broadcast, when the group's window has room, and gives the program its request. Takes over `payload`. MPI's code. */
int start_broadcast(struct communicator* communicator, const struct payload* payload, int root, MPI_Request* request);

/* Makes progress, in retired groups as well. */
int poll_requests(void);

/* While this process waits for Coppice, MPI makes no progress of its own: it is asked to, that often. */
#define PATIENCE_NS 1000000U
void let_mpi_work(void);

/* MPI_Finalize: no more progress from within MPI's. */
void end_requests(void);

#endif
