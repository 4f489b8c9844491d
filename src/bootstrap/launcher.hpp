// Bootstrap under coppice-run: a client of the launcher's exchange server.
#pragma once

#include <optional>
#include <string>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/launcher_protocol.hpp"

namespace coppice::bootstrap {

// What coppice-run tells its ranks.
struct LauncherEnvironment {
    Rank rank;                // COPPICE_RANK
    std::uint32_t size = 0;   // COPPICE_SIZE
    std::string socket_path;  // COPPICE_LAUNCHER
};

// Reads the three variables. None of them set: nullopt. Some missing or not parsing: COPPICE_ERR_CONFIG,
// naming the variable and its value.
Result<std::optional<LauncherEnvironment>> read_launcher_environment();

// One connection, opened by create() and kept until destruction. The n-th LauncherBootstrap of each rank's
// process meets the n-th of the others. A failed allgather leaves the object unusable (every further one
// fails at once).
//
// A rank that dies before it contributes has an empty entry, the same at everybody. The death of the
// launcher, or a rank that closed its bootstrap before this round, ends allgather() at once with
// COPPICE_ERR_BOOTSTRAP.
class LauncherBootstrap final : public Bootstrap {
  public:
    // Connects and shakes hands. COPPICE_ERR_BOOTSTRAP when the launcher is gone or refuses,
    // COPPICE_ERR_MISMATCH when it is of another version or word size. Blocks until `deadline_ns`
    // (CLOCK_MONOTONIC) at most.
    static Result<std::unique_ptr<LauncherBootstrap>> create(const LauncherEnvironment& environment,
                                                             std::uint64_t deadline_ns);
    ~LauncherBootstrap() override;
    LauncherBootstrap(const LauncherBootstrap&) = delete;
    LauncherBootstrap& operator=(const LauncherBootstrap&) = delete;

    Rank rank() const override { return environment_.rank; }
    std::uint32_t size() const override { return environment_.size; }
    const char* name() const override { return "launcher"; }
    Result<std::vector<std::vector<std::byte>>> allgather(std::span<const std::byte> mine,
                                                          std::uint64_t deadline_ns) override;

  private:
    struct Frame {
        FrameKind kind = FrameKind::bye;
        std::vector<std::byte> body;
    };
    LauncherBootstrap(LauncherEnvironment environment, int descriptor)
        : environment_(std::move(environment)), descriptor_(descriptor) {}
    Result<void> shake_hands(std::uint64_t deadline_ns);
    Result<void> send_all(std::span<const std::byte> bytes, std::uint64_t deadline_ns);
    // The next whole frame, or nullopt at the deadline; what has arrived of it by then is kept in input_.
    Result<std::optional<Frame>> receive_frame(std::uint64_t deadline_ns);
    Result<std::optional<Frame>> parse_frame();
    Result<std::vector<std::vector<std::byte>>> unpack(std::span<const std::byte> body) const;
    Result<std::vector<std::vector<std::byte>>> exchange(std::span<const std::byte> mine, std::uint64_t deadline_ns);
    Error who_is_missing();
    Error launcher_died() const;

    LauncherEnvironment environment_;
    int descriptor_;
    std::uint32_t round_ = 0;
    std::vector<std::byte> input_;  // received and not parsed yet
    bool broken_ = false;
};

}  // namespace coppice::bootstrap
