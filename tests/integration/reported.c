/* A rank of a job of which PMIx reports deaths: it does what it is told, line by line, and says what came of it.
 *
 *   make [RANK…]   a group of all, or of these of the launcher's ranks in that order       made SIZE
 *   agree GROUP    which of its ranks contribute, and how that ended                         agreed MASK ok|failed|fenced
 *   shrink GROUP   it becomes the smaller one                                                shrunk SIZE
 *   leave GROUP                                                                              left
 *
 * Groups are numbered in the order in which they were made. */
#include <coppice/coppice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 };
static const uint64_t timeout_ns = 60000000000;

static void check(coppice_status_t status) {
    if (status == COPPICE_OK) return;
    fprintf(stderr, "reported: %s\n", coppice_last_error());
    exit(3);
}

static coppice_group_t* make(coppice_context_t* context, char* list) {
    uint32_t ranks[MOST];
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    for (char* word = strtok(list, " \n"); word != NULL && options.rank_count < MOST; word = strtok(NULL, " \n"))
        ranks[options.rank_count++] = (uint32_t)atoi(word);
    if (options.rank_count > 0) options.ranks = ranks;
    coppice_group_t* group = NULL;
    check(coppice_group_create(context, &options, &group));
    return group;
}

static coppice_group_info_t about(coppice_group_t* group) {
    coppice_group_info_t info = {.struct_size = sizeof info};
    check(coppice_group_query(group, &info));
    return info;
}

static void agree(coppice_group_t* group) {
    uint64_t mask = (uint64_t)1 << about(group).rank;
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = COPPICE_OR;
    const coppice_status_t status = coppice_agree(group, &mask, sizeof mask, &options, timeout_ns);
    if (status != COPPICE_ERR_PEER_FAILED && status != COPPICE_ERR_FENCED) check(status);
    printf("agreed %#llx %s\n", (unsigned long long)mask,
           status == COPPICE_OK           ? "ok"
           : status == COPPICE_ERR_FENCED ? "fenced"
                                          : "failed");
}

int main(void) {
    char line[256];
    coppice_context_t* context = NULL;
    coppice_group_t* groups[MOST] = {NULL};
    int made = 0;
    check(coppice_context_create(NULL, &context));
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin) != NULL) {
        char* rest = strchr(line, ' ');
        const int number = rest == NULL ? 0 : atoi(rest);
        if (strncmp(line, "make", 4) == 0 && made < MOST) {
            groups[made] = make(context, rest == NULL ? line + strlen(line) : rest);
            printf("made %u\n", (unsigned)about(groups[made++]).size);
        } else if (number < 0 || number >= made) {
            return 2;
        } else if (strncmp(line, "agree", 5) == 0) {
            agree(groups[number]);
        } else if (strncmp(line, "shrink", 6) == 0) {
            coppice_group_t* next = NULL;
            check(coppice_group_shrink(groups[number], &next, timeout_ns));
            check(coppice_group_destroy(groups[number], timeout_ns));
            groups[number] = next;
            printf("shrunk %u\n", (unsigned)about(next).size);
        } else if (strncmp(line, "leave", 5) == 0) {
            check(coppice_group_destroy(groups[number], timeout_ns));
            groups[number] = NULL;
            printf("left\n");
        }
    }
    return 0;
}
