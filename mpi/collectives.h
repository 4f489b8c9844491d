/* What Coppice does for MPI's operations. Each function has the parameters of MPI's and returns what that would, or PASS_ON: nothing has
 * been done, and PMPI is to do it. All processes of a communicator pass on the same calls: what decides is the same everywhere. */
#ifndef COPPICE_MPI_COLLECTIVES_H
#define COPPICE_MPI_COLLECTIVES_H

#include <limits.h>
#include <mpi.h>

#define PASS_ON INT_MIN

int ours_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm);
int ours_Barrier(MPI_Comm comm);
int ours_Ibcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request);

#endif
