/* A type is a list of blocks of other types, and MPI packs them in the order of this list. It is a row where each block begins at the
 * byte at which the one before it has ended, and is a row itself. MPI's extent alone does not tell: the blocks may be in another order. */
#include "layout.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

/* Types that are made of others more often than this are packed. */
#define DEEPEST 32

static int find_row(MPI_Datatype type, int depth, struct row* row);

/* What a type was made of. */
struct contents {
    int combiner;
    int* numbers;
    MPI_Aint* places;
    MPI_Datatype* types;
    int type_count;
};

/* By the program, so it may be freed. */
static int is_made(int combiner) {
    return combiner != MPI_COMBINER_NAMED && combiner != MPI_COMBINER_F90_REAL &&
           combiner != MPI_COMBINER_F90_COMPLEX && combiner != MPI_COMBINER_F90_INTEGER;
}

int is_made_type(MPI_Datatype type) {
    int numbers = 0;
    int places = 0;
    int types = 0;
    int combiner = MPI_COMBINER_NAMED;
    PMPI_Type_get_envelope(type, &numbers, &places, &types, &combiner);
    return is_made(combiner);
}

static void close_contents(struct contents* contents) {
    for (int i = 0; i < contents->type_count; ++i)
        if (is_made_type(contents->types[i])) PMPI_Type_free(&contents->types[i]);
    free(contents->numbers);
    free(contents->places);
    free(contents->types);
}

static int open_contents(MPI_Datatype type, int numbers, int places, int types, struct contents* contents) {
    contents->numbers = calloc((size_t)numbers + 1, sizeof *contents->numbers);
    contents->places = calloc((size_t)places + 1, sizeof *contents->places);
    contents->types = calloc((size_t)types + 1, sizeof *contents->types);
    if (contents->numbers == NULL || contents->places == NULL || contents->types == NULL ||
        PMPI_Type_get_contents(type, numbers, places, types, contents->numbers, contents->places, contents->types) !=
            MPI_SUCCESS)
        return 0;
    contents->type_count = types;
    return 1;
}

/* `count` elements one behind the other, from there on. */
static int append(struct row* row, MPI_Aint place, MPI_Aint count, const struct row* element) {
    if (count == 0 || element->size == 0) return 1;
    if (count > 1 && element->extent != element->size) return 0;
    place += element->at;
    if (row->size == 0) row->at = place;
    if (row->at + row->size != place) return 0;
    row->size += count * element->size;
    return 1;
}

/* Block after block of the same type. `stride` is in bytes; without one each has a place of its own, in `unit` bytes, or in bytes. */
static int append_blocks(const struct contents* contents, const struct row* element, struct row* row) {
    const int* const numbers = contents->numbers;
    const int blocks = numbers[0];
    for (int i = 0; i < blocks && element->size > 0; ++i) {
        MPI_Aint place = 0;
        int length = 1;
        switch (contents->combiner) {
            case MPI_COMBINER_CONTIGUOUS:
                return append(row, 0, blocks, element);
            case MPI_COMBINER_VECTOR:
                length = numbers[1], place = (MPI_Aint)i * numbers[2] * element->extent;
                break;
            case MPI_COMBINER_HVECTOR:
                length = numbers[1], place = i * contents->places[0];
                break;
            case MPI_COMBINER_INDEXED:
                length = numbers[1 + i], place = numbers[1 + blocks + i] * element->extent;
                break;
            case MPI_COMBINER_HINDEXED:
                length = numbers[1 + i], place = contents->places[i];
                break;
            case MPI_COMBINER_INDEXED_BLOCK:
                length = numbers[1], place = numbers[2 + i] * element->extent;
                break;
            case MPI_COMBINER_HINDEXED_BLOCK:
                length = numbers[1], place = contents->places[i];
                break;
            default:
                return 0;
        }
        if (length == 0 && contents->combiner != MPI_COMBINER_INDEXED && contents->combiner != MPI_COMBINER_HINDEXED)
            break;
        if (!append(row, place, length, element)) return 0;
    }
    return 1;
}

static int append_struct(const struct contents* contents, int depth, struct row* row) {
    for (int i = 0; i < contents->numbers[0]; ++i) {
        struct row element;
        if (!find_row(contents->types[i], depth + 1, &element)) return 0;
        if (!append(row, contents->places[i], contents->numbers[1 + i], &element)) return 0;
    }
    return 1;
}

/* A part of an array is one run of its elements where it has all of the faster dimensions, up to one that may be a part, and one element
 * of the slower ones. */
static int append_part_of_array(const struct contents* contents, const struct row* element, struct row* row) {
    const int dimensions = contents->numbers[0];
    const int* const sizes = contents->numbers + 1;
    const int* const subsizes = sizes + dimensions;
    const int* const starts = subsizes + dimensions;
    const int is_fortran = starts[dimensions] == MPI_ORDER_FORTRAN;
    MPI_Aint below = 1; /* elements of the array in one step of the dimension */
    MPI_Aint count = 1;
    MPI_Aint first = 0;
    for (int i = 0; i < dimensions; ++i) {
        const int d = is_fortran ? i : dimensions - 1 - i;
        if (count != below && subsizes[d] != 1) return 0;
        first += starts[d] * below;
        count *= subsizes[d];
        below *= sizes[d];
    }
    return append(row, first * element->extent, count, element);
}

static int append_contents(const struct contents* contents, int depth, struct row* row) {
    if (contents->combiner == MPI_COMBINER_STRUCT) return append_struct(contents, depth, row);
    struct row element;
    if (contents->type_count != 1 || !find_row(contents->types[0], depth + 1, &element)) return 0;
    switch (contents->combiner) {
        case MPI_COMBINER_DUP:
        case MPI_COMBINER_RESIZED:
            return append(row, 0, 1, &element);
        case MPI_COMBINER_SUBARRAY:
            return append_part_of_array(contents, &element, row);
        default:
            return append_blocks(contents, &element, row);
    }
}

static int find_row(MPI_Datatype type, int depth, struct row* row) {
    int numbers = 0;
    int places = 0;
    int types = 0;
    int size = 0;
    MPI_Aint low = 0;
    MPI_Aint length = 0;
    struct contents contents = {0};
    *row = (struct row){0};
    if (depth > DEEPEST || PMPI_Type_get_envelope(type, &numbers, &places, &types, &contents.combiner) != MPI_SUCCESS ||
        PMPI_Type_size(type, &size) != MPI_SUCCESS || size < 0 ||
        PMPI_Type_get_extent(type, &low, &row->extent) != MPI_SUCCESS)
        return 0;
    if (!is_made(contents.combiner)) {
        row->size = size;
        /* Of pairs, MPI_DOUBLE_INT has a gap behind it, and MPI_SHORT_INT within. */
        return PMPI_Type_get_true_extent(type, &row->at, &length) == MPI_SUCCESS && length == size;
    }
    const int found = open_contents(type, numbers, places, types, &contents) && append_contents(&contents, depth, row);
    close_contents(&contents);
    return found && row->size == size;
}

/* What is kept, in one word: a type's attribute may be set by two threads at once, and be read meanwhile. */
static int keyval = MPI_KEYVAL_INVALID;
static pthread_once_t once = PTHREAD_ONCE_INIT;
enum { kRow = 1, kKept = 2, kBits = 2 };

static void make_keyval(void) {
    PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &keyval, NULL);
}

static void keep(MPI_Datatype type, int found, MPI_Aint at) {
    const uintptr_t word = ((uintptr_t)at << kBits) | kKept | (found ? kRow : 0);
    if ((intptr_t)word >> kBits != at) return;
    PMPI_Type_set_attr(type, keyval, (void*)word);
}

int is_row(MPI_Datatype type, struct row* row) {
    if (!is_made_type(type)) return find_row(type, 0, row);
    void* kept = NULL;
    int known = 0;
    pthread_once(&once, make_keyval);
    if (keyval == MPI_KEYVAL_INVALID) return find_row(type, 0, row);
    PMPI_Type_get_attr(type, keyval, (void*)&kept, &known);
    if (!known) {
        const int found = find_row(type, 0, row);
        keep(type, found, found ? row->at : 0);
        return found;
    }
    int size = 0;
    MPI_Aint low = 0;
    PMPI_Type_size(type, &size);
    PMPI_Type_get_extent(type, &low, &row->extent);
    row->at = (intptr_t)(uintptr_t)kept >> kBits;
    row->size = size;
    return ((uintptr_t)kept & kRow) != 0;
}
