/* Groups of some of a launcher's ranks: the even ones in the order of their numbers, and the odd ones in the other direction, at the
 * same time.
 *
 *   LAUNCHER… some_ranks HOW GROUPS [VICTIM]
 *
 * HOW: "first", before any group of all; "after" one; "exchange", with exchanges by broadcasts of one that is there.  Each of GROUPS such
 * groups broadcasts from its last rank and agrees. VICTIM, a launcher's rank, kills itself before the last one. Each rank prints a
 * line, and exits with 0 when all was right. */
#include <coppice/coppice.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64 };

static const uint64_t patience = 60000000000;

static void check(coppice_status_t status) {
    if (status == COPPICE_OK) return;
    fprintf(stderr, "some_ranks: %s\n", coppice_last_error());
    exit(3);
}

struct everybody {
    coppice_group_t* group;
    uint32_t rank, size;
    const uint32_t* ranks; /* those that are to be gathered */
    uint32_t count;
};

static int gather(void* argument, const void* mine, size_t bytes, void* all) {
    const struct everybody* world = argument;
    char* places = malloc(bytes * world->size);
    if (places == NULL) return 1;
    for (uint32_t root = 0; root < world->size; ++root) {
        char* place = places + root * bytes;
        if (root == world->rank) memcpy(place, mine, bytes);
        if (coppice_broadcast(world->group, place, bytes, root, NULL, patience) != COPPICE_OK) return 1;
    }
    for (uint32_t i = 0; i < world->count; ++i)
        memcpy((char*)all + i * bytes, places + world->ranks[i] * bytes, bytes);
    free(places);
    return 0;
}

static uint32_t number_of(const char* variable, const char* other, const char* third) {
    const char* text = getenv(variable);
    if (text == NULL) text = getenv(other);
    if (text == NULL) text = getenv(third);
    return text == NULL ? UINT32_MAX : (uint32_t)strtoul(text, NULL, 10);
}

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    const int is_first = strcmp(argv[1], "first") == 0;
    const int by_exchange = strcmp(argv[1], "exchange") == 0;
    const int groups = atoi(argv[2]);
    const long victim = argc > 3 ? atol(argv[3]) : -1;
    coppice_context_t* context = NULL;
    check(coppice_context_create(NULL, &context));
    struct everybody world = {.group = NULL,
                              .rank = number_of("COPPICE_RANK", "PMIX_RANK", "PMI_RANK"),
                              .size = number_of("COPPICE_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")};
    if (!is_first) check(coppice_group_create(context, NULL, &world.group));
    if (world.size > MOST) return 2;

    uint32_t ranks[MOST];
    uint32_t count = 0;
    for (uint32_t rank = world.rank % 2; rank < world.size; rank += 2)
        ranks[count++] = rank;
    for (uint32_t i = 0; world.rank % 2 == 1 && i < count / 2; ++i) {
        const uint32_t other = ranks[i];
        ranks[i] = ranks[count - 1 - i];
        ranks[count - 1 - i] = other;
    }
    world.ranks = ranks;
    world.count = count;

    uint64_t together = 0;
    coppice_group_info_t info = {.struct_size = sizeof info};
    for (int i = 0; i < groups; ++i) {
        if (i == groups - 1 && victim == (long)world.rank) kill(getpid(), SIGKILL);
        coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
        options.ranks = ranks;
        options.rank_count = count;
        if (by_exchange) {
            options.exchange = gather;
            options.exchange_argument = &world;
            options.rank = world.rank;
            options.size = world.size;
        }
        coppice_group_t* group = NULL;
        check(coppice_group_create(context, &options, &group));
        check(coppice_group_query(group, &info));
        if (info.size != count || ranks[info.rank] != world.rank) return 4;
        const uint32_t root = ranks[count - 1] == (uint32_t)victim ? 0 : count - 1;
        uint64_t number = info.rank == root ? 4711 + world.rank % 2 : 0;
        check(coppice_broadcast(group, &number, sizeof number, root, NULL, patience));
        if (number != 4711 + world.rank % 2) return 5;
        together = (uint64_t)1 << world.rank;
        coppice_agree_options_t agree = COPPICE_AGREE_OPTIONS_INIT;
        agree.operation = COPPICE_OR;
        const coppice_status_t status = coppice_agree(group, &together, sizeof together, &agree, patience);
        if (status != COPPICE_ERR_PEER_FAILED) check(status);
        check(coppice_group_destroy(group, patience));
    }
    printf("rank %u is %u of %u, together %#llx\n", (unsigned)world.rank, (unsigned)info.rank, (unsigned)info.size,
           (unsigned long long)together);
    fflush(stdout);
    check(coppice_group_destroy(world.group, patience));
    check(coppice_context_destroy(context));
    return 0;
}
