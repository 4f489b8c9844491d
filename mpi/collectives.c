#include "collectives.h"

#include "communicators.h"
#include "library.h"
#include "payload.h"
#include "requests.h"
#include "shared.h"

static coppice_status_t wait_for(coppice_request_t* request) {
    coppice_status_t status = COPPICE_ERR_TIMEOUT;
    while ((status = coppice.request_wait(request, NULL, PATIENCE_NS)) == COPPICE_ERR_TIMEOUT)
        let_mpi_work();
    coppice.request_free(request);
    return status;
}

static int pass_on(enum operation operation, enum reason reason) {
    count_passed_on(operation, reason);
    return PASS_ON;
}

/* All processes call the same operations of a communicator in the same order, so they count alike. */
static int pass_on_without_group(enum operation operation, struct communicator* communicator) {
    const int counts = communicator->is_unasked || communicator->reason == kSeldom;
    if (counts && communicator->after > (communicator->is_unasked ? -INT_MAX : 0)) --communicator->after;
    return pass_on(operation, communicator->reason);
}

/* Decides in the same way at all processes, or reports arguments that MPI refuses. */
static int is_ours(enum operation operation, struct communicator* communicator, int count, MPI_Datatype type, int root,
                   size_t* size) {
    if (communicator->group == NULL && communicator->reason != kSeldom && !communicator->is_unasked)
        return pass_on(operation, communicator->reason);
    int known = 0;
    *size = payload_size(count, type, &known);
    if (!known || root < 0 || root >= communicator->size) return pass_on(operation, kArguments);
    if (*size > communicator->max_payload) return pass_on(operation, kTooLarge);
    if (communicator->group == NULL) return pass_on_without_group(operation, communicator);
    count_ours(operation);
    return MPI_SUCCESS;
}

/* The others have begun it, or will. A process that left it out would take the next one for it. */
__attribute__((noreturn)) static void cannot_take_part(MPI_Comm comm, int code) {
    char sentence[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    PMPI_Error_string(code, sentence, &length);
    end_program(comm, "coppice-mpi: this process cannot take part in a broadcast: %s\n", sentence);
}

/* A root waits for room alone: what it has begun goes on without it. */
static coppice_status_t broadcast_as_root(const struct communicator* communicator, const struct payload* payload) {
    coppice_status_t status = COPPICE_ERR_BUSY;
    while ((status = coppice.broadcast(communicator->group, payload->bytes, payload->size, (uint32_t)communicator->rank,
                                       NULL, PATIENCE_NS)) == COPPICE_ERR_BUSY)
        let_mpi_work();
    return status == COPPICE_ERR_TIMEOUT ? COPPICE_OK : status;
}

static coppice_status_t broadcast(const struct communicator* communicator, const struct payload* payload, int root) {
    coppice_request_t* request = NULL;
    coppice_status_t status = COPPICE_ERR_BUSY;
    while (shared_look(&communicator->unstarted) > 0)
        let_mpi_work();
    if (root == communicator->rank) return broadcast_as_root(communicator, payload);
    while ((status = coppice.broadcast_nb(communicator->group, payload->bytes, payload->size, (uint32_t)root,
                                          &request)) == COPPICE_ERR_BUSY)
        let_mpi_work();
    return status == COPPICE_OK ? wait_for(request) : status;
}

int ours_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    struct communicator* communicator = communicator_of(comm, 1);
    size_t size = 0;
    if (communicator == NULL) return pass_on(kOperationBcast, kArguments);
    if (is_ours(kOperationBcast, communicator, count, type, root, &size) == PASS_ON) return PASS_ON;

    struct payload payload;
    int code = payload_open(&payload, buffer, count, type, size, root == communicator->rank, 0);
    if (code != MPI_SUCCESS) cannot_take_part(comm, code);
    code = raise_status(comm, broadcast(communicator, &payload, root));
    if (code == MPI_SUCCESS && root != communicator->rank) code = payload_unpack(&payload);
    payload_close(&payload, 0);
    return code;
}

int ours_Barrier(MPI_Comm comm) {
    struct communicator* communicator = communicator_of(comm, 1);
    if (communicator == NULL) return pass_on(kOperationBarrier, kArguments);
    if (communicator->group == NULL) return pass_on_without_group(kOperationBarrier, communicator);
    count_ours(kOperationBarrier);
    coppice_request_t* request = NULL;
    coppice_status_t status = COPPICE_ERR_BUSY;
    while ((status = coppice.barrier_nb(communicator->group, &request)) == COPPICE_ERR_BUSY)
        let_mpi_work();
    if (status == COPPICE_OK) status = wait_for(request);
    /* Every process that lives has entered. */
    if (status == COPPICE_ERR_PEER_FAILED) status = coppice.group_ack_failed(communicator->group, NULL, 0);
    return raise_status(comm, status);
}

int ours_Ibcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
    /* A group is made by calls that wait for each other, which this one may not do: it counts for the next one that may. */
    struct communicator* communicator = communicator_of(comm, 0);
    size_t size = 0;
    if (communicator == NULL) return pass_on(kOperationIbcast, kArguments);
    if (!can_have_requests()) return pass_on(kOperationIbcast, kNotYet);
    if (is_ours(kOperationIbcast, communicator, count, type, root, &size) == PASS_ON) return PASS_ON;

    struct payload payload;
    int code = payload_open(&payload, buffer, count, type, size, root == communicator->rank, 1);
    if (code == MPI_SUCCESS) code = start_broadcast(communicator, &payload, root, request);
    if (code != MPI_SUCCESS) cannot_take_part(comm, code);
    return MPI_SUCCESS;
}
