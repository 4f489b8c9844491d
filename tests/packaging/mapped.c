/* A broadcast, after which each rank prints what carries its messages, and which libraries of networks are in its process:
 *   shm; mapped: nothing
 *   ucx; mapped: libucp.so libucs.so libuct.so libucm.so */
#include <coppice/coppice.h>
#include <stdio.h>
#include <string.h>

static const char* const kLibraries[] = {"libucp.so",     "libucs.so",    "libuct.so",  "libucm.so",
                                         "libibverbs.so", "librdmacm.so", "libnl-3.so", "libnuma.so"};

static int is_mapped(const char* library) {
    char line[4096];
    int found = 0;
    FILE* maps = fopen("/proc/self/maps", "r");
    if (maps == NULL) return 1;
    while (fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, library) != NULL) found = 1;
    fclose(maps);
    return found;
}

int main(void) {
    coppice_context_t* context = NULL;
    coppice_group_t* group = NULL;
    coppice_group_info_t info = {.struct_size = sizeof info};
    int word = 0;
    coppice_status_t status = coppice_context_create(NULL, &context);
    if (status == COPPICE_OK) status = coppice_group_create(context, NULL, &group);
    if (status == COPPICE_OK) status = coppice_group_query(group, &info);
    if (info.rank == 0) word = 42;
    if (status == COPPICE_OK) status = coppice_broadcast(group, &word, sizeof word, 0, NULL, COPPICE_NO_TIMEOUT);
    if (status == COPPICE_OK && word == 42) {
        char names[256] = "";
        for (size_t i = 0; i < sizeof kLibraries / sizeof kLibraries[0]; ++i) {
            if (!is_mapped(kLibraries[i])) continue;
            strcat(names, " ");
            strcat(names, kLibraries[i]);
        }
        printf("%s; mapped:%s\n", info.transports, names[0] == '\0' ? " nothing" : names);
    }
    if (status != COPPICE_OK) fprintf(stderr, "%s: %s\n", coppice_status_string(status), coppice_last_error());
    if (group != NULL) coppice_group_destroy(group, COPPICE_NO_TIMEOUT);
    if (context != NULL) coppice_context_destroy(context);
    return status == COPPICE_OK ? 0 : 1;
}
