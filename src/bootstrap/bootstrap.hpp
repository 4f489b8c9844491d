// How the processes of a group find each other: everybody contributes some bytes and gets everybody's, or those of some.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/words.hpp"
#include "bootstrap/reports.hpp"

namespace coppice::bootstrap {

class Admission;

class Bootstrap {
  public:
    virtual ~Bootstrap() = default;
    virtual Rank rank() const = 0;
    virtual std::uint32_t size() const = 0;
    virtual const char* name() const = 0;  // "launcher", "callback"

    // Collective. Returns one entry per rank; the entry of a rank that is known to be dead is empty. Blocks until all
    // live ranks have contributed or `deadline_ns` (CLOCK_MONOTONIC) has passed: the error then names the ranks that
    // are missing.
    virtual Result<std::vector<std::vector<std::byte>>> allgather(std::span<const std::byte> mine,
                                                                  std::uint64_t deadline_ns) = 0;

    // Collective, of all ranks, for those that need the bytes of some: one entry for each of `wanted`, in that order, which is
    // empty where that rank is known to be dead. Ranks may want different ones. A store is asked for these alone.
    virtual Result<std::vector<std::vector<std::byte>>> exchange_with(std::span<const Rank> wanted,
                                                                      std::span<const std::byte> mine,
                                                                      std::uint64_t deadline_ns) {
        auto all = allgather(mine, deadline_ns);
        if (!all) return all;
        std::vector<std::vector<std::byte>> some;
        for (const Rank rank : wanted)
            some.push_back(std::move((*all)[rank.value]));
        return some;
    }
    // So that it costs what is wanted, not what there is. The same at all ranks.
    virtual bool has_store() const { return false; }

    // What the launcher says of deaths of the group's ranks from now on, for which this process stays in touch with it. Null: it says
    // nothing of that kind; an error says why one that might does not. Once, after the last exchange.
    virtual Result<std::unique_ptr<Reports>> reports() { return std::unique_ptr<Reports>(); }

    // The door by which newcomers come to this group later; null: by none. Once, after the last exchange.
    virtual Result<std::unique_ptr<Admission>> admission(std::uint64_t deadline_ns);
};

}  // namespace coppice::bootstrap
