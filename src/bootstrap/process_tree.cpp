#include "bootstrap/process_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
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

namespace {

// The children of one process, thread by thread as the kernel lists them. False where it does not (a kernel built
// without CONFIG_PROC_CHILDREN).
bool children_of(pid_t pid, std::vector<pid_t>& children) {
    const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
    DIR* directory = ::opendir(tasks.c_str());
    if (directory == nullptr) return true;  // it has ended: no children
    bool known = true;
    while (const dirent* entry = ::readdir(directory)) {
        if (entry->d_name[0] == '.') continue;
        std::FILE* file = std::fopen((tasks + "/" + entry->d_name + "/children").c_str(), "re");
        if (file == nullptr) {
            known =
                known && ::access((tasks + "/" + entry->d_name + "/stat").c_str(), F_OK) != 0;  // or the thread ended
            continue;
        }
        for (long child = 0; std::fscanf(file, "%ld", &child) == 1;)
            children.push_back(static_cast<pid_t>(child));
        std::fclose(file);
    }
    ::closedir(directory);
    return known;
}

// The children of every process, from the parent of each: milliseconds on a busy machine.
std::unordered_multimap<pid_t, pid_t> all_children() {
    std::unordered_multimap<pid_t, pid_t> children;
    DIR* directory = ::opendir("/proc");
    if (directory == nullptr) return children;
    while (const dirent* entry = ::readdir(directory)) {
        char* end = nullptr;
        const long number = std::strtol(entry->d_name, &end, 10);
        if (number <= 0 || *end != '\0') continue;
        const auto child = static_cast<pid_t>(number);
        if (const pid_t parent = parent_of(child); parent > 0) children.emplace(parent, child);
    }
    ::closedir(directory);
    return children;
}

}  // namespace

std::vector<pid_t> descendants_of(pid_t pid) {
    std::vector<pid_t> found;
    bool listed = children_of(pid, found);
    for (std::size_t i = 0; i < found.size() && listed; ++i)
        listed = children_of(found[i], found);
    if (listed) return found;

    const auto children = all_children();
    found.assign(1, pid);
    for (std::size_t i = 0; i < found.size(); ++i) {
        const auto [begin, end] = children.equal_range(found[i]);
        for (auto at = begin; at != end; ++at)
            found.push_back(at->second);
    }
    found.erase(found.begin());
    return found;
}

}  // namespace coppice::bootstrap
