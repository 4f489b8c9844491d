// Whether the CPU time of this process is rationed: a control group with a quota (containers have one) stops all its threads when
// the quota of a period is used up, and counts how often it did.
//
// The groups are those of /proc/self/cgroup and all above them, under /sys/fs/cgroup, of version 2 (cpu.max) or 1
// (cpu.cfs_quota_us). In a container that shows only its own group there, that is the one. A quota may be set later, and the
// process moved; so all of this is read again at each look, some 30 µs of system calls. Nothing is allocated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/shared_words.hpp"

namespace coppice::transport {

class CpuQuota {
  public:
    // After the last stop that was seen, this many looks find the process limited.
    static constexpr std::uint32_t kRemembered = 8;

    // `membership`: /proc/self/cgroup; `mount`: /sys/fs/cgroup. Both stay where they are. Tests have others.
    CpuQuota(std::string_view membership, std::string_view mount) : membership_(membership), mount_(mount) {}

    // Limited: there is a quota, and the group was stopped lately. At the first look that is not known, and a quota of less than
    // `cores` counts.
    bool look(double cores);

    // The tightest quota of all groups that the process is in.
    struct Bound {
        double cores = 0;
        std::uint64_t stops = 0;
    };
    std::optional<Bound> bound() const;

  private:
    std::string_view membership_;
    std::string_view mount_;
    bool looked_ = false;
    std::uint64_t stops_ = 0;
    std::uint32_t remembered_ = 0;
};

// Of this process. Looks when the last look is kLookEveryNs ago, and answers at once otherwise. Any thread.
inline constexpr std::uint64_t kLookEveryNs = 250'000'000;
inline constinit shared::Relaxed<std::uint64_t> next_quota_look_ns;
inline constinit shared::Relaxed<bool> quota_limits;
void look_at_quota(std::uint64_t now_ns);
inline bool cpu_is_limited(std::uint64_t now_ns) {
    if (now_ns >= next_quota_look_ns.get()) [[unlikely]]
        look_at_quota(now_ns);
    return quota_limits.get();
}

}  // namespace coppice::transport
