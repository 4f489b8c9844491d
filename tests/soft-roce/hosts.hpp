// Jobs of eight ranks on four RDMA devices, each of which stands for a host.
#pragma once

#include <map>
#include <string>

#include "devices.hpp"
#include "integration/job.hpp"

namespace coppice::testing {

inline constexpr std::uint32_t kRanks = 8;
inline constexpr std::uint32_t kHosts = 4;

// Two ranks on each device, neighbours first.
inline JobOptions job_on_devices(const std::map<std::string, std::string>& environment) {
    const auto names = devices();
    if (names.size() < kHosts) throw CheckFailed("this test wants rxe-guest --devices 4");
    JobOptions options;
    options.ranks = kRanks;
    options.hosts = kHosts;
    options.environment = environment;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        const std::string& device = names[rank * kHosts / kRanks];
        options.of_rank[rank] = {{"COPPICE_VERBS_DEVICE", device}, {"COPPICE_UCX_NET_DEVICES", device + ":1"}};
    }
    return options;
}

}  // namespace coppice::testing
