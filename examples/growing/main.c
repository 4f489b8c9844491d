/* Work that goes on while ranks die and others take their places. Run it as
 *
 *   coppice-run -n 4 --respawn --kill 2@500ms growing --newcomers 1
 *   coppice-run -n 4 --join 4@200ms growing --newcomers 4
 *   coppice-run -n 6 --spares 2 --kill 2@1s --kill 4@2s growing --newcomers 2 --most 6
 *
 * or, where others are to join that no launcher has started, with COPPICE_JOIN=any and COPPICE_CAPACITY=8 in the environment of both:
 *
 *   coppice-run -n 3 growing --newcomers 1 --ticket my.ticket
 *   growing --newcomers 1 --join my.ticket
 *
 * The ranks agree round after round; what they have come to so far is their state. Where a rank has died, or a newcomer waits, which they
 * all learn from the same agreement, they renew the group, and the eldest of the new one brings its state to the newcomers. It ends after so
 * many rounds, once so many newcomers have been taken in. The pattern to copy is in work() and renew(). */
#include <coppice/coppice.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct state {
    uint64_t round;
    uint64_t sum; /* of what was agreed upon, folded */
    uint64_t newcomers;
};

static const uint64_t kPatience = UINT64_C(60) * 1000 * 1000 * 1000;

static void check(coppice_status_t status, const char* what) {
    if (status == COPPICE_OK) return;
    fprintf(stderr, "growing: %s: %s\n", what, coppice_last_error());
    exit(1);
}

static uint64_t fold(uint64_t sum, uint64_t value) {
    return (sum ^ value) * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

/* Whether all were there until the end; the same at all that are. */
static int agree(coppice_group_t* group, uint64_t* value, coppice_operation_t operation) {
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = operation;
    options.type = COPPICE_UINT64;
    const coppice_status_t status = coppice_agree(group, value, sizeof *value, &options, kPatience);
    if (status == COPPICE_ERR_PEER_FAILED) return 0;
    check(status, "agree");
    return 1;
}

/* One rank tells how far they are. */
static void report(coppice_group_t* group, uint32_t reporter, const struct state* state) {
    coppice_group_info_t info = {.struct_size = sizeof info};
    check(coppice_group_query(group, &info), "query");
    if (info.rank != reporter) return;
    printf("growing: %" PRIu32 " ranks, %" PRIu64 " newcomers so far\n", info.size, state->newcomers);
    fflush(stdout);
}

/* The eldest has what newcomers lack. False when the group has lost a rank meanwhile: then it is to be renewed again. */
static int bring(coppice_group_t* group, struct state* state) {
    coppice_view_t view = {.struct_size = sizeof view};
    check(coppice_group_view(group, &view, NULL, 0), "view");
    if (view.epoch > 0) state->newcomers += view.newcomers;
    const coppice_status_t status = coppice_broadcast(group, state, sizeof *state, view.eldest, NULL, kPatience);
    uint64_t has_it = status == COPPICE_OK;
    if (status != COPPICE_ERR_ROOT_FAILED && status != COPPICE_ERR_PEER_FAILED) check(status, "broadcast");
    if (!agree(group, &has_it, COPPICE_MIN) || has_it == 0) return 0;
    if (view.newcomers > 0) report(group, view.eldest, state);
    return 1;
}

static uint32_t most; /* members; 0: as many as come */

static coppice_group_t* renew(coppice_group_t* group, struct state* state) {
    coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
    options.most = most;
    int is_good = 0;
    while (!is_good) {
        coppice_group_t* next = NULL;
        check(coppice_group_renew(group, &options, &next, kPatience), "renew");
        check(coppice_group_destroy(group, kPatience), "destroy");
        group = next;
        is_good = bring(group, state);
    }
    return group;
}

static coppice_group_t* work(coppice_group_t* group, struct state* state, uint64_t rounds, uint64_t newcomers) {
    while (state->round < rounds || state->newcomers < newcomers) {
        uint64_t value = state->round;
        int is_good = agree(group, &value, COPPICE_MAX);
        int pending = 0;
        check(coppice_group_pending(group, &pending), "pending");
        if (is_good) { /* else the round is done again */
            if (value != state->round) {
                fprintf(stderr, "growing: round %" PRIu64 " here, %" PRIu64 " elsewhere\n", state->round, value);
                exit(1);
            }
            state->sum = fold(state->sum, value);
            ++state->round;
        }
        if (!is_good || pending) group = renew(group, state);
    }
    return group;
}

/* ------------------------------------------------------------------------------------------------------- tickets --- */

static void give_up(const char* what, const char* file) {
    fprintf(stderr, "growing: %s ", what);
    perror(file);
    exit(1);
}

/* For the user alone, and there as a whole or not at all. */
static void write_ticket(coppice_group_t* group, const char* file) {
    unsigned char ticket[COPPICE_TICKET_BYTES];
    size_t bytes = sizeof ticket;
    char unfinished[4096];
    check(coppice_group_invite(group, 100, UINT64_C(3600) * 1000 * 1000 * 1000, ticket, &bytes), "invite");
    snprintf(unfinished, sizeof unfinished, "%s.%ld", file, (long)getpid());
    const int to = open(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0 || write(to, ticket, bytes) != (ssize_t)bytes || close(to) != 0 || rename(unfinished, file) != 0)
        give_up("cannot write", file);
}

/* Waits until there is one. */
static coppice_group_t* join(coppice_context_t* context, const char* file) {
    unsigned char ticket[COPPICE_TICKET_BYTES];
    const time_t begin = time(NULL);
    int from = -1;
    while ((from = open(file, O_RDONLY | O_CLOEXEC)) < 0 && time(NULL) - begin < 60)
        nanosleep(&(struct timespec){0, 10 * 1000 * 1000}, NULL);
    const ssize_t bytes = from < 0 ? -1 : read(from, ticket, sizeof ticket);
    if (bytes < 0) give_up("cannot read", file);
    close(from);
    coppice_group_t* group = NULL;
    check(coppice_group_join(context, ticket, (size_t)bytes, NULL, &group, kPatience), "join");
    return group;
}

static const char* text_after(int argc, char** argv, const char* name) {
    for (int i = 1; i + 1 < argc; ++i)
        if (strcmp(argv[i], name) == 0) return argv[i + 1];
    return NULL;
}

static uint64_t number_after(int argc, char** argv, const char* name, uint64_t otherwise) {
    for (int i = 1; i + 1 < argc; ++i)
        if (strcmp(argv[i], name) == 0) return strtoull(argv[i + 1], NULL, 10);
    return otherwise;
}

int main(int argc, char** argv) {
    coppice_context_t* context = NULL;
    coppice_group_t* group = NULL;
    struct state state = {0, 0, 0};
    most = (uint32_t)number_after(argc, argv, "--most", 0);
    check(coppice_context_create(NULL, &context), "context");
    const char* const ticket = text_after(argc, argv, "--join");
    if (ticket != NULL) {
        group = join(context, ticket);
    } else {
        check(coppice_group_create(context, NULL, &group), "create"); /* one that was started late is taken in here */
    }
    coppice_view_t view = {.struct_size = sizeof view};
    check(coppice_group_view(group, &view, NULL, 0), "view");
    if (view.epoch == 0) {
        coppice_group_info_t info = {.struct_size = sizeof info};
        check(coppice_group_query(group, &info), "query");
        const char* const file = text_after(argc, argv, "--ticket");
        if (file != NULL && info.rank == view.eldest) write_ticket(group, file);
        report(group, view.eldest, &state);
    } else if (!bring(group, &state)) {
        group = renew(group, &state);
    }
    group = work(group, &state, number_after(argc, argv, "--rounds", 1000), number_after(argc, argv, "--newcomers", 0));

    uint64_t sum = 0;
    for (uint64_t round = 0; round < state.round; ++round)
        sum = fold(sum, round);
    coppice_group_info_t info = {.struct_size = sizeof info};
    check(coppice_group_query(group, &info), "query");
    printf("growing: rank %" PRIu32 " of %" PRIu32 ": %" PRIu64 " newcomers, state %s\n", info.rank, info.size,
           state.newcomers, sum == state.sum ? "right" : "WRONG");
    check(coppice_group_destroy(group, kPatience), "destroy");
    check(coppice_context_destroy(context), "context");
    return sum == state.sum ? 0 : 1;
}
