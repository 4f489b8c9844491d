/* A program as users write them: it gives no exchange, so that the launcher brings its ranks together.
 *
 *   LAUNCHER… launched GROUPS [VICTIM [WHEN]]
 *
 * It makes so many groups, one after the other, and broadcasts and agrees in each. In the last one, or in number WHEN, VICTIM
 * kills itself before everything else; with "late" for WHEN it lives, and comes late to each group, above all to the last one,
 * by more than a server of PMIx waits for it. Each rank prints a line, and exits with 0 when all was right. */
#include <coppice/coppice.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(coppice_status_t status) {
    if (status == COPPICE_OK) return;
    fprintf(stderr, "launched: %s\n", coppice_last_error());
    exit(3);
}

int main(int argc, char** argv) {
    const int groups = argc > 1 ? atoi(argv[1]) : 1;
    const long victim = argc > 2 ? atol(argv[2]) : -1;
    const int is_late = argc > 3 && strcmp(argv[3], "late") == 0;
    const int when = argc > 3 ? atoi(argv[3]) : groups - 1;
    uint32_t rank = UINT32_MAX; /* not known before the first group */
    coppice_context_t* context = NULL;
    check(coppice_context_create(NULL, &context));
    coppice_group_info_t info = {.struct_size = sizeof info};
    uint64_t together = 0;
    for (int i = 0; i < groups; ++i) {
        coppice_group_t* group = NULL;
        if (is_late && victim == (long)rank) usleep(i == groups - 1 ? 4000000 : 500000);
        check(coppice_group_create(context, NULL, &group));
        check(coppice_group_query(group, &info));
        rank = info.rank;
        if (!is_late && i == when && victim == (long)info.rank) kill(getpid(), SIGKILL);
        const int root = victim == 0 ? 1 : 0;
        uint64_t number = info.rank == (uint32_t)root ? 4711 : 0;
        check(coppice_broadcast(group, &number, sizeof number, (uint32_t)root, NULL, 60000000000));
        if (number != 4711) return 4;
        together = (uint64_t)1 << info.rank;
        coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
        options.operation = COPPICE_OR;
        const coppice_status_t status = coppice_agree(group, &together, sizeof together, &options, 60000000000);
        if (status != COPPICE_ERR_PEER_FAILED) check(status);
        check(coppice_group_destroy(group, 60000000000));
    }
    printf("rank %u of %u on %u hosts, %d groups, together %#llx\n", (unsigned)info.rank, (unsigned)info.size,
           (unsigned)info.hosts, groups, (unsigned long long)together);
    check(coppice_context_destroy(context));
    return 0;
}
