#include "base/shared_library.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace coppice {

// Its own plugins name the libraries that they need, so none of its symbols is offered to anybody else. It stays: such libraries have
// threads, handlers and hooks of their own.
tl::expected<void, std::string> load_library(const SharedLibrary& library, std::span<const LibraryFunction> functions) {
    void* const handle = ::dlopen(library.soname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr)
        return tl::unexpected(fmt::format("{} can't be loaded: {}; install it (Debian: {}), or set LD_LIBRARY_PATH",
                                          library.soname, ::dlerror(), library.package));
    for (const LibraryFunction& function : functions) {
        void* const found = ::dlsym(handle, function.name);
        if (found == nullptr)
            return tl::unexpected(fmt::format("{} has no {}: {}; install another release of it (Debian: {})",
                                              library.soname, function.name, ::dlerror(), library.package));
        std::memcpy(function.pointer, &found, sizeof found);
    }
    return {};
}

bool is_loaded(const SharedLibrary& library) {
    void* const handle = ::dlopen(library.soname, RTLD_LAZY | RTLD_NOLOAD);
    if (handle != nullptr) ::dlclose(handle);
    return handle != nullptr;
}

std::optional<std::uint64_t> limit_of_used_up_descriptors() {
    const int any = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (any >= 0) {
        close(any);
        return std::nullopt;
    }
    rlimit limit{};
    if (errno != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
    return limit.rlim_cur;
}

}  // namespace coppice
