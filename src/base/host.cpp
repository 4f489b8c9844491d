#include "base/host.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>

#include "base/process.hpp"

namespace coppice {

namespace {

// Reads a small file of /proc and ends it with a zero; its length, 0 when it can't be read. Without allocation: waiting
// ranks look at each other this way.
std::size_t read_small(const char* path, std::span<char> text) {
    text.front() = '\0';
    const int fd = process::open_own([path] { return open(path, O_RDONLY | O_CLOEXEC); });
    if (fd < 0) return 0;
    const ssize_t got = read(fd, text.data(), text.size() - 1);
    process::close_own(fd);
    const std::size_t length = got > 0 ? static_cast<std::size_t>(got) : 0;
    text[length] = '\0';
    return length;
}

}  // namespace

std::string host_identity(std::string_view name) {
    char text[64];
    std::string boot(text, read_small("/proc/sys/kernel/random/boot_id", text));
    while (!boot.empty() && (boot.back() == '\n' || boot.back() == ' '))
        boot.pop_back();
    struct stat space {};
    if (stat("/proc/self/ns/pid", &space) != 0) space.st_ino = 0;
    return fmt::format("{}/{}/{}", boot, static_cast<std::uint64_t>(space.st_ino), name.substr(0, kMaxHostName));
}

bool is_host_name(std::string_view text) {
    const auto is_plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    return !text.empty() && text.size() <= kMaxHostName && is_plain(text[0]) &&
           std::ranges::all_of(text, [&](char c) { return is_plain(c) || c == '.' || c == '-' || c == '_'; });
}

std::string host_name() {
    char name[kMaxHostName + 2] = "";
    gethostname(name, sizeof name - 1);
    return is_host_name(name) ? name : "";
}

std::uint64_t process_start_time(pid_t pid) {
    char path[40];
    *fmt::format_to_n(path, sizeof path - 1, "/proc/{}/stat", pid).out = '\0';
    char text[1024];
    const std::string_view stat(text, read_small(path, text));
    // The second field is the command's name in parentheses and may hold anything; the start time is the 22nd.
    const std::size_t paren = stat.rfind(')');
    if (paren == std::string_view::npos) return 0;
    const char* at = text + paren + 1;  // the blank before field 3
    for (int field = 3; field < 22; ++field) {
        at = std::strchr(at + 1, ' ');
        if (at == nullptr) return 0;
    }
    return std::strtoull(at, nullptr, 10);
}

ProcessState process_state(pid_t pid, std::uint64_t start_time) {
    const int fd = process::open_own([pid] { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0U)); });
    if (fd < 0) return errno == ESRCH ? ProcessState::gone : ProcessState::unknown;
    pollfd ended{fd, POLLIN, 0};
    const int ready = poll(&ended, 1, 0);
    ProcessState state = ready > 0 ? ProcessState::gone : ProcessState::alive;
    if (state == ProcessState::alive) {
        // The number may have been given to another process since.
        const std::uint64_t started = process_start_time(pid);
        if (started == 0)
            state = ProcessState::unknown;
        else if (started != start_time)
            state = ProcessState::gone;
    }
    process::close_own(fd);
    return state;
}

namespace {

std::optional<cpu_set_t> cores_of(pid_t process) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (sched_getaffinity(process, sizeof cores, &cores) != 0) return std::nullopt;
    return cores;
}

}  // namespace

std::uint32_t own_cores() {
    const auto own = cores_of(0);
    // None only on machines with more CPUs than cpu_set_t holds; there are plenty then.
    return own ? static_cast<std::uint32_t>(CPU_COUNT(&*own)) : CPU_SETSIZE;
}

std::vector<bool> within_own_cores(std::span<const pid_t> processes) {
    const auto own = cores_of(0);
    std::vector<bool> within;
    for (const pid_t process : processes) {
        const auto its = cores_of(process);
        cpu_set_t common;
        if (own && its) CPU_AND(&common, &*own, &*its);
        within.push_back(own && its && CPU_EQUAL(&common, &*its) != 0);
    }
    return within;
}

bool has_rdma_devices() {
    std::error_code missing;
    return !std::filesystem::is_empty("/sys/class/infiniband", missing) && !missing;
}

std::vector<std::uint64_t> rdma_node_guids(const std::string& folder) {
    std::vector<std::uint64_t> guids;
    std::error_code missing;
    for (const auto& device : std::filesystem::directory_iterator(folder, missing)) {
        std::ifstream in(device.path() / "node_guid");  // 0010:e000:0010:00f8
        std::string text;
        if (!std::getline(in, text)) continue;
        std::erase(text, ':');
        std::uint64_t guid = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), guid, 16);
        if (error == std::errc{} && end == text.data() + text.size() && guid != 0) guids.push_back(guid);
    }
    std::ranges::sort(guids);
    return guids;
}

}  // namespace coppice
