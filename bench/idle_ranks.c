/* One rank of bench/idle.sh: works a little, then stays outside of the library for so many seconds and prints what all of its
 * threads cost meanwhile, in nanoseconds of a core. */
#include <coppice/coppice.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check(coppice_status_t status) {
    if (status == COPPICE_OK) return;
    fprintf(stderr, "idle_ranks: %s\n", coppice_last_error());
    exit(1);
}

static uint64_t cpu_ns(void) {
    uint64_t sum = 0;
    DIR* tasks = opendir("/proc/self/task");
    if (tasks == NULL) return 0;
    for (const struct dirent* task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        char path[300];
        unsigned long long ran = 0;
        if (task->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
        FILE* file = fopen(path, "r");
        if (file == NULL) continue;
        if (fscanf(file, "%llu", &ran) == 1) sum += ran;
        fclose(file);
    }
    closedir(tasks);
    return sum;
}

int main(int argc, char** argv) {
    const unsigned seconds = argc > 1 ? (unsigned)atoi(argv[1]) : 10;
    coppice_context_t* context = NULL;
    coppice_group_t* group = NULL;
    check(coppice_context_create(NULL, &context));
    check(coppice_group_create(context, NULL, &group));
    uint64_t value = 1;
    for (uint32_t i = 0; i < 100; ++i)
        check(coppice_broadcast(group, &value, sizeof value, 0, NULL, COPPICE_NO_TIMEOUT));
    for (uint32_t i = 0; i < 10; ++i)
        check(coppice_agree(group, &value, sizeof value, NULL, COPPICE_NO_TIMEOUT));
    sleep(1); /* until the others' last questions are answered */
    const uint64_t before = cpu_ns();
    for (unsigned left = seconds; left > 0; left = sleep(left)) {
    }
    printf("%llu\n", (unsigned long long)(cpu_ns() - before));
    fflush(stdout);
    check(coppice_group_destroy(group, COPPICE_NO_TIMEOUT));
    check(coppice_context_destroy(context));
    return 0;
}
