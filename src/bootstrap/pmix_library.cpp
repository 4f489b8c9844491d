#include "bootstrap/pmix_library.hpp"

#include <dlfcn.h>

namespace coppice::bootstrap::pmix {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
}

Result<Library> load() {
    void* const handle = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr) {
        return fail(
            COPPICE_ERR_BOOTSTRAP,
            "a launcher that speaks PMIx has started this process, but its library can't be loaded: {}; install "
            "it (Debian: libpmix2), or set LD_LIBRARY_PATH",
            ::dlerror());
    }
    Library library;
    if (find(handle, "PMIx_Init", library.init) && find(handle, "PMIx_Finalize", library.finalize) &&
        find(handle, "PMIx_Put", library.put) && find(handle, "PMIx_Commit", library.commit) &&
        find(handle, "PMIx_Fence_nb", library.fence_nb) && find(handle, "PMIx_Get", library.get) &&
        find(handle, "PMIx_Get_nb", library.get_nb) && find(handle, "PMIx_Error_string", library.error_string) &&
        find(handle, "PMIx_Get_version", library.version)) {
        if (!find(handle, "PMIx_Register_event_handler", library.register_handler) ||
            !find(handle, "PMIx_Deregister_event_handler", library.deregister_handler))
            library.register_handler = nullptr;
        return library;
    }
    return fail(COPPICE_ERR_BOOTSTRAP, "libpmix.so.2 lacks a function: {}", ::dlerror());
}

}  // namespace

const Result<Library>& library() {
    static const Result<Library> loaded = load();
    return loaded;
}

}  // namespace coppice::bootstrap::pmix
