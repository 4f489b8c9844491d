#include "memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace coppice::sim {
namespace {

std::optional<std::uint64_t> number_in(const char* file) {
    std::ifstream stream(file);
    std::uint64_t value = 0;
    if (stream >> value) return value;
    return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> available_memory() {
    std::optional<std::uint64_t> available;
    std::ifstream meminfo("/proc/meminfo");
    for (std::string word; meminfo >> word;) {
        std::uint64_t kib = 0;
        if (word == "MemAvailable:" && meminfo >> kib) available = kib * 1024;
    }
    const auto limit = number_in("/sys/fs/cgroup/memory.max");
    const auto used = number_in("/sys/fs/cgroup/memory.current");
    if (limit && used) {
        const std::uint64_t left = *limit > *used ? *limit - *used : 0;
        available = available ? std::min(*available, left) : left;
    }
    return available;
}

std::string in_words(std::uint64_t bytes) {
    const double mib = static_cast<double>(bytes) / (1U << 20);
    return mib < 1024 ? fmt::format("{:.0f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

std::optional<std::string> reason_against_size(std::uint64_t each, unsigned simulators) {
    const auto available = available_memory();
    const std::uint64_t needed = each * simulators;
    if (!available || needed <= *available) return std::nullopt;
    std::string sentence =
        fmt::format("this needs about {} of memory, and {} is available", in_words(needed), in_words(*available));
    if (simulators > 1) {
        sentence += fmt::format("; each of {} threads needs {}: use fewer with --threads", simulators, in_words(each));
    }
    return sentence;
}

}  // namespace coppice::sim
