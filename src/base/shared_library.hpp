// A library that is loaded when it is used for the first time. Programs that have no use for it need not have it, and do not wait for it
// when they start.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>

namespace coppice {

struct SharedLibrary {
    const char* soname;   // "libucp.so.0": it is looked for where a program finds it that is linked with it
    const char* package;  // of Debian's, for people
};

struct LibraryFunction {
    const char* name;
    void* pointer;  // the pointer to a function that is to be set
};

// Loads it, for as long as the process lives, and sets all pointers. Or says in a sentence what is missing, and how to get it; then
// some pointers may be set. Some milliseconds.
tl::expected<void, std::string> load_library(const SharedLibrary& library, std::span<const LibraryFunction> functions);

// Whether it is in the process already.
bool is_loaded(const SharedLibrary& library);

// The limit of descriptors (RLIMIT_NOFILE) where this process has none left, which loading a library takes one of.
std::optional<std::uint64_t> limit_of_used_up_descriptors();

}  // namespace coppice
