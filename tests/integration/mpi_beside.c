/* An MPI program that uses Coppice beside MPI: broadcasts and barriers in turn, as any such program would.
 *
 *   mpirun -n 4 mpi_beside [ITERATIONS [launcher]]
 *
 * The exchange is MPI_Allgather, or the launcher's. Between two broadcasts every rank is in MPI_Barrier and makes no progress for Coppice: whatever
 * the others still need of it has to reach them all the same. Each payload is compared. */
#include <coppice/coppice.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int exchange(void* argument, const void* mine, size_t bytes, void* all) {
    (void)argument;
    return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD) != MPI_SUCCESS;
}

static void check(coppice_status_t status) {
    if (status == COPPICE_OK) return;
    fprintf(stderr, "mpi_beside: %s\n", coppice_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const int iterations = argc > 1 ? atoi(argv[1]) : 200;
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    coppice_context_t* context = NULL;
    coppice_group_t* group = NULL;
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    if (argc < 3) options.exchange = exchange;
    options.rank = (uint32_t)rank;
    options.size = (uint32_t)size;
    check(coppice_context_create(NULL, &context));
    check(coppice_group_create(context, &options, &group));

    long wrong = 0;
    for (int i = 0; i < iterations; ++i) {
        const int root = i % size;
        long payload[8];
        for (int k = 0; k < 8; ++k)
            payload[k] = rank == root ? 1000L * i + k : -1;
        check(coppice_broadcast(group, payload, sizeof payload, (uint32_t)root, NULL, COPPICE_NO_TIMEOUT));
        for (int k = 0; k < 8; ++k)
            wrong += payload[k] != 1000L * i + k;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    long all_wrong = 0;
    MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%d broadcasts among %d ranks: %ld wrong\n", iterations, size, all_wrong);
    check(coppice_group_destroy(group, COPPICE_NO_TIMEOUT));
    check(coppice_context_destroy(context));
    MPI_Finalize();
    return all_wrong == 0 ? 0 : 1;
}
