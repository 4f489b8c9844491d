// A program whose root computes after each broadcast, and is in no call of the library meanwhile.
//
//   coppice-run -n 4 --hosts 4 root_leaves [BROADCASTS [MILLISECONDS]]
//
// The payload is the time of the root's call. Rank 0 prints the longest time that another rank took to have it.
#include <coppice/coppice.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

void check(coppice_status_t status) {
    if (status == COPPICE_OK) return;
    std::fprintf(stderr, "root_leaves: %s\n", coppice_last_error());
    std::exit(1);
}

void compute(std::uint64_t milliseconds) {
    const std::uint64_t until = now_ns() + milliseconds * 1'000'000;
    volatile double x = 1.0;
    while (now_ns() < until)
        for (int i = 0; i < 1000; ++i)
            x = x * 1.0000001;
}

}  // namespace

int main(int argc, char** argv) {
    const int broadcasts = argc > 1 ? std::atoi(argv[1]) : 20;
    const auto milliseconds = static_cast<std::uint64_t>(argc > 2 ? std::atoi(argv[2]) : 300);
    coppice_context_t* context = nullptr;
    coppice_group_t* group = nullptr;
    check(coppice_context_create(nullptr, &context));
    check(coppice_group_create(context, nullptr, &group));
    coppice_group_info_t info{};
    info.struct_size = sizeof info;
    check(coppice_group_query(group, &info));

    std::uint64_t longest = 0;
    for (int i = 0; i < broadcasts; ++i) {
        std::uint64_t called = now_ns();
        check(coppice_broadcast(group, &called, sizeof called, 0, nullptr, COPPICE_NO_TIMEOUT));
        if (info.rank == 0)
            compute(milliseconds);
        else if (now_ns() - called > longest)
            longest = now_ns() - called;
    }
    // All ranks' longest one.
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = COPPICE_MAX;
    options.type = COPPICE_UINT64;
    check(coppice_agree(group, &longest, sizeof longest, &options, COPPICE_NO_TIMEOUT));
    if (info.rank == 0) std::printf("longest wait of any other rank: %.3f ms\n", static_cast<double>(longest) / 1e6);
    check(coppice_group_destroy(group, COPPICE_NO_TIMEOUT));
    check(coppice_context_destroy(context));
    return 0;
}
