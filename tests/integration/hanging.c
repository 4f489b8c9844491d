/* A program whose ranks hang, as programs do.
 *
 *   coppice-run -n RANKS hanging '*:CALLS' ['RANK:CALLS' …]
 *
 * Each rank makes the calls of its number, or those of '*': b0 is a broadcast of which rank 0 is the root, n0 the same without
 * waiting for it, w0 the same and then waits, p0 the same but waits for a millisecond at a time, q0 for a microsecond, r0 for a tenth of a
 * second, in vain, and then it stops itself and waits again; a an agreement, B a barrier, T one that it gives up, and then it stops itself,
 * s a shrink, pause sleeps for good outside of any call, signal does until SIGUSR1 comes, leave destroys the group; after limit each call
 * has a second. */
#include <coppice/coppice.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(coppice_status_t status) {
    if (status == COPPICE_OK || status == COPPICE_ERR_PEER_FAILED) return;
    fprintf(stderr, "hanging: %s\n", coppice_last_error());
    exit(3);
}

static const char* calls_of(int argc, char** argv, unsigned rank) {
    const char* calls = "";
    for (int i = 1; i < argc; ++i) {
        char* end = NULL;
        if (strncmp(argv[i], "*:", 2) == 0 && *calls == '\0') calls = argv[i] + 2;
        if (strtoul(argv[i], &end, 10) == rank && end != argv[i] && *end == ':') calls = end + 1;
    }
    return calls;
}

int main(int argc, char** argv) {
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGUSR1);
    sigprocmask(SIG_BLOCK, &awaited, NULL); /* in all threads */
    coppice_context_t* context = NULL;
    coppice_group_t* group = NULL;
    check(coppice_context_create(NULL, &context));
    check(coppice_group_create(context, NULL, &group));
    coppice_group_info_t info = {.struct_size = sizeof info};
    check(coppice_group_query(group, &info));
    char* calls = strdup(calls_of(argc, argv, info.rank));
    uint64_t value = info.rank;
    uint64_t patience = UINT64_MAX;
    for (char* call = strtok(calls, " "); call != NULL; call = strtok(NULL, " ")) {
        const uint32_t root = (uint32_t)strtoul(call + 1, NULL, 10);
        coppice_request_t* request = NULL;
        if (strcmp(call, "pause") == 0) {
            for (;;)
                pause();
        } else if (strcmp(call, "signal") == 0) {
            int number = 0;
            sigwait(&awaited, &number);
        } else if (strcmp(call, "limit") == 0) {
            patience = 1000000000;
        } else if (strcmp(call, "leave") == 0) {
            check(coppice_group_destroy(group, patience));
            group = NULL;
        } else if (call[0] == 'b') {
            check(coppice_broadcast(group, &value, sizeof value, root, NULL, patience));
        } else if (call[0] == 'n') {
            check(coppice_broadcast_nb(group, &value, sizeof value, root, &request));
        } else if (call[0] == 'w') {
            check(coppice_broadcast_nb(group, &value, sizeof value, root, &request));
            check(coppice_request_wait(request, NULL, patience));
            check(coppice_request_free(request));
        } else if (call[0] == 'p' || call[0] == 'q') {
            const uint64_t at_a_time = call[0] == 'p' ? 1000000 : 1000;
            coppice_status_t status = COPPICE_OK;
            check(coppice_broadcast_nb(group, &value, sizeof value, root, &request));
            while ((status = coppice_request_wait(request, NULL, at_a_time)) == COPPICE_ERR_TIMEOUT) {
            }
            check(status);
            check(coppice_request_free(request));
        } else if (call[0] == 'r') {
            check(coppice_broadcast_nb(group, &value, sizeof value, root, &request));
            if (coppice_request_wait(request, NULL, 100000000) != COPPICE_ERR_TIMEOUT) exit(4);
            raise(SIGSTOP);
            check(coppice_request_wait(request, NULL, patience));
            check(coppice_request_free(request));
        } else if (call[0] == 'a') {
            coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
            check(coppice_agree(group, &value, sizeof value, &options, patience));
        } else if (call[0] == 'B') {
            check(coppice_barrier(group, patience));
        } else if (strcmp(call, "T") == 0) {
            if (coppice_barrier(group, 100000000) != COPPICE_ERR_TIMEOUT) exit(4);
            raise(SIGSTOP);
        } else if (strcmp(call, "s") == 0) {
            coppice_group_t* shrunk = NULL;
            check(coppice_group_shrink(group, &shrunk, patience));
            check(coppice_group_destroy(group, UINT64_MAX));
            group = shrunk;
        }
    }
    free(calls);
    if (group != NULL) check(coppice_group_destroy(group, UINT64_MAX));
    check(coppice_context_destroy(context));
    return 0;
}
