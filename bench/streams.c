/*
 * Streams of broadcasts: Coppice's and MPI's in the same processes, in turn. A rank waits for another between two
 * broadcasts only where the library wants it. Compiled with mpicc and run by streams.sh; not part of the build.
 *
 *   mpirun … streams BYTES OPERATIONS ROUNDS
 *
 * A line for each round: "one" or "rotating", microseconds an operation at the slowest rank with Coppice, with MPI.
 * Each payload is checked.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <coppice/coppice.h>
#include <mpi.h>

#include "measure.h"

typedef struct stream {
    coppice_group_t* group; /* NULL: with MPI */
    char* buffer;
    uint64_t bytes;
    uint64_t operations;
    int self;
    int ranks;
    int rotates;
    uint64_t wrong;
} stream_t;

static int exchange(void* argument, const void* mine, size_t bytes, void* all) {
    (void)argument;
    return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD) != MPI_SUCCESS;
}

static void check(coppice_status_t status) {
    if (status == COPPICE_OK) return;
    fprintf(stderr, "streams: %s\n", coppice_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void broadcast(const stream_t* stream, int root) {
    if (stream->group == NULL) {
        MPI_Bcast(stream->buffer, (int)stream->bytes, MPI_BYTE, root, MPI_COMM_WORLD);
        return;
    }
    check(coppice_broadcast(stream->group, stream->buffer, stream->bytes, (uint32_t)root, NULL, COPPICE_NO_TIMEOUT));
}

/* Microseconds an operation at the slowest rank; at rank 0. */
static double run(stream_t* stream) {
    MPI_Barrier(MPI_COMM_WORLD);
    const uint64_t start = measure_now();
    for (uint64_t i = 0; i < stream->operations; ++i) {
        const int root = stream->rotates ? (int)(i % (uint64_t)stream->ranks) : 0;
        if (root == stream->self) memset(stream->buffer, (int)(i & 0xff), stream->bytes);
        broadcast(stream, root);
        stream->wrong += (unsigned char)stream->buffer[stream->bytes - 1] != (i & 0xff);
    }
    double own = (double)(measure_now() - start) / (double)stream->operations / 1000;
    double slowest = 0;
    MPI_Reduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return slowest;
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    stream_t stream;
    memset(&stream, 0, sizeof stream);
    stream.bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 8;
    stream.operations = argc > 2 ? strtoull(argv[2], NULL, 10) : 5000;
    const uint64_t rounds = argc > 3 ? strtoull(argv[3], NULL, 10) : 9;
    MPI_Comm_rank(MPI_COMM_WORLD, &stream.self);
    MPI_Comm_size(MPI_COMM_WORLD, &stream.ranks);
    stream.buffer = (char*)calloc(1, stream.bytes);
    if (stream.bytes == 0 || stream.operations == 0 || stream.buffer == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
    measure_pin((uint32_t)stream.self);

    coppice_context_t* context = NULL;
    coppice_group_t* group = NULL;
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    options.exchange = exchange;
    options.rank = (uint32_t)stream.self;
    options.size = (uint32_t)stream.ranks;
    check(coppice_context_create(NULL, &context));
    check(coppice_group_create(context, &options, &group));

    /* Round 0 warms up. */
    for (uint64_t round = 0; round <= rounds; ++round) {
        for (stream.rotates = 0; stream.rotates <= 1; ++stream.rotates) {
            stream.group = group;
            const double ours = run(&stream);
            stream.group = NULL;
            const double theirs = run(&stream);
            if (stream.self == 0 && round > 0)
                printf("%s %.3f %.3f\n", stream.rotates ? "rotating" : "one", ours, theirs);
        }
    }
    uint64_t wrong = 0;
    MPI_Reduce(&stream.wrong, &wrong, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (wrong > 0) fprintf(stderr, "streams: %llu payloads were wrong\n", (unsigned long long)wrong);
    check(coppice_group_destroy(group, COPPICE_NO_TIMEOUT));
    check(coppice_context_destroy(context));
    free(stream.buffer);
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
