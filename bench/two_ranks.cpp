// Two ranks on two cores: half the round trip of a broadcast ping-pong against that of a bare flag, in one run, with the
// library's progress thread and without it.
//
// The ranks take turns as the root, each broadcasting as soon as it has the other's payload, so that a pair of
// broadcasts is one round trip and no clock is read in between. Rounds of all kinds alternate; what is compared are
// the medians. A library can't beat the flag; at most twice its time is the aim, and with the thread at most 1.05 times what
// it takes without.
//
//   two_ranks [BYTES [ROUNDS]]
#include <sys/prctl.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstring>
#include <vector>

#include "arguments.hpp"
#include "coppice/coppice.h"
#include "flag.hpp"
#include "measure.h"

namespace {

constexpr std::uint64_t kTimeout = 30'000'000'000;
constexpr int kBatchesPerRound = 20;

// The exchange that the library asks for, through the area of the two.
struct Exchange {
    measure_area_t* area;
    measure_crew_t crew;
    std::uint32_t self;
};

constexpr std::size_t kExchangeOffset = 8192, kExchangeBytes = 65536;

char* slot(measure_area_t* area, std::uint32_t rank) {
    return static_cast<char*>(measure_own(area, rank)) + kExchangeOffset;
}

int exchange(void* argument, const void* mine, std::size_t bytes, void* all) {
    auto& self = *static_cast<Exchange*>(argument);
    if (bytes > kExchangeBytes) return 1;
    std::memcpy(slot(self.area, self.self), mine, bytes);
    measure_barrier(&self.crew, nullptr, nullptr);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        std::memcpy(static_cast<char*>(all) + rank * bytes, slot(self.area, rank), bytes);
    }
    return measure_barrier(&self.crew, nullptr, nullptr);
}

void must(coppice_status_t status, std::uint32_t rank) {
    if (status == COPPICE_OK) return;
    std::fprintf(stderr, "two_ranks: rank %u: %s: %s\n", rank, coppice_status_string(status), coppice_last_error());
    _exit(1);
}

// A batch of round trips, µs per half.
double broadcasts(coppice_group_t* group, std::uint32_t self, std::size_t bytes) {
    char buffer[bench::kMaxFlagBytes] = {};
    const std::uint64_t start = measure_now();
    for (int i = 0; i < bench::kFlagBatch; ++i) {
        for (std::uint32_t root = 0; root < 2; ++root) {
            must(coppice_broadcast(group, buffer, bytes, root, nullptr, kTimeout), self);
        }
    }
    return static_cast<double>(measure_now() - start) / 1e3 / bench::kFlagBatch / 2;
}

void report(const char* what, std::vector<double>& halves) {
    const measure_stats_t stats = measure_statistics(halves.data(), halves.size());
    std::printf("%-28s %8.3f   (min %.3f, 99%% %.3f)\n", what, stats.typical, stats.min, stats.p99);
}

int run(measure_area_t* area, std::uint32_t self, std::size_t bytes, std::uint64_t rounds) {
    measure_pin(self);
    Exchange own{area, measure_join(area, self), self};
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    options.exchange = exchange;
    options.exchange_argument = &own;
    options.rank = self;
    options.size = 2;
    // With the thread, and without.
    std::array<coppice_context_t*, 2> contexts{};
    std::array<coppice_group_t*, 2> groups{};
    for (std::size_t kind = 0; kind < 2; ++kind) {
        coppice_context_options_t how = COPPICE_CONTEXT_OPTIONS_INIT;
        how.progress_thread = kind == 0 ? 0 : -1;
        must(coppice_context_create(&how, &contexts[kind]), self);
        must(coppice_group_create(contexts[kind], &options, &groups[kind]), self);
    }

    bench::FlagPair flags(static_cast<bench::Flag*>(measure_own(area, self)),
                          static_cast<bench::Flag*>(measure_own(area, 1 - self)));
    std::vector<double> flag_halves;
    std::array<std::vector<double>, 2> broadcast_halves;
    for (std::uint64_t round = 0; round <= rounds; ++round) {
        for (int batch = 0; batch < kBatchesPerRound; ++batch) {
            const double half = flags.half_round_trip(self == 0, bytes);
            if (round > 0) flag_halves.push_back(half);  // the first round warms up
        }
        for (std::size_t turn = 0; turn < 2; ++turn) {
            const std::size_t kind = (round + turn) % 2;  // each is the first as often as the other
            for (int batch = 0; batch < kBatchesPerRound; ++batch) {
                const double half = broadcasts(groups[kind], self, bytes);
                if (round > 0) broadcast_halves[kind].push_back(half);
            }
        }
    }
    for (std::size_t kind = 0; kind < 2; ++kind) {
        must(coppice_group_destroy(groups[kind], kTimeout), self);
        must(coppice_context_destroy(contexts[kind]), self);
    }
    if (self == 1) return 0;
    std::printf("%zu bytes, 2 ranks on 2 cores, half round trip, median over batches, us\n", bytes);
    report("flag", flag_halves);
    report("broadcast", broadcast_halves[0]);
    report("broadcast, no thread", broadcast_halves[1]);
    const auto compare = [](const char* what, double ratio, double aim) {
        std::printf("%-28s %8.3f   %s %.2f\n", what, ratio, ratio <= aim ? "within" : "FALLS SHORT of", aim);
    };
    const double with_thread = broadcast_halves[0][broadcast_halves[0].size() / 2];
    compare("broadcast / flag", with_thread / flag_halves[flag_halves.size() / 2], 2);
    compare("thread / no thread", with_thread / broadcast_halves[1][broadcast_halves[1].size() / 2], 1.05);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const auto bytes = static_cast<std::size_t>(bench::argument(argc, argv, 1, 8, 0, bench::kMaxFlagBytes));
    const std::uint64_t rounds = bench::argument(argc, argv, 2, 50, 1, 100000);
    if (measure_cores() < 2) {
        std::fprintf(stderr, "two_ranks: needs two cores\n");
        return 1;
    }
    measure_area_t* area = measure_create(2, 1, kExchangeOffset + kExchangeBytes, nullptr);
    if (area == nullptr) {
        std::perror("two_ranks: no shared memory");
        return 1;
    }
    const pid_t child = fork();
    if (child < 0) {
        std::perror("two_ranks: fork");
        return 1;
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(run(area, 1, bytes, rounds));
    }
    const int code = run(area, 0, bytes, rounds);
    int status = 0;
    waitpid(child, &status, 0);
    return code != 0 || status != 0 ? 1 : 0;
}
