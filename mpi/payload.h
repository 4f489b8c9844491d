/* The bytes of a buffer of MPI's: where they stand, if its type is a row of bytes without gaps and in order (layout.h); else packed. */
#ifndef COPPICE_MPI_PAYLOAD_H
#define COPPICE_MPI_PAYLOAD_H

#include <mpi.h>
#include <stddef.h>

struct payload {
    void* bytes;
    size_t size;
    void* buffer; /* the program's */
    int count;
    MPI_Datatype type;
    int packed;
};

/* The size in bytes of `count` elements; 0 and *known 0 where that can't be said (arguments that MPI refuses). */
size_t payload_size(int count, MPI_Datatype type, int* known);

/* With `pack` its bytes are there afterwards, else there is room for them. `later` says that it lives on when this call and those of
 * the same thread are over. MPI's code. */
int payload_open(struct payload* payload, void* buffer, int count, MPI_Datatype type, size_t size, int pack, int later);

/* Brings bytes that have come into the program's buffer. */
int payload_unpack(const struct payload* payload);

void payload_close(struct payload* payload, int later);

#endif
