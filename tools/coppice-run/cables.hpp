// --cut: the cables of simulated hosts are pulled, and plugged in again, while ranks run.
//
// What is pulled is the bridge's end, so that the host's own interface keeps its address and routes and only loses its
// carrier: packets are dropped in both directions, and nobody is told.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.hpp"

namespace coppice::run {

class Cables {
  public:
    // Of the time until which a cable is out.
    static constexpr std::uint64_t kPlugged = 0;
    static constexpr std::uint64_t kNever = UINT64_MAX;

    // The calling process must be in the bridge's namespace and have its rights (Hosts::create); it may give them up
    // afterwards (Hosts::drop_rights), as a process that is started here keeps them. That one ends with this object, or
    // with its parent.
    static Result<std::unique_ptr<Cables>> create(std::uint32_t hosts);
    ~Cables();
    Cables(const Cables&) = delete;
    Cables& operator=(const Cables&) = delete;

    // Pulls the host's cable, until that time or for good. One that is out already stays out until the later of both
    // times.
    Result<void> cut(std::uint32_t host, std::optional<std::uint64_t> until_ns);
    // Those whose time has come are plugged in; returns the hosts.
    Result<std::vector<std::uint32_t>> mend(std::uint64_t now);
    // When mend() has something to do; UINT64_MAX: never.
    std::uint64_t next_mend() const;

    bool is_cut(std::uint32_t host) const { return mend_at_ns_[host] != kPlugged; }
    bool is_cut_for_good(std::uint32_t host) const { return mend_at_ns_[host] == kNever; }

  private:
    Cables(std::uint32_t hosts, pid_t worker, int channel)
        : worker_(worker), channel_(channel), mend_at_ns_(hosts, kPlugged) {}
    Result<void> set(std::uint32_t host, std::uint64_t out_until_ns);

    pid_t worker_;
    int channel_;
    std::vector<std::uint64_t> mend_at_ns_;
};

}  // namespace coppice::run
