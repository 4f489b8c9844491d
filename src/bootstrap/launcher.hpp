// Bootstrap under coppice-run: a client of the launcher's exchange server.
#pragma once

#include <optional>
#include <string>

#include "bootstrap/admission.hpp"
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/launcher_connection.hpp"
#include "bootstrap/launcher_environment.hpp"
#include "bootstrap/launcher_protocol.hpp"
#include "bootstrap/subset.hpp"

namespace coppice::bootstrap {

// One connection, opened by create() and kept until destruction. The n-th LauncherBootstrap of each rank's
// process meets the n-th of the others; of some ranks, the n-th of the same list. A failed allgather leaves the object unusable (every further one
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
    // `ranks`: as for Subset::of(). Messages have the launcher's numbers.
    static Result<std::unique_ptr<LauncherBootstrap>> create(const LauncherEnvironment& environment,
                                                             std::uint64_t deadline_ns,
                                                             std::span<const std::uint32_t> ranks = {});
    ~LauncherBootstrap() override;
    LauncherBootstrap(const LauncherBootstrap&) = delete;
    LauncherBootstrap& operator=(const LauncherBootstrap&) = delete;

    Rank rank() const override { return subset_.self(environment_.rank); }
    std::uint32_t size() const override { return subset_.size(environment_.size); }
    const char* name() const override { return "launcher"; }
    Result<std::unique_ptr<Admission>> admission(std::uint64_t deadline_ns) override;
    Result<std::vector<std::vector<std::byte>>> allgather(std::span<const std::byte> mine,
                                                          std::uint64_t deadline_ns) override;

  private:
    LauncherBootstrap(LauncherEnvironment environment, Subset subset, std::unique_ptr<LauncherConnection> connection)
        : environment_(std::move(environment)), subset_(std::move(subset)), connection_(std::move(connection)) {}
    Result<void> shake_hands(std::uint64_t deadline_ns);
    Result<std::vector<std::vector<std::byte>>> unpack(std::span<const std::byte> body) const;
    Result<std::vector<std::vector<std::byte>>> exchange(std::span<const std::byte> mine, std::uint64_t deadline_ns);
    Result<LauncherFrame> answer(std::uint64_t deadline_ns);

    LauncherEnvironment environment_;
    Subset subset_;
    std::unique_ptr<LauncherConnection> connection_;
    std::uint32_t round_ = 0;
    bool admits_ = false;
    bool broken_ = false;
};

}  // namespace coppice::bootstrap
