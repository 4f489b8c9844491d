/* A program of MPI as others write them, in one of these ways, each of which checks every byte:
 *
 *   operations splits | kept | types | requests | threads | other | unused | late
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank;
static int size;
static long wrong;

/* One broadcast of `count` integers from each process of it. */
static void broadcasts(MPI_Comm comm, int count) {
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
    /* A message that is longer than the network takes at once goes on while its sender is in a broadcast. */
    enum { kLong = 4000000 };
    char* message = calloc(kLong, 1);
    MPI_Request sent = MPI_REQUEST_NULL;
    if (rank == 1) MPI_Isend(message, kLong, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &sent);
    if (rank == 0) MPI_Recv(message, kLong, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    broadcasts(MPI_COMM_WORLD, 1);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    free(message);
}

static void* one_thread(void* argument) {
    for (int i = 0; i < 300; ++i)
        broadcasts(*(MPI_Comm*)argument, 2);
    return NULL;
}

/* Each thread has a communicator of its own, and makes its group at another time than others. */
static void threads(void) {
    MPI_Comm comms[3];
    pthread_t running[3];
    for (int i = 0; i < 3; ++i)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < 3; ++i)
        pthread_create(&running[(i + rank) % 3], NULL, one_thread, &comms[(i + rank) % 3]);
    for (int i = 0; i < 3; ++i)
        pthread_join(running[i], NULL);
    for (int i = 0; i < 3; ++i)
        MPI_Comm_free(&comms[i]);
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

static int has_loaded(const char* name) {
    FILE* maps = fopen("/proc/self/maps", "r");
    char line[4400];
    int found = 0;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        found |= strstr(line, name) != NULL;
    if (maps == NULL || fclose(maps) != 0) ++wrong;
    return found;
}

/* None of the operations that are Coppice's: its library is not there, and the preload is. */
static void unused(void) {
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    wrong += sum != size * (size - 1) / 2;
    wrong += !has_loaded("/libcoppice-") || has_loaded("/libcoppice.so");
}

/* Nor is it for those that need no group, until one does. */
static void late(void) {
    broadcasts(MPI_COMM_SELF, 3);
    unused();
    broadcasts(MPI_COMM_WORLD, 3);
    wrong += !has_loaded("/libcoppice.so");
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
    } ways[] = {{"splits", splits},   {"kept", kept},   {"types", types},   {"requests", requests},
                {"threads", threads}, {"other", other}, {"unused", unused}, {"late", late}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; ++i)
        if (strcmp(way, ways[i].name) == 0) ways[i].run();
    for (int i = 0; i < 3 && strcmp(way, "unused") != 0; ++i)
        MPI_Barrier(MPI_COMM_WORLD);
    long all_wrong = 0;
    MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%s: %ld wrong\n", way, all_wrong);
    MPI_Finalize();
    return all_wrong == 0 ? 0 : 1;
}
