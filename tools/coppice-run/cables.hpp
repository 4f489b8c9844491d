// --cut: the cables of simulated hosts are pulled, and plugged in again, while ranks run; or hosts are cut in two sides.
//
// What is pulled is the bridge's end, so that the host's own interface keeps its address and routes and only loses its
// carrier: packets are dropped in both directions, and nobody is told. Sides have a bridge each, and what is pulled is the trunk
// between the two, or, where the sides are not always the same, hosts are moved from one bridge to another; the hosts themselves
// notice nothing of that.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "hosts.hpp"

namespace coppice::run {

class Cables {
  public:
    // Of the time until which a cable is out.
    static constexpr std::uint64_t kPlugged = 0;
    static constexpr std::uint64_t kNever = UINT64_MAX;

    // The calling process must be in the bridge's namespace and have its rights (Hosts::create); it may give them up
    // afterwards (Hosts::drop_rights), as a process that is started here keeps them. That one ends with this object, or
    // with its parent.
    static Result<std::unique_ptr<Cables>> create(const Hosts& hosts);
    ~Cables();
    Cables(const Cables&) = delete;
    Cables& operator=(const Cables&) = delete;

    // Pulls the host's cable, until that time or for good. One that is out already stays out until the later of both
    // times.
    Result<void> cut(std::uint32_t host, std::optional<std::uint64_t> until_ns);
    // Nothing gets from the hosts of that side to the others, until that time or for good. Several of these add up.
    Result<void> part(const HostSet& side, std::optional<std::uint64_t> until_ns);
    // What has lasted until its time.
    struct Mended {
        std::vector<std::uint32_t> hosts;
        std::vector<HostSet> sides;
    };
    Result<Mended> mend(std::uint64_t now);
    // When mend() has something to do; UINT64_MAX: never.
    std::uint64_t next_mend() const;

    bool is_cut(std::uint32_t host) const { return mend_at_ns_[host] != kPlugged; }
    bool is_cut_for_good(std::uint32_t host) const { return mend_at_ns_[host] == kNever; }
    // On different sides.
    bool are_parted(std::uint32_t host, std::uint32_t other, bool for_good) const;

    struct Parting {
        HostSet side;
        std::uint64_t until_ns = kPlugged;
    };
    // What the process that has the rights is told.
    struct Request {
        enum class Kind : std::uint32_t { cable, parting };
        Kind kind = Kind::cable;
        std::uint32_t index = 0;  // the host; which parting
        HostSet side{};           // of a parting
        std::uint64_t until_ns = kPlugged;
    };

  private:
    Cables(std::uint32_t hosts, pid_t worker, int channel)
        : worker_(worker), channel_(channel), mend_at_ns_(hosts, kPlugged) {}
    Result<void> ask(const Request& request);

    pid_t worker_;
    int channel_;
    std::vector<std::uint64_t> mend_at_ns_;
    std::vector<Parting> partings_;
};

}  // namespace coppice::run
