// What a context stands on: time, how its callers wait, what makes progress while they are elsewhere, and what carries
// its messages.
//
// A process has its kernel for that, and no object of this kind. The simulator has one for each of its ranks
// (src/simulation/world), so that whole ranks run there on a clock, wires and host memory of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/words.hpp"
#include "bootstrap/admission.hpp"
#include "bootstrap/launcher_environment.hpp"
#include "transport/host_memory.hpp"
#include "transport/idle.hpp"
#include "transport/transport.hpp"

namespace coppice::engine {

class Attended;

class Platform {
  public:
    virtual const Clock& clock() const = 0;

    // In place of a progress thread; between the two `context` may be entered as that thread does it.
    virtual Result<void> attend(Attended& context) = 0;
    virtual void forsake(Attended& context) = 0;

    // In place of transport::Idle, for the one caller that waits.
    virtual void reset_pauses() = 0;
    virtual bool sleeps_next() = 0;
    virtual void pause(int descriptor, std::uint64_t longest_ns) = 0;

    struct Place {
        Seat self;
        std::uint32_t ranks = 1;
        std::uint32_t window = 1;
        bool has_local_peers = false;
        bool has_far_peers = false;
        std::span<const transport::Region> regions{};
    };
    struct Wires {
        std::unique_ptr<transport::Transport> near;    // to the ranks of this host, named "shm"; null: none
        transport::HostMemory* host_memory = nullptr;  // that one's
        std::unique_ptr<transport::Transport> far;
    };
    // For a group that is being formed.
    virtual Wires make_transports(const Place& place) = 0;

    // In place of a launcher's, by which newcomers get to a group; null: none come. Once for a group.
    virtual Result<std::unique_ptr<bootstrap::Admission>> admission() {
        return std::unique_ptr<bootstrap::Admission>();
    }
    // In place of what a launcher's environment says to a process that it has started late.
    virtual std::optional<bootstrap::LauncherEnvironment> started_late() const { return std::nullopt; }

  protected:
    ~Platform() = default;
};

// How one call waits: as transport::Idle has it, or the platform.
class Pauses {
  public:
    Pauses(Platform* platform, std::uint32_t ranks_per_core, std::optional<std::uint64_t> spin_ns)
        : platform_(platform), idle_(ranks_per_core, spin_ns) {
        if (platform_ != nullptr) platform_->reset_pauses();
    }
    void reset() { platform_ == nullptr ? idle_.reset() : platform_->reset_pauses(); }
    bool sleeps_next() const { return platform_ == nullptr ? idle_.sleeps_next() : platform_->sleeps_next(); }
    bool wants_rings() const { return platform_ == nullptr && idle_.wants_rings(); }
    void pause(int descriptor = -1, std::uint64_t longest_ns = transport::Idle::kLongestSleepNs) {
        platform_ == nullptr ? idle_.pause(descriptor, longest_ns) : platform_->pause(descriptor, longest_ns);
    }

  private:
    Platform* platform_;
    transport::Idle idle_;
};

}  // namespace coppice::engine
