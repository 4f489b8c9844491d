/* What it takes an MPI to have one more process: MPI_Comm_spawn and MPI_Intercomm_merge, for bench/membership.sh. From the new process's
 * main() to the end of the first MPI_Allreduce of all: without the time that starting it took. Prints microseconds. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

static double now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

int main(int argc, char** argv) {
    const double begin = now_us();
    MPI_Init(&argc, &argv);
    MPI_Comm parent, between, all;
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
    } else {
        between = parent;
    }
    MPI_Intercomm_merge(between, parent != MPI_COMM_NULL, &all);
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    double took = parent != MPI_COMM_NULL ? now_us() - begin : 0, longest = 0;
    MPI_Reduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, all);
    int rank = 0;
    MPI_Comm_rank(all, &rank);
    if (rank == 0) printf("spawned %.2f\n", longest);
    fflush(stdout);
    MPI_Comm_free(&all);
    MPI_Finalize();
    return 0;
}
