// The floor of a broadcast on one machine: the root writes the payload and a sequence word, everybody polls that word.
//
// Nothing that delivers to all ranks can be faster than a store that all of them read, so this is what every
// broadcast is held against. Ranks are forked, pinned round robin, and measured as coppice-perf measures (measure.h).
//
//   floor RANKS [BYTES [ITERATIONS]]      one result line, µs
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <vector>

#include "arguments.hpp"
#include "measure.h"

namespace {

constexpr std::size_t kMaxBytes = 8192;

// The word and the first bytes of the payload share a cache line, so that small payloads cost one line.
struct alignas(64) Line {
    std::uint64_t sequence;
    char payload[kMaxBytes];
};

void run(measure_area_t* area, Line* line, std::uint32_t self, std::size_t bytes, std::uint64_t warmup) {
    measure_pin(self);
    measure_clear_row(area, self);
    measure_stamp_t* row = measure_row(area, self);
    measure_crew_t crew = measure_join(area, self);
    std::vector<char> buffer(kMaxBytes, static_cast<char>(self));
    for (std::uint64_t i = 0; i < warmup + area->iterations; ++i) {
        measure_barrier(&crew, nullptr, nullptr);
        measure_stamp_t stamp{};
        stamp.start = measure_now();
        if (self == 0) {
            std::memcpy(line->payload, buffer.data(), bytes);
            __atomic_store_n(&line->sequence, i + 1, __ATOMIC_RELEASE);
        } else {
            while (__atomic_load_n(&line->sequence, __ATOMIC_ACQUIRE) != i + 1) {
                if (crew.crowded) {
                    sched_yield();
                } else {
                    measure_pause();
                }
            }
            std::memcpy(buffer.data(), line->payload, bytes);
        }
        stamp.end = measure_now();
        if (i >= warmup) row[i - warmup] = stamp;
    }
}

}  // namespace

int main(int argc, char** argv) {
    const auto ranks = static_cast<std::uint32_t>(bench::argument(argc, argv, 1, 2, 1, MEASURE_MAX_RANKS));
    const auto bytes = static_cast<std::size_t>(bench::argument(argc, argv, 2, 8, 0, kMaxBytes));
    const std::uint64_t iterations = bench::argument(argc, argv, 3, 5000, 1, 1000000);

    measure_area_t* area = measure_create(ranks, iterations, sizeof(Line), nullptr);
    if (area == nullptr) {
        std::perror("floor: no memory for the time stamps");
        return 1;
    }
    auto* line = static_cast<Line*>(measure_own(area, 0));
    std::vector<pid_t> children;
    for (std::uint32_t rank = 1; rank < ranks; ++rank) {
        const pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run(area, line, rank, bytes, iterations / 10);
            _exit(0);
        }
        if (pid < 0) {
            std::perror("floor: fork");
            for (const pid_t child : children)
                kill(child, SIGKILL);
            return 1;
        }
        children.push_back(pid);
    }
    run(area, line, 0, bytes, iterations / 10);
    for (const pid_t child : children)
        waitpid(child, nullptr, 0);

    std::vector<double> done(iterations);
    for (std::uint64_t i = 0; i < iterations; ++i) {
        double mean = 0;
        measure_evaluate(area, i, 0, &done[i], &mean);
    }
    const measure_stats_t stats = measure_statistics(done.data(), iterations);
    std::puts(MEASURE_HEADINGS);
    measure_print(stdout, bytes, &stats);
    std::puts("");
    return 0;
}
