#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "perf/session.hpp"

namespace perf {

Failure library_failure(const std::string& what, coppice_status_t status) {
    const bool usage =
        status == COPPICE_ERR_CONFIG || status == COPPICE_ERR_INVALID_ARGUMENT || status == COPPICE_ERR_OUT_OF_RANGE;
    return {usage                          ? kExitUsage
            : status == COPPICE_ERR_FENCED ? kExitCutOff
                                           : kExitFailed,
            fmt::format("{}: {}: {}", what, coppice_status_string(status), coppice_last_error())};
}

int complain(std::uint32_t rank, const Failure& failure) {
    fmt::print(stderr, "coppice-perf: rank {}: {}\n", rank, failure.message);
    return failure.exit_code;
}

int complain_unless_known(const Failure& failure) {
    const char* rank = nullptr;
    for (const char* name : {"COPPICE_RANK", "PMIX_RANK", "PMI_RANK"})
        rank = rank == nullptr ? std::getenv(name) : rank;
    const bool is_first = rank == nullptr || std::string_view(rank) == "0";
    const bool is_about_it =
        rank != nullptr && failure.message.find(fmt::format("rank {}: ", rank)) != std::string::npos;
    if (failure.exit_code != kExitUsage || is_first || is_about_it)
        fmt::print(stderr, "coppice-perf: {}\n", failure.message);
    return failure.exit_code;
}

}  // namespace perf
