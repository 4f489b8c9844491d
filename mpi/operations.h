/* Which of MPI's operations are Coppice's, a line for each; and which of the others are counted. Everything else passes by.
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

/*   COUNTED(name, C's parameters, their names)                                 Calls from C, which go on to PMPI. */
#define COPPICE_MPI_COUNTED(COUNTED)                                                                                   \
    COUNTED(Allreduce, (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),           \
            (from, to, count, type, op, comm))                                                                         \
    COUNTED(Reduce, (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),    \
            (from, to, count, type, op, root, comm))                                                                   \
    COUNTED(Reduce_scatter_block, (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), \
            (from, to, count, type, op, comm))                                                                         \
    COUNTED(Reduce_scatter, (const void* from, void* to, const int* counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm), \
            (from, to, counts, type, op, comm))                                                                        \
    COUNTED(Scan, (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),                \
            (from, to, count, type, op, comm))                                                                         \
    COUNTED(Exscan, (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),              \
            (from, to, count, type, op, comm))                                                                         \
    COUNTED(Gather, (const void* from, int sent, MPI_Datatype type, void* to, int got, MPI_Datatype as, int root, MPI_Comm comm), \
            (from, sent, type, to, got, as, root, comm))                                                               \
    COUNTED(Gatherv, (const void* from, int sent, MPI_Datatype type, void* to, const int* got, const int* places,      \
                      MPI_Datatype as, int root, MPI_Comm comm),                                                       \
            (from, sent, type, to, got, places, as, root, comm))                                                       \
    COUNTED(Scatter, (const void* from, int sent, MPI_Datatype type, void* to, int got, MPI_Datatype as, int root, MPI_Comm comm), \
            (from, sent, type, to, got, as, root, comm))                                                               \
    COUNTED(Scatterv, (const void* from, const int* sent, const int* places, MPI_Datatype type, void* to, int got,     \
                       MPI_Datatype as, int root, MPI_Comm comm),                                                      \
            (from, sent, places, type, to, got, as, root, comm))                                                       \
    COUNTED(Allgather, (const void* from, int sent, MPI_Datatype type, void* to, int got, MPI_Datatype as, MPI_Comm comm), \
            (from, sent, type, to, got, as, comm))                                                                     \
    COUNTED(Allgatherv, (const void* from, int sent, MPI_Datatype type, void* to, const int* got, const int* places,   \
                         MPI_Datatype as, MPI_Comm comm),                                                              \
            (from, sent, type, to, got, places, as, comm))                                                             \
    COUNTED(Alltoall, (const void* from, int sent, MPI_Datatype type, void* to, int got, MPI_Datatype as, MPI_Comm comm), \
            (from, sent, type, to, got, as, comm))                                                                     \
    COUNTED(Alltoallv, (const void* from, const int* sent, const int* sent_from, MPI_Datatype type, void* to,          \
                        const int* got, const int* places, MPI_Datatype as, MPI_Comm comm),                            \
            (from, sent, sent_from, type, to, got, places, as, comm))
// clang-format on

#endif
