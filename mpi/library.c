#include "library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libcoppice.so.0"

struct library coppice;

static int was_wanted;
static char trouble[256];

#define AS_NAME(name) {"coppice_" #name, offsetof(struct library, name)},
static const struct {
    const char* name;
    size_t place;
} kFunctions[] = {COPPICE_MPI_LIBRARY(AS_NAME)};

/* It is installed one folder above the preload. One that is there is taken, or none: another might be of another version. */
static void* open_library(void) {
    void* library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    if (library != NULL) return library;
    Dl_info preload;
    char path[4096];
    const char* last = dladdr(&coppice, &preload) != 0 ? strrchr(preload.dli_fname, '/') : NULL;
    if (last == NULL) return dlopen(LIBRARY, RTLD_NOW);
    const int length =
        snprintf(path, sizeof path, "%.*s/../" LIBRARY, (int)(last - preload.dli_fname), preload.dli_fname);
    if (length < (int)sizeof path && access(path, F_OK) == 0) return dlopen(path, RTLD_NOW);
    return dlopen(LIBRARY, RTLD_NOW);
}

static void find_functions(void* library) {
    struct library found;
    for (size_t i = 0; i < sizeof kFunctions / sizeof kFunctions[0]; ++i) {
        void* function = dlsym(library, kFunctions[i].name);
        if (function == NULL) {
            snprintf(trouble, sizeof trouble, "%s has no %s: it is of another version", LIBRARY, kFunctions[i].name);
            return;
        }
        memcpy((char*)&found + kFunctions[i].place, &function, sizeof function);
    }
    coppice = found;
}

const char* load_library(void) {
    if (!was_wanted) {
        was_wanted = 1;
        void* library = open_library();
        if (library != NULL) {
            find_functions(library);
        } else {
            snprintf(trouble, sizeof trouble, "the library can't be loaded: %s", dlerror());
        }
    }
    return trouble[0] == '\0' ? NULL : trouble;
}

int library_was_wanted(void) {
    return was_wanted;
}
