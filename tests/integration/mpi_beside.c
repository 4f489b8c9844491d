/* An MPI program that uses Coppice beside MPI: broadcasts and barriers in turn, as any such program would.
 *
 *   mpirun -n 4 mpi_beside [ITERATIONS [mpi|launcher [WAY…]]]
 *
 * The exchange is MPI_Allgather, or the launcher's. Each WAY is a correction, or algorithm=NAME, and has a group of its own. Between two broadcasts every rank is in MPI_Barrier and makes no progress for Coppice: whatever
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

/* Broadcasts and barriers in turn, in a group of its own; how many payloads were wrong, at all ranks. */
static long alternate(coppice_context_t* context, coppice_group_options_t options, int iterations) {
    coppice_group_t* group = NULL;
    check(coppice_group_create(context, &options, &group));
    const int rank = (int)options.rank;
    const int size = (int)options.size;
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
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    check(coppice_group_destroy(group, COPPICE_NO_TIMEOUT));
    return all_wrong;
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const int iterations = argc > 1 ? atoi(argv[1]) : 200;
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    coppice_context_t* context = NULL;
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    if (argc < 3 || strcmp(argv[2], "launcher") != 0) options.exchange = exchange;
    options.rank = (uint32_t)rank;
    options.size = (uint32_t)size;
    check(coppice_context_create(NULL, &context));
    long all_wrong = 0;
    int way = 3;
    do {
        const char* const name = way < argc ? argv[way] : NULL; /* NULL: the defaults */
        const int is_algorithm = name != NULL && strncmp(name, "algorithm=", 10) == 0;
        options.algorithm = is_algorithm ? name + 10 : NULL;
        options.correction = is_algorithm ? NULL : name;
        const long wrong = alternate(context, options, iterations);
        if (rank == 0) {
            printf("%s: %d broadcasts among %d ranks: %ld wrong\n", name != NULL ? name : "default", iterations, size,
                   wrong);
            fflush(stdout);
        }
        all_wrong += wrong;
    } while (++way < argc);
    check(coppice_context_destroy(context));
    MPI_Finalize();
    return all_wrong == 0 ? 0 : 1;
}
