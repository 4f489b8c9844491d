// A rank for the tests of start-up under coppice-run: rank 0 does not show up but waits for the end of its standard
// input; every other rank makes a group and prints how that ended: rank, status, sentence.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "coppice/coppice.h"

int main() {
    const char* rank = std::getenv("COPPICE_RANK");
    if (rank == nullptr) return 9;
    if (std::strcmp(rank, "0") == 0) {
        char byte = 0;
        while (read(STDIN_FILENO, &byte, 1) > 0) {
        }
        return 0;
    }
    coppice_context_t* context = nullptr;
    coppice_group_t* group = nullptr;
    if (coppice_context_create(nullptr, &context) != COPPICE_OK) return 8;
    const coppice_status_t status = coppice_group_create(context, nullptr, &group);
    std::printf("%s %d %s\n", rank, static_cast<int>(status), coppice_last_error());
    std::fflush(stdout);
    return coppice_context_destroy(context) == COPPICE_OK ? 0 : 7;
}
