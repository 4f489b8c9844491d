// How the processes of a group find each other: everybody contributes some bytes and gets everybody's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/words.hpp"

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

    // The door by which newcomers come to this group later; null: by none. Once, after the last exchange.
    virtual Result<std::unique_ptr<Admission>> admission(std::uint64_t deadline_ns);
};

}  // namespace coppice::bootstrap
