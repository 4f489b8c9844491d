#include "files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace coppice::sim {
namespace {

bool write_all(int file, std::string_view content) {
    while (!content.empty()) {
        const ssize_t written = write(file, content.data(), content.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        content.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

}  // namespace

std::optional<std::string> write_file(const std::filesystem::path& path, std::string_view content) {
    const auto sentence = [&path](int reason) {
        return fmt::format("cannot write {}: {}", path.string(), std::strerror(reason));
    };
    // What is no plain file, as /dev/stdout, cannot be replaced.
    const bool special = std::filesystem::exists(path) && !std::filesystem::is_regular_file(path);
    const std::string beside = special ? path.string() : fmt::format("{}.{}.part", path.string(), getpid());
    const int file = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) return sentence(errno);
    const bool written = write_all(file, content) && (special || fsync(file) == 0);
    const int reason = errno;
    const bool closed = close(file) == 0;
    if (written && closed && (special || std::rename(beside.c_str(), path.c_str()) == 0)) return std::nullopt;
    const int failure = written ? errno : reason;
    if (!special) unlink(beside.c_str());
    return sentence(failure);
}

}  // namespace coppice::sim
