// What every measurement needs: a context and a group of the library, the memory that all ranks share for
// time stamps, and a start barrier that goes on when ranks die. Ranks of different machines do without that memory (apart.cpp).
//
// A network that parts in two leaves two sides that hold each other for dead, and one memory that both can write. The
// larger side goes on (of two that are equal, the one with the lowest rank); a rank of the other one ends, with
// kExitCutOff. It finds out before it acts on what it was told in the barrier: processes that it was told are dead, but
// that live and hold it for dead, are the other side.
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
// The same before the rank is known; a refusal of settings, which is the same everywhere, by rank 0 only, unless it names this rank.
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
    // Barriers go on without it: it is dead, or its process has ended, of which the library may not have told yet.
    bool is_gone(std::uint32_t rank) const { return __atomic_load_n(&gone_[rank], __ATOMIC_ACQUIRE) != 0; }
    // CLOCK_MONOTONIC when this rank was told of the failure; 0 while it was not.
    std::uint64_t noticed(std::uint32_t rank) const { return __atomic_load_n(&noticed_[rank], __ATOMIC_ACQUIRE); }

    // Marks every rank that the library holds dead, also where no callback has told of the death yet.
    void learn_failures();

    // Of the ranks that are dead, those whose processes lived when the others went on without them.
    bool is_cut_off(std::uint32_t rank) const { return cut_off_[rank] != 0; }
    // This rank will say nothing more, and die: it is no side.
    void fall_silent();
    // "2 of 8 ranks died", with those that were cut off, if there are any.
    std::string losses(const std::function<bool(std::uint32_t)>& died_in_run) const;

    // Ends the operations that come after so many seconds from now; 0: does not.
    void limit(double seconds);
    // Whether operation `number` is not done any more; the same at all ranks. No rank is ever more than `ahead`
    // operations ahead of another. To be asked before each one.
    bool over(std::uint64_t number, std::uint64_t ahead);
    // For the next limit. To be called by one rank while all are in a barrier.
    void forget_limit();
    // Whether this rank goes on alone, without the others that live.
    std::optional<Failure> parted();

    // Waits for all live ranks, and makes no progress for the library meanwhile, unless there is no progress thread. The lowest live rank
    // runs `action` when all are there.
    std::optional<Failure> barrier(const std::function<void()>& action = nullptr);
    // The same until `condition` holds.
    std::optional<Failure> wait_until(const char* what, const std::function<bool()>& condition);
    // Asks the library for late notices of deaths, until `known` holds or some seconds have passed.
    std::optional<Failure> wait_for_notices(const std::function<bool()>& known);

    // Whether ranks have no memory in common: then nobody can look at another's part of the area while operations run, and
    // each has what the others have measured when a barrier's action runs, as lengths of time.
    bool is_apart() const { return apart_; }

  private:
    std::optional<Failure> share_with_all(bool is_open, std::uint32_t owner, bool& all, bool& owner_lives);
    std::uint32_t lowest_live() const;
    std::optional<Failure> parted_apart() const;
    std::optional<Failure> barrier_apart(const std::function<void()>& action);
    std::optional<Failure> broadcast_part(std::span<std::byte> bytes, std::uint32_t root, bool& arrived);
    std::optional<Failure> gather_part(std::span<std::byte> memory, std::uint32_t root);
    std::optional<Failure> gather();
    bool over_apart(std::uint64_t number);
    void mark_dead(std::uint32_t rank);
    static void on_failure(void* session, coppice_group_t* group, std::uint32_t rank);
    static int idle(void* session);
    void look_at_one(std::uint64_t now);
    coppice_status_t hear();
    bool knows_the_ended() const;
    std::string missing() const;
    struct Standing;
    Standing& standing(std::uint32_t rank) const;
    void judge();
    bool holds_dead(std::uint32_t witness, std::uint32_t rank) const;
    bool is_other_side(std::uint32_t rank) const;
    bool has_ended(std::uint32_t rank) const;

    coppice_context_t* context_ = nullptr;
    coppice_group_t* group_ = nullptr;
    coppice_group_info_t info_{};
    measure_crew_t crew_{};
    std::vector<std::uint8_t> dead_ = std::vector<std::uint8_t>(MEASURE_MAX_RANKS);
    std::uint32_t deaths_ = 0;  // how many are marked in dead_
    std::uint32_t judged_ = 0;  // of those, how many the barrier goes on without
    std::vector<std::uint8_t> gone_ = std::vector<std::uint8_t>(MEASURE_MAX_RANKS);     // those
    std::vector<std::uint8_t> cut_off_ = std::vector<std::uint8_t>(MEASURE_MAX_RANKS);  // of those, the ones that lived
    bool parted_ = false;
    bool apart_ = false;
    bool is_over_ = false;           // apart: the time of limit()
    std::uint64_t doubt_ns_ = 0;     // since when it is not clear which side goes on
    std::uint64_t together_ns_ = 0;  // when the last barrier was passed
    std::uint64_t end_ns_ = 0;       // of limit(); 0: none
    std::uint64_t standing_at_ = 0;
    std::vector<std::uint64_t> noticed_ = std::vector<std::uint64_t>(MEASURE_MAX_RANKS);
    std::uint64_t timeout_ns_ = 0;
    std::uint64_t wait_deadline_ns_ = 0;
    bool polls_ = false;  // there is no progress thread
    bool asks_ = false;   // waiting is for what the library knows: it may make progress
    coppice_status_t idle_status_ = COPPICE_OK;
    std::uint64_t called_ns_ = 0;  // the library last, while waiting
    std::uint64_t looked_ns_ = 0;  // at a process
    std::uint32_t looked_at_ = 0;
    std::vector<std::uint8_t> ended_ = std::vector<std::uint8_t>(MEASURE_MAX_RANKS);  // their processes
};

// A whole measurement: opens the session, makes a run of it, checks, executes and closes. Run has check(), execute()
// and clean(); the exit code is one of kExit….
template <class Run, class Settings>
int measure_in_session(const GroupSettings& group, const Settings& settings) {
    Session session;
    // Settings that nobody takes are told once, by rank 0; other troubles by every rank that has them.
    if (const auto failure = session.open(group)) return complain_unless_known(*failure);
    Run run(session, group, settings);
    if (const auto failure = run.check()) return session.rank() == 0 ? complain(0, *failure) : failure->exit_code;
    if (const auto failure = run.execute()) return complain(session.rank(), *failure);
    if (const auto failure = session.close()) return complain(session.rank(), *failure);
    return run.clean() ? kExitOk : kExitFailed;
}

// Whether the environment turns the progress thread off: this program then owes the others calls.
bool has_no_thread();

// Asks the library whether it takes these settings, by a group of this process alone.
std::optional<Failure> check_settings(const GroupSettings& settings);

}  // namespace perf
