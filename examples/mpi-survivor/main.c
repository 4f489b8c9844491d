/* An ordinary MPI program, with nothing of Coppice's in it, that outlives its own processes:
 *
 *   coppice-mpirun --enable-recovery -np 4 mpi-survivor [RANK@STEP…]
 *
 * It integrates 4/(1+x²), which is pi. In each step every process adds a part of its own and broadcasts it. A process that is named
 * kills itself at that step. The others see MPI_Bcast fail where it was to be the root, and share out its part from the next step on.
 * All collectives that are called are Coppice's under coppice-mpirun: MPI's own would wait for the dead. */
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>

#define STEPS 200
#define MOST 64

static double part(int step, int number, int of) {
    const int slices = 1000;
    double sum = 0;
    for (int i = number; i < slices; i += of) {
        const double x = (step + (i + 0.5) / slices) / STEPS;
        sum += 4 / (1 + x * x) / slices / STEPS;
    }
    return sum;
}

/* The step's sum; `alive` is what this process knows of the others, the same at all of them. Less than 0 when a process has died. */
static double one_step(int step, int rank, int size, int* alive) {
    int number = 0;
    int of = 0;
    for (int r = 0; r < size; ++r) {
        if (r == rank) number = of;
        of += alive[r];
    }
    double sum = 0;
    int died = 0;
    for (int root = 0; root < size; ++root) {
        if (!alive[root]) continue;
        double value = part(step, number, of);
        if (MPI_Bcast(&value, 1, MPI_DOUBLE, root, MPI_COMM_WORLD) == MPI_SUCCESS) {
            sum += value;
        } else {
            alive[root] = 0;
            died = 1;
        }
    }
    return died ? -1 : sum;
}

int main(int argc, char** argv) {
    int rank = 0;
    int size = 0;
    int alive[MOST];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > MOST) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int r = 0; r < size; ++r)
        alive[r] = 1;
    MPI_Barrier(MPI_COMM_WORLD);

    double pi = 0;
    for (int step = 0; step < STEPS; ++step) {
        for (int i = 1; i < argc; ++i) {
            int victim = -1;
            int when = -1;
            if (sscanf(argv[i], "%d@%d", &victim, &when) == 2 && victim == rank && when == step) raise(SIGKILL);
        }
        double sum = one_step(step, rank, size, alive);
        while (sum < 0)
            sum = one_step(step, rank, size, alive);
        pi += sum;
    }
    MPI_Barrier(MPI_COMM_WORLD);

    int living = 0;
    int first = size;
    for (int r = size - 1; r >= 0; --r) {
        living += alive[r];
        if (alive[r]) first = r;
    }
    if (rank == first) {
        printf("%d of %d processes are left; pi is %.9f, wrong by %.1e\n", living, size, pi,
               fabs(pi - 3.14159265358979));
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
