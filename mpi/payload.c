#include "payload.h"

#include <stdlib.h>

/* What smaller payloads that are used at once are packed in. */
#define AT_HAND 8192
static _Thread_local char at_hand[AT_HAND];

#define MOST_NUMBERS 8

/* The named type that this thread has used last, and found to be dense: most programs use few, and MPI is asked four things about each.
 * Others may be freed, and their handles used again. */
static _Thread_local struct {
    MPI_Datatype type;
    int size; /* 0: there is none */
} latest;

static int is_dense(MPI_Datatype type);

static int is_dense_inner(MPI_Datatype type, int integers, int addresses, int types, int combiner) {
    int numbers[MOST_NUMBERS];
    MPI_Aint places[1];
    MPI_Datatype inner[1];
    if (integers > MOST_NUMBERS || addresses > 0 || types != 1) return 0;
    if (PMPI_Type_get_contents(type, integers, addresses, types, numbers, places, inner) != MPI_SUCCESS) return 0;
    int dense = 1;
    if (combiner == MPI_COMBINER_VECTOR) dense = numbers[0] <= 1 || numbers[1] == numbers[2];
    dense = dense && is_dense(inner[0]);
    int a = 0;
    int b = 0;
    int c = 0;
    int named = 0;
    PMPI_Type_get_envelope(inner[0], &a, &b, &c, &named);
    if (named != MPI_COMBINER_NAMED) PMPI_Type_free(&inner[0]);
    return dense;
}

/* Of the ways to make a type, those that most programs use; others are packed. */
static int is_dense(MPI_Datatype type) {
    int integers = 0;
    int addresses = 0;
    int types = 0;
    int combiner = 0;
    if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) != MPI_SUCCESS) return 0;
    if (combiner == MPI_COMBINER_DUP || combiner == MPI_COMBINER_CONTIGUOUS || combiner == MPI_COMBINER_VECTOR)
        return is_dense_inner(type, integers, addresses, types, combiner);
    if (combiner != MPI_COMBINER_NAMED) return 0;
    /* Pairs such as MPI_DOUBLE_INT have a gap. */
    int size = 0;
    MPI_Aint low = 0;
    MPI_Aint extent = 0;
    PMPI_Type_size(type, &size);
    PMPI_Type_get_extent(type, &low, &extent);
    if (low != 0 || extent != size) return 0;
    latest.type = type;
    latest.size = size;
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
    if (size == 0 || is_latest(type) || is_dense(type)) return MPI_SUCCESS;
    payload->bytes = !later && size <= AT_HAND ? at_hand : malloc(size);
    if (payload->bytes == NULL) return MPI_ERR_NO_MEM;
    payload->packed = 1;
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
