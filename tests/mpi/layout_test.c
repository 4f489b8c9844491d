/* Where the bytes of types are (mpi/layout.c, mpi/payload.c), against MPI_Pack: a payload goes without being packed exactly where what MPI packs is one
 * row of bytes of the buffer. Types that were chosen, and types at random. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "payload.h"
#include "report.h"

enum { kRoom = 1 << 16, kMost = 8192, kMiddle = kRoom / 2 };

static long wrong;
static long rows;
static long others;

void count_packed(void) {}

static unsigned long long state = 20251129;
static int any(int below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (int)((state >> 33) % (unsigned long long)below);
}

/* Byte for byte, where in the buffer it is that MPI packs. */
static void packed_places(int count, MPI_Datatype type, int size, int* places) {
    static unsigned char low[kRoom];
    static unsigned char high[kRoom];
    static unsigned char packed[2][kMost];
    for (int i = 0; i < kRoom; ++i) {
        low[i] = (unsigned char)i;
        high[i] = (unsigned char)(i >> 8);
    }
    int position[2] = {0, 0};
    MPI_Pack(low + kMiddle, count, type, packed[0], size, &position[0], MPI_COMM_SELF);
    MPI_Pack(high + kMiddle, count, type, packed[1], size, &position[1], MPI_COMM_SELF);
    for (int i = 0; i < size; ++i)
        places[i] = packed[0][i] + 256 * packed[1][i];
}

static int is_one_row(int count, MPI_Datatype type, int size, int* first) {
    static int places[kMost];
    packed_places(count, type, size, places);
    *first = places[0];
    for (int i = 1; i < size; ++i)
        if (places[i] != places[0] + i) return 0;
    return 1;
}

/* Whether it goes without being packed. */
static int check(const char* name, int count, MPI_Datatype type) {
    static unsigned char buffer[kRoom];
    int size = 0;
    int first = 0;
    struct payload payload;
    MPI_Type_size(type, &size);
    size *= count;
    const int expected = is_one_row(count, type, size, &first);
    if (payload_open(&payload, buffer + kMiddle, count, type, (size_t)size, 1, 0) != MPI_SUCCESS) ++wrong;
    if (payload.packed == expected || (expected && payload.bytes != buffer + first)) {
        printf("%s, %d elements of %d bytes: %s, and should be %s\n", name, count, size / count,
               payload.packed ? "packed" : "not packed", expected ? "one row" : "packed");
        ++wrong;
    }
    *(expected ? &rows : &others) += 1;
    payload_close(&payload, 0);
    return expected;
}

static void expect(const char* name, int count, MPI_Datatype type, int row) {
    MPI_Type_commit(&type);
    for (int turn = 0; turn < 2; ++turn) /* found out, and kept */
        if (check(name, count, type) != row) {
            printf("%s: MPI packs it otherwise\n", name);
            ++wrong;
        }
    MPI_Type_free(&type);
}

static void chosen(void) {
    MPI_Datatype type;
    MPI_Datatype inner;
    const int ones[3] = {1, 1, 2};
    const MPI_Datatype parts[3] = {MPI_INT, MPI_FLOAT, MPI_DOUBLE};
    const MPI_Datatype back[3] = {MPI_FLOAT, MPI_INT, MPI_DOUBLE};
    MPI_Type_create_struct(3, ones, (const MPI_Aint[]){0, 4, 8}, parts, &type);
    expect("a structure in order", 3, type, 1);
    MPI_Type_create_struct(3, ones, (const MPI_Aint[]){4, 0, 8}, back, &type);
    expect("a structure in another order", 1, type, 0);
    MPI_Type_create_struct(3, ones, (const MPI_Aint[]){0, 4, 16}, parts, &type);
    expect("a structure with a gap", 1, type, 0);
    MPI_Type_create_resized(MPI_DOUBLE, 0, 16, &type);
    expect("wider elements", 2, type, 0);
    MPI_Type_create_resized(MPI_DOUBLE, 0, 16, &type);
    expect("one wider element", 1, type, 1);
    MPI_Type_create_resized(MPI_DOUBLE, 0, 16, &inner);
    MPI_Type_create_resized(inner, 0, 8, &type);
    MPI_Type_free(&inner);
    expect("elements that are wider within", 3, type, 1);
    MPI_Type_create_subarray(3, (const int[]){4, 5, 6}, (const int[]){1, 3, 6}, (const int[]){2, 1, 0}, MPI_ORDER_C,
                             MPI_INT, &type);
    expect("rows of an array", 1, type, 1);
    MPI_Type_create_subarray(3, (const int[]){4, 5, 6}, (const int[]){2, 3, 6}, (const int[]){2, 1, 0}, MPI_ORDER_C,
                             MPI_INT, &type);
    expect("rows of two planes", 1, type, 0);
    MPI_Type_create_subarray(2, (const int[]){4, 5}, (const int[]){4, 2}, (const int[]){0, 1}, MPI_ORDER_FORTRAN,
                             MPI_INT, &type);
    expect("columns of an array of Fortran's", 1, type, 1);
    MPI_Type_create_hvector(3, 2, 8, MPI_INT, &type);
    expect("a vector by bytes", 4, type, 1);
    MPI_Type_indexed(3, (const int[]){2, 0, 3}, (const int[]){5, 100, 7}, MPI_SHORT, &type);
    expect("indexed blocks that follow each other, not from the start", 1, type, 1);
    MPI_Type_create_hindexed(2, (const int[]){2, 2}, (const MPI_Aint[]){-8, 0}, MPI_INT, &type);
    expect("indexed blocks that begin before the buffer", 1, type, 1);
    MPI_Type_indexed(2, (const int[]){2, 2}, (const int[]){2, 0}, MPI_INT, &type);
    expect("indexed blocks the other way around", 1, type, 0);
    MPI_Type_dup(MPI_SHORT_INT, &type);
    expect("a pair with a gap within", 1, type, 0);
}

static MPI_Datatype any_type(int depth);

static MPI_Datatype any_list(MPI_Datatype inner, int kind, int depth) {
    enum { kParts = 4 };
    int lengths[kParts], places[kParts], size = 0, step = any(4) - 1;
    MPI_Aint bytes[kParts], low = 0, extent = 0, end = 0;
    MPI_Datatype types[kParts], made = MPI_DATATYPE_NULL;
    const int count = any(kParts) + 1;
    MPI_Type_get_extent(inner, &low, &extent);
    for (int i = 0; i < count; ++i) {
        lengths[i] = any(2) + 1;
        types[i] = kind == 4 && any(2) ? any_type(depth - 1) : inner;
        MPI_Aint true_low = 0;
        MPI_Type_size(types[i], &size);
        MPI_Type_get_true_extent(types[i], &true_low, &low);
        /* Mostly where the one before it has ended. */
        bytes[i] = end - true_low + (any(8) == 0 ? any(9) - 4 : 0);
        end = bytes[i] + true_low + lengths[i] * size;
        places[i] = i == 0 ? any(3) - 1 : places[i - 1] + lengths[i - 1] + (any(8) == 0 ? any(5) - 2 : 0);
    }
    if (kind == 0) MPI_Type_indexed(count, lengths, places, inner, &made);
    if (kind == 1) MPI_Type_create_hindexed(count, lengths, bytes, inner, &made);
    if (kind == 2) {
        for (int i = 1; i < count; ++i)
            places[i] = places[i - 1] + lengths[0] + (any(8) == 0);
        MPI_Type_create_indexed_block(count, lengths[0], places, inner, &made);
    }
    if (kind == 3) {
        for (int i = 1; i < count; ++i)
            bytes[i] = bytes[i - 1] + lengths[0] * extent + (any(8) == 0 ? step : 0);
        MPI_Type_create_hindexed_block(count, lengths[0], bytes, inner, &made);
    }
    if (kind == 4) MPI_Type_create_struct(count, lengths, bytes, types, &made);
    for (int i = 0; kind == 4 && i < count; ++i)
        if (types[i] != inner) MPI_Type_free(&types[i]);
    return made;
}

static MPI_Datatype any_part_of_array(MPI_Datatype inner) {
    int sizes[3], subsizes[3], starts[3];
    for (int d = 0; d < 3; ++d) {
        sizes[d] = any(3) + 1;
        subsizes[d] = any(2) ? sizes[d] : any(sizes[d]) + 1;
        starts[d] = any(sizes[d] - subsizes[d] + 1);
    }
    MPI_Datatype made = MPI_DATATYPE_NULL;
    MPI_Type_create_subarray(any(3) + 1, sizes, subsizes, starts, any(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, inner,
                             &made);
    return made;
}

/* The program's, and to be freed. */
static MPI_Datatype any_type(int depth) {
    const MPI_Datatype named[] = {MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_DOUBLE_INT, MPI_SHORT_INT, MPI_2INT};
    MPI_Datatype inner = MPI_DATATYPE_NULL, made = MPI_DATATYPE_NULL;
    MPI_Aint low = 0, extent = 0;
    if (depth == 0) {
        MPI_Type_dup(named[any(any(3) == 0 ? 7 : 4)], &made);
        return made;
    }
    inner = any_type(depth - 1);
    MPI_Type_get_extent(inner, &low, &extent);
    const int blocks = any(4) + 1;
    const int length = any(2) + 1;
    switch (any(10)) {
        case 0:
            MPI_Type_dup(inner, &made);
            break;
        case 1:
            MPI_Type_contiguous(any(3) + 1, inner, &made);
            break;
        case 2:
            MPI_Type_vector(blocks, length, length + (any(3) == 0), inner, &made);
            break;
        case 3:
            MPI_Type_create_hvector(blocks, length, length * extent + (any(3) == 0), inner, &made);
            break;
        case 4:
            MPI_Type_create_resized(inner, any(3) == 0 ? any(5) - 2 : low, extent + (any(3) == 0 ? any(9) : 0), &made);
            break;
        case 5:
            made = any_part_of_array(inner);
            break;
        case 6:
            made = any_list(inner, 4, depth);
            break;
        default:
            made = any_list(inner, any(4), depth);
            break;
    }
    MPI_Type_free(&inner);
    return made;
}

static void at_random(int types) {
    for (int i = 0; i < types; ++i) {
        char name[32];
        int size = 0;
        MPI_Aint low = 0, extent = 0, true_low = 0, length = 0;
        MPI_Datatype type = any_type(any(4) + 1);
        MPI_Type_commit(&type);
        MPI_Type_size(type, &size);
        MPI_Type_get_extent(type, &low, &extent);
        MPI_Type_get_true_extent(type, &true_low, &length);
        snprintf(name, sizeof name, "type %d", i);
        const MPI_Aint reach = labs(true_low) + labs(length) + 3 * labs(extent);
        for (int count = 1; count <= 3; ++count)
            if (size > 0 && size * count <= kMost && reach < kMiddle) check(name, count, type);
        MPI_Type_free(&type);
    }
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    chosen();
    at_random(argc > 1 ? atoi(argv[1]) : 20000);
    printf("%ld rows, %ld others, %ld wrong\n", rows, others, wrong);
    if (rows < 1000 || others < 1000) ++wrong;
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
