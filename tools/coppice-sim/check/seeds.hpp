// Seed after seed on several threads, until one fails.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/shared_words.hpp"
#include "progress.hpp"

namespace coppice::sim {

// `run(seed)` for `seeds` seeds from `first` on, on so many threads; what it returns goes to `note(seed, result)`, one
// at a time, which says whether that seed failed. After a failure no more are started. Returns the lowest seed that
// failed.
template <class Run, class Note>
std::optional<std::uint64_t> first_failing_seed(std::uint64_t first, std::uint64_t seeds, unsigned threads,
                                                const std::string& what, const Run& run, const Note& note) {
    Progress progress(what, seeds);
    std::mutex mutex;
    shared::Counter<std::uint64_t> next;
    std::uint64_t done = 0;
    std::optional<std::uint64_t> worst;
    const auto work = [&] {
        for (std::uint64_t i = next.add(); i < seeds; i = next.add()) {
            const auto result = run(first + i);
            const std::lock_guard lock(mutex);
            progress.at(++done);
            if (!note(first + i, result)) continue;
            worst = std::min(worst.value_or(first + i), first + i);
            next.raise_to(seeds);
        }
    };
    std::vector<std::thread> others;
    for (unsigned i = 1; i < threads; ++i)
        others.emplace_back(work);
    work();
    for (std::thread& other : others)
        other.join();
    progress.clear();
    return worst;
}

}  // namespace coppice::sim
