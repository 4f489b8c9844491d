/* More ways of the test program: types, what is counted, and communicators with MPI_Ibcast alone. */
#include "operations.h"

#include <mpi.h>
#include <string.h>

/* Every byte as MPI's own broadcast leaves it, of types that are rows of bytes and of such that are not. */
static void one_layout(MPI_Datatype type, int count) {
    enum { kBytes = 512 };
    char ours[kBytes];
    char theirs[kBytes];
    MPI_Type_commit(&type);
    for (int root = 0; root < size; ++root) {
        for (int i = 0; i < kBytes; ++i)
            ours[i] = theirs[i] = (char)(rank == root ? i : -1 - rank);
        MPI_Bcast(ours + 64, count, type, root, MPI_COMM_WORLD);
        PMPI_Bcast(theirs + 64, count, type, root, MPI_COMM_WORLD);
        wrong += memcmp(ours, theirs, kBytes) != 0;
    }
    MPI_Type_free(&type);
}

void layouts(void) {
    const int lengths[3] = {1, 1, 2};
    const MPI_Datatype parts[3] = {MPI_INT, MPI_FLOAT, MPI_DOUBLE};
    MPI_Datatype all[9];
    MPI_Type_create_struct(3, lengths, (const MPI_Aint[]){0, 4, 8}, parts, &all[0]);
    MPI_Type_create_hvector(3, 2, 8, MPI_INT, &all[1]);
    MPI_Type_indexed(2, (const int[]){2, 3}, (const int[]){5, 7}, MPI_SHORT, &all[2]);
    MPI_Type_create_hindexed(2, (const int[]){2, 2}, (const MPI_Aint[]){-8, 0}, MPI_INT, &all[3]);
    MPI_Type_create_resized(MPI_DOUBLE, 0, 16, &all[4]);
    MPI_Type_create_subarray(2, (const int[]){4, 5}, (const int[]){2, 5}, (const int[]){1, 0}, MPI_ORDER_C, MPI_INT,
                             &all[5]);
    for (int i = 0; i < 6; ++i)
        one_layout(all[i], 1);
    MPI_Type_create_struct(3, lengths, (const MPI_Aint[]){4, 0, 8}, parts, &all[6]);
    MPI_Type_create_resized(MPI_DOUBLE, 0, 16, &all[7]);
    MPI_Type_create_subarray(2, (const int[]){4, 5}, (const int[]){2, 3}, (const int[]){1, 0}, MPI_ORDER_C, MPI_INT,
                             &all[8]);
    for (int i = 6; i < 9; ++i)
        one_layout(all[i], 2);
}

/* MPI_Ibcast makes no group, and counts: the next call that may wait makes it. On the other communicator none comes. */
void requests_alone(void) {
    enum { kBefore = 1023, kBehind = 5 };
    MPI_Comm comm;
    MPI_Comm other;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    for (int i = 0; i < kBefore + kBehind; ++i) {
        int numbers[2] = {rank == i % size ? i : -1, rank == i % size ? -i : -1};
        MPI_Ibcast(&numbers[0], 1, MPI_INT, i % size, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Ibcast(&numbers[1], 1, MPI_INT, i % size, other, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        wrong += numbers[0] != i || numbers[1] != -i;
        if (i + 1 == kBefore) broadcasts(comm, 1);
    }
    MPI_Comm_free(&comm);
    MPI_Comm_free(&other);
}

/* What the preload counts and leaves to MPI. */
void counted(void) {
    enum { kMost = 64 };
    int from[kMost] = {0};
    int to[kMost] = {0};
    int counts[kMost];
    int places[kMost];
    for (int i = 0; i < kMost; ++i) {
        from[i] = rank;
        counts[i] = 1;
        places[i] = i;
    }
    MPI_Allreduce(from, to, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    wrong += to[0] != size * (size - 1) / 2;
    MPI_Reduce_scatter_block(from, to, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce_scatter(from, to, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    wrong += to[0] != size * (size - 1) / 2;
    MPI_Scan(from, to, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    wrong += to[0] != rank * (rank + 1) / 2;
    MPI_Exscan(from, to, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    wrong += rank > 0 && to[0] != rank * (rank - 1) / 2;
    MPI_Gather(from, 1, MPI_INT, to, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Gatherv(from, 1, MPI_INT, to, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
    wrong += rank == 0 && to[size - 1] != size - 1;
    MPI_Scatter(to, 1, MPI_INT, from, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Scatterv(to, counts, places, MPI_INT, from, 1, MPI_INT, 0, MPI_COMM_WORLD);
    wrong += from[0] != rank;
    MPI_Allgather(from, 1, MPI_INT, to, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgatherv(from, 1, MPI_INT, to, counts, places, MPI_INT, MPI_COMM_WORLD);
    wrong += to[size - 1] != size - 1;
    MPI_Alltoall(from, 1, MPI_INT, to, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Alltoallv(from, counts, places, MPI_INT, to, counts, places, MPI_INT, MPI_COMM_WORLD);
    wrong += to[size - 1] != size - 1;
    MPI_Reduce(from, to, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
}
