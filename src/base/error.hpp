// What can go wrong, as a value: a status for programs and a sentence for people.
//
// The sentence names the rank, the transport and the remedy. Errors are made off the hot path only.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "coppice/coppice.h"

namespace coppice {

struct Error {
    coppice_status_t status = COPPICE_ERR_INTERNAL;
    std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

// fail(COPPICE_ERR_INVALID_ARGUMENT, "rank {} is outside of 0…{}", rank, size - 1)
template <class... Arguments>
[[nodiscard]] tl::unexpected<Error> fail(coppice_status_t status, fmt::format_string<Arguments...> format,
                                         Arguments&&... arguments) {
    return tl::unexpected<Error>(Error{status, fmt::format(format, std::forward<Arguments>(arguments)...)});
}

}  // namespace coppice
