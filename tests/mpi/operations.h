/* What the ways of the test program (operations.c) have in common. */
#ifndef COPPICE_TESTS_MPI_OPERATIONS_H
#define COPPICE_TESTS_MPI_OPERATIONS_H

#include <mpi.h>

extern int rank;
extern int size;
extern long wrong;

/* One broadcast of `count` integers from each process of it. */
void broadcasts(MPI_Comm comm, int count);

/* By more_operations.c. */
void layouts(void);
void counted(void);
void requests_alone(void);

#endif
