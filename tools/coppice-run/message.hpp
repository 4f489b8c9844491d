// The launcher's own lines: to stderr, one write each, so that they do not mix with what ranks print.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace coppice::run {

template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    const std::string line = "coppice-run: " + fmt::format(format, std::forward<Arguments>(arguments)...) + "\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace coppice::run
