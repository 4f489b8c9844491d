// How processes that are started late come to a group: the members' door to the launcher, and the newcomers'.
//
// Until it is taken in a newcomer speaks to the launcher alone. Who says what is in lobby.hpp; how ranks can be reached, and what newcomers
// have to know of a group, are bytes here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "bootstrap/launcher_connection.hpp"
#include "bootstrap/launcher_environment.hpp"
#include "bootstrap/launcher_protocol.hpp"

namespace coppice::bootstrap {

class Admission {
  public:
    struct Event {
        enum class Kind : std::uint8_t {
            invited,     // a newcomer: this is `who` it is; `body` has what it has to know of the group
            introduced,  // `who` can be reached as `body` says
            gone,        // `who` (its serial alone) is not to be reached any more
            ready,       // all can reach `who`
            formed,      // `body` has what a newcomer has to know of the group that has it
        };
        Kind kind = Kind::gone;
        PersonBody who{};
        std::vector<std::byte> body{};
    };

    // Connects; one that was started late is a newcomer. `deadline_ns`: CLOCK_MONOTONIC, for connecting alone.
    static Result<std::unique_ptr<Admission>> enter(const LauncherEnvironment& environment, std::uint64_t deadline_ns);
    ~Admission();
    Admission(const Admission&) = delete;
    Admission& operator=(const Admission&) = delete;

    // Readable when next() has something.
    int descriptor() const { return connection_->descriptor(); }
    // Never waits. An error is final: the launcher is gone, or refuses this rank and says why.
    Result<std::optional<Event>> next();

    // `group`: a member's, what newcomers have to know; at newcomers empty.
    void tell_card(std::span<const std::byte> group, std::span<const std::byte> card);
    void tell_wired(std::uint32_t serial);
    void tell_unwired(std::uint32_t serial, std::string_view why);
    void tell_formed(std::span<const PersonBody> newcomers, std::span<const PersonBody> left_out,
                     std::span<const std::byte> group);

  private:
    explicit Admission(std::unique_ptr<LauncherConnection> connection) : connection_(std::move(connection)) {}

    std::unique_ptr<LauncherConnection> connection_;
};

}  // namespace coppice::bootstrap
