// libpmix as it is now and then: the server of another host does not know a process yet, and says so instead of waiting for it. In the
// first three answers here; all else is the library's own, which UNSURE_PMIX names. With UNSURE_PMIX_EVENTS=refused or =silent it takes no handler of
// events, or never says whether it does. With UNSURE_PMIX_INIT=STATUS no session begins: this is what is said. With UNSURE_PMIX_STOP=FUNCTION the
// launcher's process UNSURE_PMIX_SERVER is stopped before that function is called.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "bootstrap/pmix_abi.hpp"

namespace {

// SIGSTOP is on its way when kill() returns.
bool is_stopped(const std::string& process) {
    for (const auto& thread : std::filesystem::directory_iterator("/proc/" + process + "/task")) {
        std::ifstream file(thread.path() / "stat");
        std::string line;
        std::getline(file, line);
        const std::size_t end = line.rfind(") ");
        if (end != std::string::npos && line.compare(end + 2, 1, "T") != 0) return false;
    }
    return true;
}

void stop_server_at(const char* name) {
    const char* const when = std::getenv("UNSURE_PMIX_STOP");
    const char* const server = std::getenv("UNSURE_PMIX_SERVER");
    if (when == nullptr || server == nullptr || std::strcmp(when, name) != 0) return;
    if (kill(std::atoi(server), SIGSTOP) != 0) std::abort();
    while (!is_stopped(server))
        usleep(1000);
}

template <class Function>
Function* own(Function* /*wrapper*/, const char* name) {
    stop_server_at(name);
    static void* const library = dlopen(std::getenv("UNSURE_PMIX"), RTLD_NOW | RTLD_LOCAL);
    void* const function = library == nullptr ? nullptr : dlsym(library, name);
    if (function != nullptr) return reinterpret_cast<Function*>(function);
    std::fprintf(stderr, "unsure_pmix: %s\n", dlerror());
    std::abort();
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

int PMIx_Init(coppice_pmix_proc_t* self, coppice_pmix_info_t* info, std::size_t count) {
    if (const char* const status = std::getenv("UNSURE_PMIX_INIT")) return std::atoi(status);
    return own(&PMIx_Init, "PMIx_Init")(self, info, count);
}

int PMIx_Finalize(const coppice_pmix_info_t* info, std::size_t count) {
    return own(&PMIx_Finalize, "PMIx_Finalize")(info, count);
}

int PMIx_Put(std::uint8_t scope, const char* key, coppice_pmix_value_t* value) {
    return own(&PMIx_Put, "PMIx_Put")(scope, key, value);
}

int PMIx_Commit() {
    return own(&PMIx_Commit, "PMIx_Commit")();
}

int PMIx_Fence_nb(const coppice_pmix_proc_t* all, std::size_t count, const coppice_pmix_info_t* info, std::size_t infos,
                  coppice_pmix_done_fn done, void* argument) {
    return own(&PMIx_Fence_nb, "PMIx_Fence_nb")(all, count, info, infos, done, argument);
}

int PMIx_Get(const coppice_pmix_proc_t* of, const char* key, const coppice_pmix_info_t* info, std::size_t infos,
             coppice_pmix_value_t** value) {
    return own(&PMIx_Get, "PMIx_Get")(of, key, info, infos, value);
}

int PMIx_Get_nb(const coppice_pmix_proc_t* of, const char* key, const coppice_pmix_info_t* info, std::size_t infos,
                coppice_pmix_value_fn done, void* argument) {
    static std::atomic<int> asked;
    if (++asked > 3) return own(&PMIx_Get_nb, "PMIx_Get_nb")(of, key, info, infos, done, argument);
    std::fprintf(stderr, "unsure_pmix: rank %u is not known\n", of->rank);
    done(COPPICE_PMIX_PROCESS_NOT_FOUND, nullptr, argument);
    return COPPICE_PMIX_SUCCESS;
}

int PMIx_Register_event_handler(int* events, std::size_t count, coppice_pmix_info_t* info, std::size_t infos,
                                coppice_pmix_event_fn handler, coppice_pmix_registered_fn registered, void* argument) {
    const char* const does = std::getenv("UNSURE_PMIX_EVENTS");
    if (does == nullptr) {
        return own(&PMIx_Register_event_handler, "PMIx_Register_event_handler")(events, count, info, infos, handler,
                                                                                registered, argument);
    }
    if (std::strcmp(does, "refused") == 0) registered(COPPICE_PMIX_NOT_FOUND, 0, argument);
    return COPPICE_PMIX_SUCCESS;
}

int PMIx_Deregister_event_handler(std::size_t reference, coppice_pmix_done_fn done, void* argument) {
    return own(&PMIx_Deregister_event_handler, "PMIx_Deregister_event_handler")(reference, done, argument);
}

const char* PMIx_Error_string(int status) {
    return own(&PMIx_Error_string, "PMIx_Error_string")(status);
}

const char* PMIx_Get_version() {
    return own(&PMIx_Get_version, "PMIx_Get_version")();
}

#pragma GCC visibility pop
}
