#include "chaos_exchange.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace chaos {

namespace {

// Empty when it cannot be read: a process may go after its file was opened, and a stream's buffer would throw then.
std::string read_file(const std::string& path) {
    std::string text;
    std::FILE* const file = std::fopen(path.c_str(), "rbe");
    if (file == nullptr) return text;
    char piece[4096];
    for (std::size_t got = 1; got > 0;) {
        got = std::fread(piece, 1, sizeof piece, file);
        text.append(piece, got);
    }
    std::fclose(file);
    return text;
}

// Whole or not at all.
void write_file(const std::string& path, const std::string& text) {
    const std::string draft = fmt::format("{}.{}", path, ::getpid());
    std::ofstream(draft, std::ios::binary) << text;
    ::rename(draft.c_str(), path.c_str());
}

}  // namespace

void FileExchange::announce(const std::string& directory, std::uint32_t member) {
    write_file(fmt::format("{}/pid-{}", directory, member), std::to_string(::getpid()));
}

int FileExchange::exchange(void* exchange, const void* mine, std::size_t bytes, void* all) {
    return static_cast<FileExchange*>(exchange)->run(mine, bytes, all);
}

std::string FileExchange::path(const std::string& what) const {
    return fmt::format("{}/{}-{}-{}", directory_, name_, round_, what);
}

bool FileExchange::is_dead(std::uint32_t member) const {
    const std::string pid = read_file(fmt::format("{}/pid-{}", directory_, member));
    if (pid.empty()) {
        // It has not come that far yet, or never will.
        const std::string told = read_file(directory_ + "/output");
        return told.find(fmt::format("coppice-run: killed rank {} (pid", member)) != std::string::npos;
    }
    const std::string stat = read_file(fmt::format("/proc/{}/stat", pid));
    const std::size_t name_end = stat.rfind(')');
    return name_end == std::string::npos || name_end + 2 >= stat.size() || stat[name_end + 2] == 'Z' ||
           stat[name_end + 2] == 'X';
}

int FileExchange::run(const void* mine, std::size_t bytes, void* all) {
    ++round_;
    write_file(path(std::to_string(members_[self_])), std::string(static_cast<const char*>(mine), bytes));
    // The first rank that sees each other one either here or dead says which are in; a link is made once.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_);
    const std::string decision = path("decision");
    while (::access(decision.c_str(), F_OK) != 0) {
        std::string present;
        for (const std::uint32_t member : members_) {
            const bool dead = is_dead(member);  // before: what it wrote while it lived is there afterwards
            const bool here = ::access(path(std::to_string(member)).c_str(), F_OK) == 0;
            if (!here && !dead) break;
            present += here ? '1' : '0';
        }
        if (present.size() == members_.size()) {
            const std::string draft = fmt::format("{}.{}", decision, ::getpid());
            std::ofstream(draft, std::ios::binary) << present;
            if (::link(draft.c_str(), decision.c_str()) != 0 && errno != EEXIST) return 1;
            ::unlink(draft.c_str());
            break;
        }
        if (std::chrono::steady_clock::now() > deadline) return 1;
        ::usleep(500);
    }
    const std::string present = read_file(decision);
    if (present.size() != members_.size()) return 1;
    char* place = static_cast<char*>(all);
    for (std::size_t i = 0; i < members_.size(); ++i, place += bytes) {
        std::memset(place, 0, bytes);
        if (present[i] == '0') continue;
        const std::string piece = read_file(path(std::to_string(members_[i])));
        if (piece.size() != bytes) return 1;
        std::memcpy(place, piece.data(), bytes);
    }
    return 0;
}

}  // namespace chaos
