/* The doors by which programs come in: MPI's own names, before MPI's. Each asks whether the operation is Coppice's, and passes it on to
 * PMPI where not. */
#include <mpi.h>

#include "collectives.h"
#include "communicators.h"
#include "operations.h"
#include "report.h"

#define DOOR __attribute__((visibility("default")))

#define C_DOOR(name, lower, upper, parameters, arguments, ...) \
    DOOR int MPI_##name parameters {                           \
        const int code = ours_##name arguments;                \
        return code == PASS_ON ? PMPI_##name arguments : code; \
    }

COPPICE_MPI_OPERATIONS(C_DOOR)

#define COUNTING_DOOR(name, parameters, arguments) \
    DOOR int MPI_##name parameters {               \
        count_call(kCounted##name);                \
        return PMPI_##name arguments;              \
    }

COPPICE_MPI_COUNTED(COUNTING_DOOR)

/* Where another MPI has been loaded since the program was started: by Python, for example. */
DOOR int MPI_Init(int* argc, char*** argv) {
    refuse_other_mpi();
    const int code = PMPI_Init(argc, argv);
    if (code == MPI_SUCCESS) expect_report();
    return code;
}

DOOR int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
    refuse_other_mpi();
    const int code = PMPI_Init_thread(argc, argv, required, provided);
    if (code == MPI_SUCCESS) expect_report();
    return code;
}

/* The module mpi_f08 passes the same addresses as the others, as its handles are integers in a structure; its error may be left out. */
#ifdef OPEN_MPI
/* Open MPI's Fortran calls PMPI. */
extern int mpi_fortran_bottom_ __attribute__((weak));

static void* from_fortran(char* buffer) {
    return buffer == (char*)&mpi_fortran_bottom_ ? MPI_BOTTOM : buffer;
}

#define FORTRAN_DOOR(name, lower, upper, parameters, arguments, fortran_parameters, fortran_arguments, after) \
    DOOR void mpi_##lower##_ fortran_parameters {                                                             \
        MPI_Request request = MPI_REQUEST_NULL;                                                               \
        (void)request;                                                                                        \
        const int code = MPI_##name fortran_arguments;                                                        \
        after if (error)* error = code;                                                                       \
    }                                                                                                         \
    DOOR void mpi_##lower fortran_parameters __attribute__((alias("mpi_" #lower "_")));                       \
    DOOR void mpi_##lower##__ fortran_parameters __attribute__((alias("mpi_" #lower "_")));                   \
    DOOR void MPI_##upper fortran_parameters __attribute__((alias("mpi_" #lower "_")));                       \
    DOOR void mpi_##lower##_f08_ fortran_parameters __attribute__((alias("mpi_" #lower "_")));

COPPICE_MPI_OPERATIONS(FORTRAN_DOOR)
#else
/* MPICH's Fortran calls MPI, and comes in by the doors above, but for the module mpi_f08 where there is no buffer: this calls PMPI. */
DOOR void mpi_barrier_f08_(MPI_Fint* comm, MPI_Fint* error) {
    const int code = MPI_Barrier(PMPI_Comm_f2c(*comm));
    if (error) *error = code;
}
#endif
