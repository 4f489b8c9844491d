// Loads, uses and unloads the library again and again, as a plugin of some program would: reload LIBRARY TRANSPORT…
// It is used by two ranks, over one transport after the other.
// Nothing is printed, and there are no more threads and descriptors after the third time than after the first.
#include <dirent.h>
#include <dlfcn.h>

#include <array>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

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

// Two ranks, each a thread with a context of its own, put their pieces together.
struct Rank {
    std::uint32_t self;
    std::barrier<>* meeting;
    std::array<std::vector<char>, 2>* pieces;
};

int exchange(void* argument, const void* mine, size_t bytes, void* all) {
    const auto& rank = *static_cast<const Rank*>(argument);
    (*rank.pieces)[rank.self].assign(static_cast<const char*>(mine), static_cast<const char*>(mine) + bytes);
    rank.meeting->arrive_and_wait();
    if ((*rank.pieces)[1 - rank.self].size() != bytes) return 1;
    for (std::size_t one = 0; one < 2; ++one)
        std::memcpy(static_cast<char*>(all) + one * bytes, (*rank.pieces)[one].data(), bytes);
    rank.meeting->arrive_and_wait();
    return 0;
}

bool use(void* library, const char* transport, Rank rank) {
    coppice_context_options_t context_options = COPPICE_CONTEXT_OPTIONS_INIT;
    context_options.progress_thread = 1;
    context_options.transports = transport;
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    options.exchange = exchange;
    options.exchange_argument = &rank;
    options.rank = rank.self;
    options.size = 2;
    coppice_context_t* context = nullptr;
    coppice_group_t* group = nullptr;
    constexpr std::uint64_t kTimeout = 120'000'000'000;
    bool good = CALL(library, coppice_context_create)(&context_options, &context) == COPPICE_OK &&
                CALL(library, coppice_group_create)(context, &options, &group) == COPPICE_OK;
    for (std::uint32_t root = 0; root < 2 && good; ++root) {
        char byte = rank.self == root ? 'x' : '-';
        good = CALL(library, coppice_broadcast)(group, &byte, 1, root, nullptr, kTimeout) == COPPICE_OK && byte == 'x';
    }
    good = good && CALL(library, coppice_group_destroy)(group, kTimeout) == COPPICE_OK &&
           CALL(library, coppice_context_destroy)(context) == COPPICE_OK;
    if (good) return true;
    rank.meeting->arrive_and_drop();  // the other one does not wait
    std::printf("%s: %s\n", transport, CALL(library, coppice_last_error)());
    return false;
}

bool use(void* library, const char* transport) {
    std::barrier<> meeting(2);
    std::array<std::vector<char>, 2> pieces;
    bool second = false;
    std::thread other([&] { second = use(library, transport, {1, &meeting, &pieces}); });
    const bool first = use(library, transport, {0, &meeting, &pieces});
    other.join();
    return first && second;
}

// What a thread that has ended leaves in /proc may be there for a moment.
bool become_fewer(const char* directory, int than) {
    for (int time = 0; time < 6000 && entries(directory) > than; ++time)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return entries(directory) <= than;
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 3) return 2;
    int threads = 0;
    int descriptors = 0;
    for (int time = 0; time < 4; ++time) {
        void* const library = dlopen(arguments[1], RTLD_NOW);
        if (library == nullptr) {
            std::puts(dlerror());
            return 1;
        }
        for (int transport = 2; time > 0 && transport < count; ++transport)
            if (!use(library, arguments[transport])) return 1;
        if (dlclose(library) != 0) return 1;
        if (time == 1) {
            threads = entries("/proc/self/task");
            descriptors = entries("/proc/self/fd");
        }
    }
    if (!become_fewer("/proc/self/task", threads) || !become_fewer("/proc/self/fd", descriptors)) {
        std::puts("threads or descriptors are left over");
        return 1;
    }
    return 0;
}
