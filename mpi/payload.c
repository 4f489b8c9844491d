#include "payload.h"

#include <stdint.h>
#include <stdlib.h>

#include "layout.h"
#include "report.h"

/* What smaller payloads that are used at once are packed in. */
#define AT_HAND 8192
static _Thread_local char at_hand[AT_HAND];

/* The named type that this thread has used last, without gaps between its elements: most programs use few, and MPI is asked four things
 * about each. Others may be freed, and their handles used again. */
static _Thread_local struct {
    MPI_Datatype type;
    int size; /* 0: there is none */
} latest;

/* Where `count` elements begin that are one row of bytes, which may be before the buffer or behind its start; 0 where they are none. */
static int find_bytes(void* buffer, int count, MPI_Datatype type, void** bytes) {
    struct row row;
    if (!is_row(type, &row) || (count > 1 && row.extent != row.size)) return 0;
    *bytes = (void*)((uintptr_t)buffer + (uintptr_t)row.at);
    if (row.at == 0 && row.extent == row.size && !is_made_type(type)) {
        latest.type = type;
        latest.size = (int)row.size;
    }
    return 1;
}

static int is_latest(MPI_Datatype type) {
    return latest.size > 0 && latest.type == type;
}

size_t payload_size(int count, MPI_Datatype type, int* known) {
    int size = latest.size;
    *known = 0;
    if (count < 0) return 0;
    if (!is_latest(type) && (type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &size) != MPI_SUCCESS || size < 0))
        return 0;
    *known = 1;
    return (size_t)count * (size_t)size;
}

int payload_open(struct payload* payload, void* buffer, int count, MPI_Datatype type, size_t size, int pack,
                 int later) {
    *payload = (struct payload){buffer, size, buffer, count, type, 0};
    if (size == 0 || is_latest(type) || find_bytes(buffer, count, type, &payload->bytes)) return MPI_SUCCESS;
    payload->bytes = !later && size <= AT_HAND ? at_hand : malloc(size);
    if (payload->bytes == NULL) return MPI_ERR_NO_MEM;
    payload->packed = 1;
    count_packed();
    if (later) PMPI_Type_dup(type, &payload->type); /* the program may free it meanwhile */
    int position = 0;
    if (!pack) return MPI_SUCCESS;
    return PMPI_Pack(buffer, count, type, payload->bytes, (int)size, &position, MPI_COMM_SELF);
}

int payload_unpack(const struct payload* payload) {
    int position = 0;
    if (!payload->packed) return MPI_SUCCESS;
    return PMPI_Unpack(payload->bytes, (int)payload->size, &position, payload->buffer, payload->count, payload->type,
                       MPI_COMM_SELF);
}

void payload_close(struct payload* payload, int later) {
    if (!payload->packed) return;
    if (later) PMPI_Type_free(&payload->type);
    if (payload->bytes != at_hand) free(payload->bytes);
}
