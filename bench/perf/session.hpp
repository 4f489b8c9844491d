// What every measurement needs: a context and a group of the library, the memory that all ranks share for
// time stamps, and a start barrier that goes on when ranks die.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coppice/coppice.h"
#include "measure.h"
#include "perf/options.hpp"

namespace perf {

// A failure that ends this process; `exit_code` is one of kExit….
struct Failure {
    int exit_code = kExitFailed;
    std::string message;
};

// The failed call's status and text, as a Failure. Settings that the library refuses give kExitUsage.
Failure library_failure(const std::string& what, coppice_status_t status);

// Prints it for this rank; its exit code.
int complain(std::uint32_t rank, const Failure& failure);
// The same before the rank is known; a refusal of settings, which is the same everywhere, by rank 0 only.
int complain_unless_known(const Failure& failure);

class Session {
  public:
    Session() = default;
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    // Makes context and group. Collective.
    std::optional<Failure> open(const GroupSettings& settings);
    // Makes the shared area: `iterations` stamps and `own_bytes` of the caller's own per rank. Collective, once.
    std::optional<Failure> share(std::uint64_t iterations, std::uint64_t own_bytes);
    // Leaves the group. Collective.
    std::optional<Failure> close();

    coppice_context_t* context() const { return context_; }
    coppice_group_t* group() const { return group_; }
    std::uint32_t rank() const { return info_.rank; }
    std::uint32_t ranks() const { return info_.size; }
    const coppice_group_info_t& info() const { return info_; }
    measure_area_t* area() const { return crew_.area; }
    std::uint64_t timeout_ns() const { return timeout_ns_; }

    bool is_dead(std::uint32_t rank) const { return __atomic_load_n(&dead_[rank], __ATOMIC_ACQUIRE) != 0; }
    // CLOCK_MONOTONIC when this rank was told of the failure; 0 while it was not.
    std::uint64_t noticed(std::uint32_t rank) const { return __atomic_load_n(&noticed_[rank], __ATOMIC_ACQUIRE); }

    // Marks whomever the library holds dead, also those of whose death no callback has told yet.
    void learn_failures();

    // Waits for all live ranks and makes progress meanwhile. The lowest live rank runs `action` when all are there.
    std::optional<Failure> barrier(const std::function<void()>& action = nullptr);
    // Waits, making progress, until `condition` holds.
    std::optional<Failure> wait_until(const char* what, const std::function<bool()>& condition);
    // Waits for late notices of deaths, until `known` holds or some seconds have passed.
    std::optional<Failure> wait_for_notices(const std::function<bool()>& known);

  private:
    void mark_dead(std::uint32_t rank);
    static void on_failure(void* session, coppice_group_t* group, std::uint32_t rank);
    static int idle(void* session);
    std::string missing() const;

    coppice_context_t* context_ = nullptr;
    coppice_group_t* group_ = nullptr;
    coppice_group_info_t info_{};
    measure_crew_t crew_{};
    std::vector<std::uint8_t> dead_ = std::vector<std::uint8_t>(MEASURE_MAX_RANKS);
    std::vector<std::uint64_t> noticed_ = std::vector<std::uint64_t>(MEASURE_MAX_RANKS);
    std::uint64_t timeout_ns_ = 0;
    std::uint64_t wait_deadline_ns_ = 0;
    coppice_status_t progress_status_ = COPPICE_OK;
};

// A whole measurement: opens the session, makes a run of it, checks, executes and closes. Run has check(), execute() and
// clean(); the exit code is one of kExit….
template <class Run, class Settings>
int measure_in_session(const GroupSettings& group, const Settings& settings) {
    Session session;
    // Settings that nobody takes are told once, by rank 0; other troubles by everybody who has them.
    if (const auto failure = session.open(group)) return complain_unless_known(*failure);
    Run run(session, group, settings);
    if (const auto failure = run.check()) return session.rank() == 0 ? complain(0, *failure) : failure->exit_code;
    if (const auto failure = run.execute()) return complain(session.rank(), *failure);
    if (const auto failure = session.close()) return complain(session.rank(), *failure);
    return run.clean() ? kExitOk : kExitFailed;
}

// Asks the library whether it takes these settings, by a group of this process alone.
std::optional<Failure> check_settings(const GroupSettings& settings);

}  // namespace perf
