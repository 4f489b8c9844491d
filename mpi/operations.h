/* Which of MPI's operations are Coppice's: a line for each, and everything else passes by.
 *
 *   OPERATION(name, Fortran's name in both cases, C's parameters, their names,
 *             Fortran's parameters but the error, what C gets for them, what Fortran gets back)
 *
 * A line needs a function ours_<name> (collectives.h) with C's parameters. In Fortran `request` of C is a variable of the door's. */
#ifndef COPPICE_MPI_OPERATIONS_H
#define COPPICE_MPI_OPERATIONS_H

// clang-format off
#define COPPICE_MPI_OPERATIONS(OPERATION)                                                                              \
    OPERATION(Bcast, bcast, BCAST,                                                                                     \
              (void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm), (buffer, count, type, root, comm), \
              (char* buffer, MPI_Fint* count, MPI_Fint* type, MPI_Fint* root, MPI_Fint* comm, MPI_Fint* error),        \
              (from_fortran(buffer), (int)*count, PMPI_Type_f2c(*type), (int)*root, PMPI_Comm_f2c(*comm)), )            \
    OPERATION(Barrier, barrier, BARRIER,                                                                               \
              (MPI_Comm comm), (comm),                                                                                 \
              (MPI_Fint* comm, MPI_Fint* error),                                                                       \
              (PMPI_Comm_f2c(*comm)), )                                                                                 \
    OPERATION(Ibcast, ibcast, IBCAST,                                                                                  \
              (void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request),             \
              (buffer, count, type, root, comm, request),                                                              \
              (char* buffer, MPI_Fint* count, MPI_Fint* type, MPI_Fint* root, MPI_Fint* comm, MPI_Fint* started, MPI_Fint* error), \
              (from_fortran(buffer), (int)*count, PMPI_Type_f2c(*type), (int)*root, PMPI_Comm_f2c(*comm), &request),    \
              *started = PMPI_Request_c2f(request);)
// clang-format on

#endif
