// Half the round trip of a bare flag between two cores: the smallest time in which one core can tell another anything.
//
//   flag_ping_pong [BYTES [ROUNDS]]      prints the median over batches of the half round trip, µs
//
// Batches of 100 round trips are timed as a whole, so that reading the clock does not count.
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <vector>

#include "arguments.hpp"
#include "flag.hpp"
#include "measure.h"

int main(int argc, char** argv) {
    const auto bytes = static_cast<std::size_t>(bench::argument(argc, argv, 1, 8, 0, bench::kMaxFlagBytes));
    const std::uint64_t batches = bench::argument(argc, argv, 2, 2000, 1, 1000000);
    if (measure_cores() < 2) {
        std::fprintf(stderr, "flag_ping_pong: needs two cores\n");
        return 1;
    }
    measure_area_t* area = measure_create(2, 1, sizeof(bench::Flag), nullptr);
    if (area == nullptr) {
        std::perror("flag_ping_pong: no shared memory");
        return 1;
    }
    const pid_t child = fork();
    if (child < 0) {
        std::perror("flag_ping_pong: fork");
        return 1;
    }
    const std::uint32_t self = child == 0 ? 1 : 0;
    if (self == 1) prctl(PR_SET_PDEATHSIG, SIGKILL);
    measure_pin(self);
    bench::FlagPair flags{static_cast<bench::Flag*>(measure_own(area, self)),
                          static_cast<bench::Flag*>(measure_own(area, 1 - self))};
    std::vector<double> halves(batches);
    for (double& half : halves)
        half = flags.half_round_trip(self == 0, bytes);
    if (self == 1) _exit(0);
    waitpid(child, nullptr, 0);
    const measure_stats_t stats = measure_statistics(halves.data(), batches);
    std::puts(MEASURE_HEADINGS);
    measure_print(stdout, bytes, &stats);
    std::puts("");
    return 0;
}
