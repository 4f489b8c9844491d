// libpmix, looked for at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.hpp"
#include "bootstrap/pmix_abi.hpp"

namespace coppice::bootstrap::pmix {

using Process = coppice_pmix_proc_t;
using Value = coppice_pmix_value_t;
using Info = coppice_pmix_info_t;

struct Library {
    int (*init)(Process*, Info*, std::size_t) = nullptr;
    int (*finalize)(const Info*, std::size_t) = nullptr;
    int (*put)(std::uint8_t, const char*, Value*) = nullptr;
    int (*commit)() = nullptr;
    int (*fence_nb)(const Process*, std::size_t, const Info*, std::size_t, coppice_pmix_done_fn, void*) = nullptr;
    int (*get)(const Process*, const char*, const Info*, std::size_t, Value**) = nullptr;
    int (*get_nb)(const Process*, const char*, const Info*, std::size_t, coppice_pmix_value_fn, void*) = nullptr;
    const char* (*error_string)(int) = nullptr;
    const char* (*version)() = nullptr;
    // Both, or neither: a library without events is good enough for an exchange.
    int (*register_handler)(int*, std::size_t, Info*, std::size_t, coppice_pmix_event_fn, coppice_pmix_registered_fn,
                            void*) = nullptr;
    int (*deregister_handler)(std::size_t, coppice_pmix_done_fn, void*) = nullptr;

    std::string error(int status) const { return fmt::format("{} ({})", error_string(status), status); }
};

// Loaded once, and for good: it has a thread.
const Result<Library>& library();

}  // namespace coppice::bootstrap::pmix
