// A rank of bench/membership.sh: agreements in a group with replacements beside a fresh one, and what it takes to make a group anew.
//
//   membership replaced N VICTIM   N agreements in the group as it was made, then as many when a spare has VICTIM's number:
//                                  coppice-run --spares 1
//   membership meanwhile           agreements before a newcomer calls, and from then on until it is pending: coppice-run --join 1@TIME
//   membership beside US           agreements while nothing else runs, and while a process of no network computes for US microseconds
//   membership anew                a group, then a second one: from its rank's call to its first agreement; then all of it once more,
//                                  contexts, transports and connections included, as a process that was never there has to make them
//
// Prints the greatest of all ranks' medians, or times, in microseconds; `meanwhile` also what the newcomer's call took of a processor.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "coppice/coppice.h"

namespace {

constexpr std::uint64_t kTimeout = 120'000'000'000;

std::uint64_t now_ns(clockid_t clock = CLOCK_MONOTONIC) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

void expect(coppice_status_t status) {
    if (status == COPPICE_OK) return;
    std::fprintf(stderr, "membership: %s: %s\n", coppice_status_string(status), coppice_last_error());
    std::exit(1);
}

// Whether all were there.
bool agree(coppice_group_t* group, std::uint64_t& value) {
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = COPPICE_MAX;
    const coppice_status_t status = coppice_agree(group, &value, sizeof value, &options, kTimeout);
    if (status != COPPICE_ERR_PEER_FAILED) expect(status);
    return status == COPPICE_OK;
}

coppice_view_t view_of(const coppice_group_t* group) {
    coppice_view_t view{};
    view.struct_size = sizeof view;
    expect(coppice_group_view(group, &view, nullptr, 0));
    return view;
}

std::uint32_t rank_in(const coppice_group_t* group) {
    coppice_group_info_t info{};
    info.struct_size = sizeof info;
    expect(coppice_group_query(group, &info));
    return info.rank;
}

// 0 of none.
std::uint64_t median(std::vector<std::uint64_t>& times) {
    if (times.empty()) return 0;
    std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
    return times[times.size() / 2];
}

// After a tenth as many that do not count.
void time_agreements(coppice_group_t* group, std::uint64_t count, const char* what) {
    std::vector<std::uint64_t> times;
    for (std::uint64_t i = 0; i < count + count / 10; ++i) {
        std::uint64_t value = 0;
        const std::uint64_t begin = now_ns();
        agree(group, value);
        if (i >= count / 10) times.push_back(now_ns() - begin);
    }
    std::uint64_t typical = median(times);
    agree(group, typical);
    if (rank_in(group) == 0) std::printf("%s %.2f\n", what, static_cast<double>(typical) / 1e3);
}

int replaced(coppice_context_t* context, std::uint64_t count, std::uint32_t victim) {
    coppice_group_t* group = nullptr;
    expect(coppice_group_create(context, nullptr, &group));
    const coppice_view_t first = view_of(group);
    const std::uint32_t members = first.epoch == 0 ? first.size : 0;
    if (members > 0) {
        time_agreements(group, count, "fresh");
        if (rank_in(group) == victim) std::raise(SIGKILL);
    }
    for (;;) {
        std::uint64_t most = members;  // a newcomer learns it
        const bool all = agree(group, most);
        int waits = 0;
        expect(coppice_group_pending(group, &waits));
        const coppice_view_t view = view_of(group);
        if (all && view.epoch > 0 && view.size == most) break;
        // The spare waits from the start, and comes for the victim.
        if (all && waits == 0) continue;
        coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
        options.most = static_cast<std::uint32_t>(most);
        coppice_group_t* next = nullptr;
        expect(coppice_group_renew(group, &options, &next, kTimeout));
        expect(coppice_group_destroy(group, kTimeout));
        group = next;
    }
    time_agreements(group, count, "replaced");
    expect(coppice_group_destroy(group, kTimeout));
    return 0;
}

struct Timed {
    std::uint64_t begin;
    std::uint64_t took;
};

// Of those that begin in [from, until).
std::uint64_t median_of(const std::vector<Timed>& all, std::uint64_t from, std::uint64_t until) {
    std::vector<std::uint64_t> times;
    for (const Timed& one : all)
        if (one.begin >= from && one.begin < until) times.push_back(one.took);
    return median(times);
}

int meanwhile(coppice_context_t* context) {
    const std::uint64_t called = now_ns();
    const std::uint64_t began = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    coppice_group_t* group = nullptr;
    expect(coppice_group_create(context, nullptr, &group));
    const bool is_newcomer = view_of(group).epoch > 0;
    std::uint64_t work = is_newcomer ? now_ns(CLOCK_PROCESS_CPUTIME_ID) - began : 0;
    std::vector<Timed> times;
    for (int waits = is_newcomer ? 1 : 0; waits == 0;) {
        std::uint64_t value = 0;
        const std::uint64_t begin = now_ns();
        agree(group, value);
        times.push_back({begin, now_ns() - begin});
        expect(coppice_group_pending(group, &waits));
    }
    if (!is_newcomer) {
        coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
        options.least = view_of(group).size + 1;  // the lowest rank may hear of it a little later
        coppice_group_t* next = nullptr;
        expect(coppice_group_renew(group, &options, &next, kTimeout));
        expect(coppice_group_destroy(group, kTimeout));
        group = next;
    }
    // One host's clock, whatever namespaces it has.
    std::uint64_t at = is_newcomer ? called : 0;
    agree(group, at);
    constexpr std::uint64_t kBefore = 100'000'000;
    std::uint64_t quiet = median_of(times, at - kBefore, at);
    std::uint64_t busy = median_of(times, at, UINT64_MAX);
    agree(group, quiet);
    agree(group, busy);
    agree(group, work);
    if (rank_in(group) == 0) {
        std::printf("quiet %.2f\nmeanwhile %.2f\n", static_cast<double>(quiet) / 1e3, static_cast<double>(busy) / 1e3);
        std::printf("work %.0f\n", static_cast<double>(work) / 1e3);
    }
    expect(coppice_group_destroy(group, kTimeout));
    return 0;
}

// A process that takes this much of a processor, and nothing else.
pid_t compute_for(std::uint64_t ns) {
    const pid_t child = fork();
    if (child != 0) return child;
    while (now_ns(CLOCK_PROCESS_CPUTIME_ID) < ns) {
    }
    _exit(0);
}

// What the scheduler alone does to agreements beside a newcomer's work.
int beside(coppice_context_t* context, std::uint64_t work_ns) {
    constexpr int kTimes = 10;
    constexpr std::uint64_t kAlone = 20'000'000;
    coppice_group_t* group = nullptr;
    expect(coppice_group_create(context, nullptr, &group));
    const bool has_child = rank_in(group) == 0;
    std::vector<std::uint64_t> alone;
    std::vector<std::uint64_t> loaded;
    // Agreements until rank 0 says in one that it is over.
    const auto until = [&](std::vector<std::uint64_t>& times, auto&& is_over) {
        for (std::uint64_t over = 0; over == 0;) {
            over = has_child && is_over() ? 1 : 0;
            const std::uint64_t begin = now_ns();
            agree(group, over);
            times.push_back(now_ns() - begin);
        }
    };
    for (int i = 0; i < kTimes; ++i) {
        const std::uint64_t began = now_ns();
        until(alone, [&] { return now_ns() - began >= kAlone; });
        const pid_t child = has_child ? compute_for(work_ns) : 0;
        until(loaded, [&] { return waitpid(child, nullptr, WNOHANG) == child; });
    }
    std::uint64_t of_alone = median(alone);
    std::uint64_t of_loaded = median(loaded);
    agree(group, of_alone);
    agree(group, of_loaded);
    if (has_child)
        std::printf("alone %.2f\nbeside %.2f\n", static_cast<double>(of_alone) / 1e3,
                    static_cast<double>(of_loaded) / 1e3);
    expect(coppice_group_destroy(group, kTimeout));
    return 0;
}

// The slowest rank's time, in nanoseconds.
std::uint64_t time_creation(coppice_context_t* context, std::uint64_t begin, coppice_group_t*& group) {
    expect(coppice_group_create(context, nullptr, &group));
    std::uint64_t value = 0;
    agree(group, value);
    std::uint64_t took = now_ns() - begin;
    agree(group, took);
    return took;
}

int anew(coppice_context_t*& context) {
    const auto tell = [](coppice_group_t* group, const char* what, std::uint64_t ns) {
        if (rank_in(group) == 0) std::printf("%s %.2f\n", what, static_cast<double>(ns) / 1e3);
    };
    coppice_group_t* first = nullptr;
    expect(coppice_group_create(context, nullptr, &first));
    expect(coppice_barrier(first, kTimeout));
    coppice_group_t* second = nullptr;
    tell(first, "anew", time_creation(context, now_ns(), second));
    for (coppice_group_t* group : {second, first})
        expect(coppice_group_destroy(group, kTimeout));
    coppice_context_destroy(context);

    const std::uint64_t begin = now_ns();
    expect(coppice_context_create(nullptr, &context));
    const std::uint64_t took = time_creation(context, begin, first);
    tell(first, "scratch", took);
    expect(coppice_group_destroy(first, kTimeout));
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const bool is_anew = argc == 2 && std::strcmp(argv[1], "anew") == 0;
    const bool is_replaced = argc == 4 && std::strcmp(argv[1], "replaced") == 0;
    const bool is_meanwhile = argc == 2 && std::strcmp(argv[1], "meanwhile") == 0;
    const bool is_beside = argc == 3 && std::strcmp(argv[1], "beside") == 0;
    if (!is_anew && !is_replaced && !is_meanwhile && !is_beside) {
        std::fprintf(stderr, "usage: membership anew | meanwhile | beside US | replaced N VICTIM\n");
        return 2;
    }
    coppice_context_t* context = nullptr;
    expect(coppice_context_create(nullptr, &context));
    const int code = is_anew        ? anew(context)
                     : is_meanwhile ? meanwhile(context)
                     : is_beside    ? beside(context, std::strtoull(argv[2], nullptr, 10) * 1000)
                                    : replaced(context, std::strtoull(argv[2], nullptr, 10),
                                               static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10)));
    coppice_context_destroy(context);
    return code;
}
