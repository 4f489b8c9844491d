#include "requests.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "library.h"
#include "retired.h"
#include "shared.h"

struct pending {
    struct communicator* communicator;
    struct payload payload;
    int root;
    coppice_request_t* started; /* NULL while the window is full */
    MPI_Request request;
    int code;
    int complete;
    struct pending* next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of the list, oldest first */
static struct pending* oldest;
static struct pending** end = &oldest;
static int registered;

/* In the order in which they were called, on each communicator. */
static coppice_status_t start(struct pending* pending) {
    const coppice_status_t status =
        coppice.broadcast_nb(pending->communicator->group, pending->payload.bytes, pending->payload.size,
                             (uint32_t)pending->root, &pending->started);
    if (status != COPPICE_ERR_BUSY) --pending->communicator->unstarted;
    return status == COPPICE_OK ? COPPICE_IN_PROGRESS : status;
}

static void finish(struct pending* pending, coppice_status_t status) {
    if (pending->started != NULL) coppice.request_free(pending->started);
    pending->code = code_of(status);
    if (status == COPPICE_OK && pending->root != pending->communicator->rank)
        pending->code = payload_unpack(&pending->payload);
    shared_end(&pending->communicator->pending); /* it may be gone now */
    payload_close(&pending->payload, 1);
    SHARED_PUBLISH(pending->complete, 1);
    PMPI_Grequest_complete(pending->request);
}

int poll_requests(void) {
    int done = 0;
    look_at_retired();
    /* MPI's progress may be made from within this function. */
    if (SHARED_READ(oldest) == NULL || pthread_mutex_trylock(&mutex) != 0) return 0;
    const struct communicator* full = NULL;
    for (struct pending** place = &oldest; *place != NULL;) {
        struct pending* pending = *place;
        coppice_status_t status = COPPICE_ERR_BUSY;
        if (pending->started != NULL) {
            status = coppice.request_test(pending->started, NULL);
        } else if (pending->communicator != full) {
            status = start(pending);
        }
        if (status == COPPICE_ERR_BUSY) full = pending->communicator;
        if (status == COPPICE_IN_PROGRESS || status == COPPICE_ERR_BUSY) {
            place = &pending->next;
            continue;
        }
        *place = pending->next;
        if (end == &pending->next) end = place;
        finish(pending, status);
        ++done;
    }
    pthread_mutex_unlock(&mutex);
    return done;
}

void let_mpi_work(void) {
    int flag = 0;
    PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    poll_requests();
}

static int asked(void* state, MPI_Status* status) {
    const struct pending* pending = state;
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return pending->code;
}

static int freed(void* state) {
    free(state);
    return MPI_SUCCESS;
}

static int cancelled(void* state, int complete) {
    (void)state;
    (void)complete;
    return MPI_SUCCESS; /* what has begun at other processes goes on */
}

#ifdef OPEN_MPI
/* Open MPI calls what is registered here whenever it makes progress. That is not of MPI's interface, so it is looked for. */
typedef int (*change_progress_fn)(int (*function)(void));

static change_progress_fn find_progress(const char* name) {
    change_progress_fn function = NULL;
    *(void**)&function = dlsym(RTLD_DEFAULT, name);
    return function;
}

int can_have_requests(void) {
    return find_progress("opal_progress_register") != NULL && find_progress("opal_progress_unregister") != NULL;
}

static int make_request(struct pending* pending) {
    if (!shared_swap(&registered, 1)) find_progress("opal_progress_register")(poll_requests);
    return PMPI_Grequest_start(asked, freed, cancelled, pending, &pending->request);
}

void end_requests(void) {
    if (shared_swap(&registered, 0)) find_progress("opal_progress_unregister")(poll_requests);
}
#else
static int polled(void* state, MPI_Status* status) {
    (void)state;
    (void)status;
    poll_requests();
    return MPI_SUCCESS;
}

static int waited(int count, void** states, double timeout, MPI_Status* status) {
    (void)timeout;
    (void)status;
    for (int i = 0; i < count; ++i) {
        struct pending* pending = states[i];
        while (!SHARED_READ(pending->complete))
            let_mpi_work();
    }
    return MPI_SUCCESS;
}

int can_have_requests(void) {
    return 1;
}

static int make_request(struct pending* pending) {
    return PMPIX_Grequest_start(asked, freed, cancelled, polled, waited, pending, &pending->request);
}

void end_requests(void) {
    (void)registered;
}
#endif

int start_broadcast(struct communicator* communicator, const struct payload* payload, int root, MPI_Request* request) {
    struct pending* pending = calloc(1, sizeof *pending);
    if (pending == NULL) return MPI_ERR_NO_MEM;
    *pending = (struct pending){.communicator = communicator, .payload = *payload, .root = root};
    const int code = make_request(pending);
    if (code != MPI_SUCCESS) {
        free(pending);
        return code;
    }
    *request = pending->request;
    pthread_mutex_lock(&mutex);
    ++communicator->unstarted;
    shared_begin(&communicator->pending);
    *end = pending;
    end = &pending->next;
    pthread_mutex_unlock(&mutex);
    poll_requests();
    return MPI_SUCCESS;
}
