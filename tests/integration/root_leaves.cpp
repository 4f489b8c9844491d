// A program whose root computes after each broadcast, and is in no call of the library before all others have it.
//
//   coppice-run -n 4 --hosts 4 root_leaves BROADCASTS DIRECTORY      a test, on a machine that others use
//   coppice-run -n 4 --hosts 4 root_leaves BROADCASTS MILLISECONDS   a measurement, on a quiet one
//
// Each rank writes a byte to a file of its own in DIRECTORY for each broadcast that it has, which the root looks at. Rank 0 prints
// "broadcasts that nobody had to wait for: N", or which one did not come within a minute.
//
// With MILLISECONDS the root computes for so long after each. The payload is the time of its call, and rank 0 prints the longest
// time that another rank took to have it.
#include <coppice/coppice.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

void check(coppice_status_t status) {
    if (status == COPPICE_OK) return;
    std::fprintf(stderr, "root_leaves: %s\n", coppice_last_error());
    std::exit(1);
}

std::string file_of(const std::string& directory, std::uint32_t rank) {
    return directory + "/" + std::to_string(rank);
}

bool all_have(std::uintmax_t broadcasts, const std::string& directory, std::uint32_t ranks) {
    for (std::uint32_t rank = 1; rank < ranks; ++rank) {
        std::error_code none_yet;
        const std::uintmax_t noted = std::filesystem::file_size(file_of(directory, rank), none_yet);
        if (none_yet || noted < broadcasts) return false;
    }
    return true;
}

void compute_until_all_have(std::uintmax_t broadcasts, const std::string& directory, std::uint32_t ranks) {
    const std::uint64_t until = now_ns() + 60'000'000'000;
    volatile double x = 1.0;
    while (!all_have(broadcasts, directory, ranks)) {
        if (now_ns() > until) {
            std::fprintf(stderr, "root_leaves: broadcast %ju waits for its root\n", broadcasts);
            std::exit(1);
        }
        for (int i = 0; i < 1000; ++i)
            x = x * 1.0000001;
    }
}

void compute_for(std::uint64_t milliseconds) {
    const std::uint64_t until = now_ns() + milliseconds * 1'000'000;
    volatile double x = 1.0;
    while (now_ns() < until)
        for (int i = 0; i < 1000; ++i)
            x = x * 1.0000001;
}

int look_at_others(coppice_group_t* group, const coppice_group_info_t& info, std::uintmax_t broadcasts,
                   const std::string& directory) {
    std::ofstream noted(file_of(directory, info.rank));
    for (std::uintmax_t i = 0; i < broadcasts; ++i) {
        std::uint64_t payload = info.rank == 0 ? i + 1 : 0;
        check(coppice_broadcast(group, &payload, sizeof payload, 0, nullptr, COPPICE_NO_TIMEOUT));
        if (payload != i + 1) return 3;
        if (info.rank == 0)
            compute_until_all_have(i + 1, directory, info.size);
        else
            noted << '.' << std::flush;
    }
    if (info.rank == 0) std::printf("broadcasts that nobody had to wait for: %ju\n", broadcasts);
    return 0;
}

int measure(coppice_group_t* group, const coppice_group_info_t& info, std::uintmax_t broadcasts,
            std::uint64_t milliseconds) {
    std::uint64_t longest = 0;
    for (std::uintmax_t i = 0; i < broadcasts; ++i) {
        std::uint64_t called = now_ns();
        check(coppice_broadcast(group, &called, sizeof called, 0, nullptr, COPPICE_NO_TIMEOUT));
        if (info.rank == 0)
            compute_for(milliseconds);
        else
            longest = std::max(longest, now_ns() - called);
    }
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = COPPICE_MAX;
    options.type = COPPICE_UINT64;
    check(coppice_agree(group, &longest, sizeof longest, &options, COPPICE_NO_TIMEOUT));
    if (info.rank == 0) std::printf("longest wait of any other rank: %.3f ms\n", static_cast<double>(longest) / 1e6);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const auto broadcasts = static_cast<std::uintmax_t>(std::atoi(argv[1]));
    const std::string second = argv[2];
    coppice_context_t* context = nullptr;
    coppice_group_t* group = nullptr;
    check(coppice_context_create(nullptr, &context));
    check(coppice_group_create(context, nullptr, &group));
    coppice_group_info_t info{};
    info.struct_size = sizeof info;
    check(coppice_group_query(group, &info));
    const bool measures = second.find_first_not_of("0123456789") == std::string::npos;
    const int status = measures ? measure(group, info, broadcasts, std::strtoull(argv[2], nullptr, 10))
                                : look_at_others(group, info, broadcasts, second);
    if (status != 0) return status;
    check(coppice_group_destroy(group, COPPICE_NO_TIMEOUT));
    check(coppice_context_destroy(context));
    return 0;
}
