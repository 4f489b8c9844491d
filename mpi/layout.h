/* Where the bytes of a type of MPI's are: most types that programs make are rows of bytes without gaps, in whatever way they were made. */
#ifndef COPPICE_MPI_LAYOUT_H
#define COPPICE_MPI_LAYOUT_H

#include <mpi.h>

/* A type whose bytes, in the order in which MPI packs them, are those from `at` to `at` + `size`. */
struct row {
    MPI_Aint at;
    MPI_Aint size;   /* 0: the type has no bytes */
    MPI_Aint extent; /* from one element to the next */
};

/* Whether the type is such a row. It is found out once for each type that the program makes: an attribute keeps it. */
int is_row(MPI_Datatype type, struct row* row);

/* Whether the program has made it, and not MPI: then it may be freed, and its handle used again. */
int is_made_type(MPI_Datatype type);

#endif
