/* A program whose ranks find each other by files of its own, whatever launcher has started it. Rank 0 is killed; the others go on.
 *
 *   own_exchange DIRECTORY   COPPICE_RANK and COPPICE_SIZE say which rank this is, of how many */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "coppice/coppice.h"

#define TIMEOUT_NS UINT64_C(60000000000)

static const char* directory;
static int rank, size, exchanges;

static void path_of(char* path, size_t room, int of, const char* suffix) {
    snprintf(path, room, "%s/%d.%d%s", directory, exchanges, of, suffix);
}

static int exchange(void* argument, const void* mine, size_t bytes, void* all) {
    char path[512], unfinished[512];
    (void)argument;
    path_of(path, sizeof path, rank, "");
    path_of(unfinished, sizeof unfinished, rank, ".new");
    FILE* file = fopen(unfinished, "wb");
    if (file == NULL || fwrite(mine, 1, bytes, file) != bytes || fclose(file) != 0 || rename(unfinished, path) != 0)
        return 1;
    for (int other = 0; other < size; ++other) {
        path_of(path, sizeof path, other, "");
        for (int looks = 0; (file = fopen(path, "rb")) == NULL; ++looks) {
            if (looks > 600000) return 1;
            usleep(1000);
        }
        const size_t got = fread((char*)all + (size_t)other * bytes, 1, bytes, file);
        fclose(file);
        if (got != bytes) return 1;
    }
    ++exchanges;
    return 0;
}

static void expect(coppice_status_t status, const char* call) {
    if (status == COPPICE_OK) return;
    fprintf(stderr, "own_exchange: rank %d: %s: %s: %s\n", rank, call, coppice_status_string(status),
            coppice_last_error());
    exit(1);
}

int main(int argc, char** argv) {
    const char* const own = getenv("COPPICE_RANK");
    const char* const all = getenv("COPPICE_SIZE");
    if (argc != 2 || own == NULL || all == NULL) return 2;
    directory = argv[1];
    rank = atoi(own);
    size = atoi(all);

    coppice_context_t* context = NULL;
    expect(coppice_context_create(NULL, &context), "context");
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    options.exchange = exchange;
    options.rank = (uint32_t)rank;
    options.size = (uint32_t)size;
    coppice_group_t* group = NULL;
    expect(coppice_group_create(context, &options, &group), "create");
    uint64_t value = 1;
    coppice_status_t status = coppice_agree(group, &value, sizeof value, NULL, TIMEOUT_NS);
    if (rank == 0) raise(SIGKILL);
    while (status == COPPICE_OK)
        status = coppice_agree(group, &value, sizeof value, NULL, TIMEOUT_NS);
    if (status != COPPICE_ERR_PEER_FAILED) expect(status, "the agreement that finds the death");
    coppice_group_t* survivors = NULL;
    expect(coppice_group_shrink(group, &survivors, TIMEOUT_NS), "shrink");
    expect(coppice_group_destroy(group, TIMEOUT_NS), "destroy");
    expect(coppice_agree(survivors, &value, sizeof value, NULL, TIMEOUT_NS), "the survivors' agreement");
    printf("rank %d goes on\n", rank);
    expect(coppice_group_destroy(survivors, TIMEOUT_NS), "destroy");
    coppice_context_destroy(context);
    return 0;
}
