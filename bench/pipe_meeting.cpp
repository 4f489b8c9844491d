// What the scheduler leaves possible beside programs that compute: ranks that meet by plain pipes, and block.
//
//   pipe_meeting RANKS [MEETINGS]      prints the same figures as coppice-perf agree: from the last rank's call until all have returned
//
// Rank 0 reads a byte of each other rank, and then writes one to each; nobody polls or yields. An agreement has to wake as many.
// Ranks are bound to the cores that this process may use, one after the other, as coppice-run does it.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <vector>

#include "arguments.hpp"
#include "measure.h"

namespace {

struct Pipe {
    int ends[2] = {-1, -1};
};

void bind_to_core(std::uint32_t rank) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    std::uint32_t skip = rank % static_cast<std::uint32_t>(CPU_COUNT(&allowed));
    for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
        if (!CPU_ISSET(core, &allowed) || skip-- > 0) continue;
        CPU_ZERO(&allowed);
        CPU_SET(core, &allowed);
        sched_setaffinity(0, sizeof allowed, &allowed);
        return;
    }
}

bool pass(int from, std::size_t count) {
    char bytes[MEASURE_MAX_RANKS];
    while (count > 0) {
        const ssize_t got = read(from, bytes, count);
        if (got <= 0) return false;
        count -= static_cast<std::size_t>(got);
    }
    return true;
}

bool meet(std::uint32_t self, const Pipe& arrivals, const std::vector<Pipe>& leaves) {
    if (self > 0) return write(arrivals.ends[1], "", 1) == 1 && pass(leaves[self].ends[0], 1);
    if (!pass(arrivals.ends[0], leaves.size() - 1)) return false;
    for (std::size_t rank = 1; rank < leaves.size(); ++rank)
        if (write(leaves[rank].ends[1], "", 1) != 1) return false;
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    const auto ranks = static_cast<std::uint32_t>(bench::argument(argc, argv, 1, 2, 2, MEASURE_MAX_RANKS));
    const std::uint64_t meetings = bench::argument(argc, argv, 2, 1000, 1, 1000000);
    measure_area_t* area = measure_create(ranks, meetings, 0, nullptr);
    Pipe arrivals;
    std::vector<Pipe> leaves(ranks);
    bool ready = area != nullptr && pipe(arrivals.ends) == 0;
    for (Pipe& leave : leaves)
        ready = ready && pipe(leave.ends) == 0;
    if (!ready) {
        std::perror("pipe_meeting");
        return 1;
    }
    std::uint32_t self = 0;
    for (std::uint32_t rank = 1; rank < ranks && self == 0; ++rank) {
        const pid_t child = fork();
        if (child < 0) {
            std::perror("pipe_meeting: fork");
            return 1;
        }
        if (child == 0) self = rank;
    }
    if (self > 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    bind_to_core(self);
    measure_clear_row(area, self);
    for (std::uint64_t i = 0; i < meetings; ++i) {
        measure_stamp_t& stamp = measure_row(area, self)[i];
        stamp.start = measure_now();
        if (!meet(self, arrivals, leaves)) return 1;
        stamp.end = measure_now();
    }
    if (self > 0) _exit(0);
    while (wait(nullptr) > 0)
        continue;
    std::vector<double> done(meetings);
    for (std::uint64_t i = 0; i < meetings; ++i) {
        double mean = 0;
        measure_evaluate(area, i, MEASURE_LAST, &done[i], &mean);
    }
    const measure_stats_t stats = measure_statistics(done.data(), meetings);
    std::puts(MEASURE_HEADINGS);
    measure_print(stdout, 1, &stats);
    std::puts("");
    return 0;
}
