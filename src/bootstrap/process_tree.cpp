#include "bootstrap/process_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

namespace coppice::bootstrap {

pid_t parent_of(pid_t pid) {
    std::array<char, 64> name{};
    std::snprintf(name.data(), name.size(), "/proc/%d/stat", pid);
    const int file = ::open(name.data(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    std::array<char, 512> text{};
    const auto got = ::read(file, text.data(), text.size() - 1);
    ::close(file);
    if (got <= 0) return 0;
    // "pid (command) state ppid …": the command may hold anything, so count from its last parenthesis.
    const char* end = std::strrchr(text.data(), ')');
    if (end == nullptr || std::strlen(end) < 5) return 0;
    return static_cast<pid_t>(std::strtol(end + 4, nullptr, 10));
}

std::vector<pid_t> descendants_of(pid_t pid) {
    std::unordered_multimap<pid_t, pid_t> children;
    DIR* directory = ::opendir("/proc");
    if (directory == nullptr) return {};
    while (const dirent* entry = ::readdir(directory)) {
        char* end = nullptr;
        const long number = std::strtol(entry->d_name, &end, 10);
        if (number <= 0 || *end != '\0') continue;
        const auto child = static_cast<pid_t>(number);
        if (const pid_t parent = parent_of(child); parent > 0) children.emplace(parent, child);
    }
    ::closedir(directory);
    std::vector<pid_t> found;
    std::vector<pid_t> front{pid};
    while (!front.empty()) {
        std::vector<pid_t> next;
        for (const pid_t parent : front) {
            const auto [begin, end] = children.equal_range(parent);
            for (auto at = begin; at != end; ++at)
                next.push_back(at->second);
        }
        found.insert(found.end(), next.begin(), next.end());
        front = std::move(next);
    }
    return found;
}

}  // namespace coppice::bootstrap
