// Loads, uses and unloads the library again and again, as a plugin of some program would: reload LIBRARY
// Nothing is printed, and there are no more threads and descriptors after the third time than after the first.
#include <dirent.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "coppice/coppice.h"

namespace {

int entries(const char* directory) {
    DIR* const dir = opendir(directory);
    int count = 0;
    while (readdir(dir) != nullptr)
        ++count;
    closedir(dir);
    return count;
}

template <class Function>
Function* symbol(void* library, Function* /*like*/, const char* name) {
    return reinterpret_cast<Function*>(dlsym(library, name));
}
#define CALL(library, function) symbol(library, &function, #function)

int exchange_alone(void* /*argument*/, const void* mine, size_t bytes, void* all) {
    std::memcpy(all, mine, bytes);
    return 0;
}

bool use(void* library) {
    coppice_context_options_t context_options = COPPICE_CONTEXT_OPTIONS_INIT;
    context_options.progress_thread = 1;
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    options.exchange = exchange_alone;
    options.size = 1;
    coppice_context_t* context = nullptr;
    coppice_group_t* group = nullptr;
    char byte = 1;
    return CALL(library, coppice_context_create)(&context_options, &context) == COPPICE_OK &&
           CALL(library, coppice_group_create)(context, &options, &group) == COPPICE_OK &&
           CALL(library, coppice_broadcast)(group, &byte, 1, 0, nullptr, COPPICE_NO_TIMEOUT) == COPPICE_OK &&
           CALL(library, coppice_group_destroy)(group, COPPICE_NO_TIMEOUT) == COPPICE_OK &&
           CALL(library, coppice_context_destroy)(context) == COPPICE_OK;
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 2) return 2;
    int threads = 0;
    int descriptors = 0;
    for (int time = 0; time < 4; ++time) {
        void* const library = dlopen(arguments[1], RTLD_NOW);
        if (library == nullptr) {
            std::puts(dlerror());
            return 1;
        }
        if (time > 0 && !use(library)) {
            std::puts("it does not work");
            return 1;
        }
        if (dlclose(library) != 0) return 1;
        if (time == 1) {
            threads = entries("/proc/self/task");
            descriptors = entries("/proc/self/fd");
        }
    }
    if (entries("/proc/self/task") > threads || entries("/proc/self/fd") > descriptors) {
        std::puts("threads or descriptors are left over");
        return 1;
    }
    return 0;
}
