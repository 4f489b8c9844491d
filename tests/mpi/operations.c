/* A program of MPI as others write them, in one of these ways, each of which checks every byte:
 *
 *   operations splits | kept | types | layouts | requests | freed | sent | apart | last | threads | other | often | large | unpackable | unpackable_later |
 *              unused | late | counted | requests_alone [say]
 *
 * say: of MPICH, each process says how it went in MPI_Finalize, before MPICH's own part of that.
 */
#include "operations.h"

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rank;
int size;
long wrong;

void broadcasts(MPI_Comm comm, int count) {
    int my_rank = 0;
    int my_size = 0;
    MPI_Comm_rank(comm, &my_rank);
    MPI_Comm_size(comm, &my_size);
    int* numbers = malloc((size_t)count * sizeof *numbers);
    for (int root = 0; root < my_size; ++root) {
        for (int i = 0; i < count; ++i)
            numbers[i] = my_rank == root ? 1000 * root + i : -1;
        MPI_Bcast(numbers, count, MPI_INT, root, comm);
        for (int i = 0; i < count; ++i)
            wrong += numbers[i] != 1000 * root + i;
    }
    free(numbers);
}

/* Communicators that come and go, in another order than they came in. */
static void splits(void) {
    for (int i = 0; i < 100; ++i) {
        MPI_Comm half;
        MPI_Comm reversed;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
        MPI_Comm_split(MPI_COMM_WORLD, i % 5 == rank ? MPI_UNDEFINED : 0, -rank, &reversed);
        if (i % 8 == 1 && reversed != MPI_COMM_NULL) broadcasts(reversed, 2);
        if (i % 16 < 2) broadcasts(half, 3);
        MPI_Comm_free(&half);
        if (reversed != MPI_COMM_NULL) MPI_Comm_free(&reversed);
    }
}

/* Many that are there at once; some are never freed, and the duplicates have groups of their own. */
static void kept(void) {
    MPI_Comm comms[12];
    broadcasts(MPI_COMM_WORLD, 1);
    for (int i = 0; i < 12; ++i) {
        MPI_Comm_dup(i % 2 == 0 || i < 2 ? MPI_COMM_WORLD : comms[i - 1], &comms[i]);
        broadcasts(comms[i], 1);
    }
    for (int i = 11; i >= 0; i -= 2)
        MPI_Comm_free(&comms[i]);
    for (int i = 0; i < 12; i += 2)
        broadcasts(comms[i], 4);
}

/* A column of a matrix at the root is a row elsewhere, or the other way around; and what else has gaps, or none. */
static void types(void) {
    enum { kN = 12 };
    MPI_Datatype column, dense, duplicate, reversed;
    MPI_Type_vector(kN, 1, kN, MPI_DOUBLE, &column);
    MPI_Type_vector(3, 4, 4, MPI_DOUBLE, &dense);
    MPI_Type_dup(dense, &duplicate);
    const int lengths[2] = {6, 6};
    const int places[2] = {6, 0};
    MPI_Type_indexed(2, lengths, places, MPI_DOUBLE, &reversed);
    MPI_Datatype all[] = {column, dense, duplicate, reversed};
    for (int t = 0; t < 4; ++t)
        MPI_Type_commit(&all[t]);
    for (int turn = 0; turn < 4 * 4 * size; ++turn) {
        const int root = turn % size;
        MPI_Datatype type = all[(turn / size + (rank == root ? 0 : turn / size / 4)) % 4];
        double matrix[kN * kN];
        double row[kN];
        for (int i = 0; i < kN; ++i)
            row[i] = rank == root ? turn + i : -1;
        for (int i = 0; i < kN * kN; ++i)
            matrix[i] = -2;
        /* Into and out of the type by way of this process alone. */
        MPI_Sendrecv(row, kN, MPI_DOUBLE, 0, 0, matrix, 1, type, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        MPI_Bcast(matrix, 1, type, root, MPI_COMM_WORLD);
        MPI_Sendrecv(matrix, 1, type, 0, 0, row, kN, MPI_DOUBLE, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        long others = 0;
        for (int i = 0; i < kN; ++i)
            wrong += row[i] != turn + i;
        for (int i = 0; i < kN * kN; ++i)
            others += matrix[i] == -2;
        wrong += others != kN * kN - kN;
    }
    struct {
        double value;
        int place;
        int gap;
    } pair = {rank == 0 ? 2.5 : 0, rank == 0 ? 7 : 0, 42 + rank};
    MPI_Bcast(&pair, 1, MPI_DOUBLE_INT, 0, MPI_COMM_WORLD);
    wrong += pair.value != 2.5 || pair.place != 7 || pair.gap != 42 + rank;
    for (int t = 0; t < 4; ++t)
        MPI_Type_free(&all[t]);
}

static int lines_of_maps(const char* name) {
    FILE* maps = fopen("/proc/self/maps", "r");
    char line[4400];
    int found = 0;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        found += strstr(line, name) != NULL;
    if (maps == NULL || fclose(maps) != 0) ++wrong;
    return found;
}

/* From process 1 to process 0, longer than the network takes at once. */
static MPI_Request send_long_message(void) {
    enum { kLong = 4000000 };
    static char message[kLong];
    MPI_Request request = MPI_REQUEST_NULL;
    memset(message, rank == 1 ? 7 : 0, kLong);
    if (rank == 1) MPI_Isend(message, kLong, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &request);
    if (rank == 0) MPI_Recv(message, kLong, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; rank == 0 && i < kLong; ++i)
        wrong += message[i] != 7;
    return request;
}

/* More than a group's window has room for, completed in other orders, with others that wait between them. */
static void requests(void) {
    enum { kMany = 90 };
    static int numbers[kMany][6];
    MPI_Request started[kMany];
    for (int turn = 0; turn < 3; ++turn) {
        if (turn == 1) broadcasts(MPI_COMM_WORLD, 1);
        for (int i = 0; i < kMany; ++i) {
            const int root = i % size;
            MPI_Datatype spread;
            MPI_Type_vector(3, 1, 2, MPI_INT, &spread);
            MPI_Type_commit(&spread);
            for (int k = 0; k < 6; ++k)
                numbers[i][k] = rank == root ? turn + i + k : -1;
            MPI_Ibcast(numbers[i], 1, spread, root, MPI_COMM_WORLD, &started[i]);
            MPI_Type_free(&spread);
        }
        if (turn == 2) broadcasts(MPI_COMM_WORLD, 5);
        for (int i = 0; i < 10; ++i)
            MPI_Wait(&started[kMany - 1 - i], MPI_STATUS_IGNORE);
        int done = 0;
        while (!done)
            MPI_Testall(kMany - 20, started, &done, MPI_STATUSES_IGNORE);
        MPI_Waitall(kMany, started, MPI_STATUSES_IGNORE);
        for (int i = 0; i < kMany; ++i)
            for (int k = 0; k < 6; k += 2)
                wrong += numbers[i][k] != turn + i + k;
    }
    /* It goes on while its sender is in a broadcast. */
    MPI_Request sent = send_long_message();
    broadcasts(MPI_COMM_WORLD, 1);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
}

/* How much of Coppice's memory is mapped: more with each group. */
static int mappings(void) {
    return lines_of_maps("/memfd:coppice");
}

/* A communicator may be freed while broadcasts are pending on it, and its group ends nevertheless. */
static void freed(void) {
    enum { kTurns = 3, kMany = 90, kInts = 5 };
    static int numbers[kTurns][kMany][kInts];
    MPI_Request started[kTurns][kMany];
    broadcasts(MPI_COMM_WORLD, 1);
    const int before = mappings();
    for (int turn = 0; turn < kTurns; ++turn) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        broadcasts(comm, 1);
        wrong += mappings() <= before;
        for (int i = 0; i < kMany; ++i) {
            for (int k = 0; k < kInts; ++k)
                numbers[turn][i][k] = rank == i % size ? turn + i + k : -1;
            MPI_Ibcast(numbers[turn][i], kInts, MPI_INT, i % size, comm, &started[turn][i]);
        }
        MPI_Comm_free(&comm);
        if (turn == 0) MPI_Waitall(kMany, started[0], MPI_STATUSES_IGNORE);
    }
    for (int turn = 1; turn < kTurns; ++turn)
        MPI_Waitall(kMany, started[turn], MPI_STATUSES_IGNORE);
    for (int turn = 0; turn < kTurns; ++turn)
        for (int i = 0; i < kMany; ++i)
            for (int k = 0; k < kInts; ++k)
                wrong += numbers[turn][i][k] != turn + i + k;
    while (mappings() > before)
        broadcasts(MPI_COMM_SELF, 1);
}

/* A process frees a communicator before others have received what it has sent there, and they wait for a message of its first. */
static void sent(void) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    broadcasts(comm, 1);
    MPI_Request request = send_long_message();
    int number = rank == 1 ? 4711 : 0;
    MPI_Bcast(&number, 1, MPI_INT, 1, comm);
    wrong += number != 4711;
    MPI_Comm_free(&comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* One comes back to Coppice again and again behind MPI_Comm_free, the others not before they have a message of its. */
static void apart(void) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    broadcasts(MPI_COMM_WORLD, 1);
    const int before = mappings();
    broadcasts(comm, 1);
    MPI_Comm_free(&comm);
    broadcasts(MPI_COMM_SELF, 1);
    int number = rank == 0 ? 4711 : 0;
    if (rank != 0) MPI_Send(&number, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    for (int other = 1; rank == 0 && other < size; ++other)
        MPI_Recv(&number, 1, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (rank == 0 && mappings() > before)
        broadcasts(MPI_COMM_SELF, 1);
    number = rank == 0 ? 4711 : 0;
    for (int other = 1; rank == 0 && other < size; ++other)
        MPI_Send(&number, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
    if (rank != 0) MPI_Recv(&number, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    wrong += number != 4711;
}

/* As sent(), and what comes next is MPI_Finalize. */
static void last(void) {
    broadcasts(MPI_COMM_WORLD, 1);
    MPI_Request request = send_long_message();
    int number = rank == 1 ? 4711 : 0;
    MPI_Bcast(&number, 1, MPI_INT, 1, MPI_COMM_WORLD);
    wrong += number != 4711;
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
}

/* A communicator that is worth a group only after a while: what could not be Coppice's does not count. */
static void often(void) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    broadcasts(comm, 2049);
    for (int i = 0; i < 1000 + 10; ++i) {
        int number = rank == i % size ? i : -1;
        int sum = 0;
        if (i < 24) MPI_Barrier(comm);
        if (i < 100) MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
        MPI_Bcast(&number, 1, MPI_INT, i % size, comm);
        wrong += number != i;
    }
    MPI_Barrier(comm);
    broadcasts(comm, 2049);
    MPI_Comm_free(&comm);
}

/* As much as goes into one message, and more. */
static void large(void) {
    broadcasts(MPI_COMM_WORLD, 2048);
    broadcasts(MPI_COMM_WORLD, 2049);
}

/* The root's type is one that MPI refuses to pack. */
static void unpackable(int later) {
    const int lengths[2] = {2, 2};
    const int places[2] = {2, 0};
    int numbers[4] = {0};
    MPI_Request request;
    MPI_Datatype reversed;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    broadcasts(MPI_COMM_WORLD, 1);
    /* In MPI's own broadcast the others wait for good: its root gets an error, and goes on. */
    if (mappings() == 0) {
        fprintf(stderr, "unpackable: Coppice has no group here\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Type_indexed(2, lengths, places, MPI_INT, &reversed);
    if (rank != 0) MPI_Type_commit(&reversed);
    if (later) {
        MPI_Ibcast(numbers, 1, reversed, 0, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Bcast(numbers, 1, reversed, 0, MPI_COMM_WORLD);
    }
    ++wrong; /* the program has ended */
}

static void unpackable_at_once(void) {
    unpackable(0);
}

static void unpackable_later(void) {
    unpackable(1);
}

static void* one_thread(void* argument) {
    enum { kMany = 40 };
    int numbers[kMany];
    MPI_Request started[kMany];
    MPI_Comm* const comm = argument;
    for (int i = 0; i < 300; ++i)
        broadcasts(*comm, 2);
    for (int i = 0; i < kMany; ++i) {
        numbers[i] = rank == i % size ? i : -1;
        MPI_Ibcast(&numbers[i], 1, MPI_INT, i % size, *comm, &started[i]);
    }
    MPI_Comm_free(comm);
    MPI_Waitall(kMany, started, MPI_STATUSES_IGNORE);
    for (int i = 0; i < kMany; ++i)
        __atomic_fetch_add(&wrong, numbers[i] != i, __ATOMIC_RELAXED);
    return NULL;
}

/* Each thread has a communicator of its own, and makes its group, and frees it, at another time than others. */
static void threads(void) {
    MPI_Comm comms[3];
    pthread_t running[3];
    for (int i = 0; i < 3; ++i)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < 3; ++i)
        pthread_create(&running[(i + rank) % 3], NULL, one_thread, &comms[(i + rank) % 3]);
    for (int i = 0; i < 3; ++i)
        pthread_join(running[i], NULL);
}

/* Communicators that are not for Coppice, payloads that are too large, and arguments that MPI refuses. */
static void other(void) {
    broadcasts(MPI_COMM_SELF, 3);
    MPI_Barrier(MPI_COMM_SELF);
    MPI_Comm half;
    MPI_Comm between;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &between);
    int number = rank == 0 ? 4711 : 0;
    MPI_Bcast(&number, 1, MPI_INT, rank == 0 ? MPI_ROOT : rank % 2 == 0 ? MPI_PROC_NULL : 0, between);
    wrong += rank % 2 == 1 && number != 4711;
    MPI_Barrier(between);
    MPI_Comm_free(&between);
    broadcasts(half, 3000);
    MPI_Comm_free(&half);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    wrong += MPI_Bcast(&number, 1, MPI_INT, size, MPI_COMM_WORLD) == MPI_SUCCESS;
    wrong += MPI_Bcast(&number, -1, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS;
    wrong += MPI_Bcast(NULL, 0, MPI_INT, 0, MPI_COMM_WORLD) != MPI_SUCCESS;
    broadcasts(MPI_COMM_WORLD, 1);
}

/* None of the operations that are Coppice's: its library is not there, and the preload is. */
static void unused(void) {
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    wrong += sum != size * (size - 1) / 2;
    wrong += lines_of_maps("/libcoppice-") == 0 || lines_of_maps("/libcoppice.so") != 0;
}

/* Nor is it for those that need no group, until one does. */
static void late(void) {
    broadcasts(MPI_COMM_SELF, 3);
    unused();
    broadcasts(MPI_COMM_WORLD, 3);
    wrong += lines_of_maps("/libcoppice.so") == 0;
}

static int verdict(const char* way, long all_wrong) {
    if (mappings() > 0) fprintf(stderr, "%s: Coppice's memory is still there\n", way);
    return all_wrong == 0 && mappings() == 0 ? 0 : 1;
}

static long all_wrong;

/* MPICH's MPI_Finalize comes here behind the preload's part, and before its own. */
static int say_verdict(MPI_Comm comm, int key, void* way, void* extra) {
    (void)comm;
    (void)key;
    (void)extra;
    printf("%s: process %d is %s\n", (const char*)way, rank, verdict(way, all_wrong) == 0 ? "right" : "wrong");
    fflush(NULL);
    return MPI_SUCCESS;
}

int main(int argc, char** argv) {
    const char* way = argc > 1 ? argv[1] : "";
    int provided = MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, strcmp(way, "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const struct {
        const char* name;
        void (*run)(void);
    } ways[] = {{"splits", splits},
                {"kept", kept},
                {"types", types},
                {"layouts", layouts},
                {"requests", requests},
                {"freed", freed},
                {"sent", sent},
                {"apart", apart},
                {"last", last},
                {"threads", threads},
                {"other", other},
                {"often", often},
                {"large", large},
                {"unpackable", unpackable_at_once},
                {"unpackable_later", unpackable_later},
                {"unused", unused},
                {"late", late},
                {"counted", counted},
                {"requests_alone", requests_alone}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; ++i)
        if (strcmp(way, ways[i].name) == 0) ways[i].run();
    const int ends_soon = strcmp(way, "last") == 0;
    for (int i = 0; i < 3 && !ends_soon && strcmp(way, "unused") != 0; ++i)
        MPI_Barrier(MPI_COMM_WORLD);
    all_wrong = ends_soon ? wrong : 0;
    if (!ends_soon) MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%s: %ld wrong\n", way, all_wrong);
    if (argc > 2 && strcmp(argv[2], "say") == 0) {
        int key = MPI_KEYVAL_INVALID;
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, say_verdict, &key, NULL);
        MPI_Comm_set_attr(MPI_COMM_WORLD, key, argv[1]);
    }
    MPI_Finalize();
    return verdict(way, all_wrong);
}
