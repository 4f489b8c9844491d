// Structures of the C API that may grow. Their first field says how large the caller's is: a program that was built against an
// older library gives a smaller one, a newer program a larger one. Both are served with the fields that the two know.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "base/error.hpp"

// A structure's size up to and with this field: what the first release that had it asks for.
#define COPPICE_SIZE_THROUGH(type, field) (offsetof(type, field) + sizeof(type::field))

namespace coppice::api {

// A caller in C may have put any number there, which C++ must not read as the enumeration.
template <class Enumeration>
std::underlying_type_t<Enumeration> number_of(const Enumeration& field) {
    std::underlying_type_t<Enumeration> number;
    std::memcpy(&number, &field, sizeof number);
    return number;
}

// The caller's options: its fields over the defaults. `given` may be null: all defaults. Nothing behind given->struct_size
// is read. COPPICE_ERR_INVALID_ARGUMENT when it is smaller than `least`, the size in the first release.
template <class Options>
Result<Options> options_given(const Options* given, const Options& defaults, std::size_t least, const char* call,
                              const char* initializer) {
    static_assert(std::is_trivially_copyable_v<Options>);
    Options all = defaults;
    if (given == nullptr) return all;
    if (given->struct_size < least) {
        return fail(COPPICE_ERR_INVALID_ARGUMENT,
                    "{}: options.struct_size is too small: initialise the options with {}", call, initializer);
    }
    std::memcpy(&all, given, std::min(given->struct_size, sizeof all));
    all.struct_size = sizeof all;
    return all;
}

// Gives the caller as much of the answer as its structure has room for; struct_size stays the caller's.
template <class Answer>
Result<void> give_answer(Answer answer, Answer* into, std::size_t least, const char* call, const char* type) {
    static_assert(std::is_trivially_copyable_v<Answer>);
    if (into->struct_size < least)
        return fail(COPPICE_ERR_INVALID_ARGUMENT, "{}: set the argument's struct_size to sizeof({})", call, type);
    answer.struct_size = into->struct_size;
    std::memcpy(into, &answer, std::min(into->struct_size, sizeof answer));
    return {};
}

}  // namespace coppice::api
