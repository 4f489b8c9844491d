// One run: starts the ranks, serves their exchange, does to them what was asked, and tells how it ended.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <sys/resource.h>

#include "bootstrap/server.hpp"
#include "bootstrap/witness_keeper.hpp"
#include "cables.hpp"
#include "cores.hpp"
#include "guard.hpp"
#include "hosts.hpp"
#include "links.hpp"
#include "options.hpp"
#include "output.hpp"
#include "ranks.hpp"
#include "starter.hpp"
#include "status/kept_pages.hpp"

namespace coppice::run {

inline constexpr std::uint64_t kSecond = 1'000'000'000;
// Between SIGTERM and SIGKILL.
inline constexpr std::uint64_t kGrace = 2 * kSecond;

// Of epoll: those of the ranks' output from here on.
inline constexpr std::uint64_t kFirstStreamTag = 3;

class Job {
  public:
    Job(const Options& options, const SignalState& signals);
    ~Job();
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    // Returns the launcher's exit code.
    int run();

  private:
    struct RankState {
        pid_t pid = -1;  // of the process that has the number now; -1: none yet, or none any more
        int core = Cores::kAny;
        bool is_late = false;
        bool ended = false;
        bool killed = false;  // by --kill
        std::uint32_t respawns = 0;
        bool stopped = false;  // by --stop, and not continued yet
        std::optional<std::uint64_t> continue_at_ns;
        bool was_parted =
            false;  // when hosts were cut in sides last, its process lived and was in a group, or was to make one
        std::optional<std::uint64_t> cut_off_at_ns;
        bool was_cut_off_for_long = false;  // its process may have lost its place, and may yet have to hear so
    };
    struct PendingFault {
        Fault fault;
        bool done = false;
    };

    struct PendingJoin {
        LateStart join;
        std::uint32_t first = 0;  // number
        bool done = false;
    };

    StartPlan plan();
    std::optional<int> prepare();
    std::optional<int> start();
    void watch(int descriptor, std::uint64_t tag);
    void loop();
    void handle_signals();
    void handle_request(int signal);
    void reap();
    void rank_ended(std::uint32_t rank, int status);
    // late.cpp
    void start_late(std::uint32_t number);
    bool respawn(std::uint32_t number, bool on_purpose);
    int core_for(std::uint32_t number) const;
    void move_those_that_came_late();
    void take_streams(std::uint32_t rank, const RankStart& started);
    bool is_waiting(std::uint32_t number) const;
    bool is_running(std::uint32_t number) const { return ranks_[number].pid >= 0 && !ranks_[number].ended; }
    bool has_all_members() const;
    bool is_over() const;
    void end_those_that_wait();
    void find_zero(std::uint64_t now);
    void act(std::uint64_t now);
    void inject(PendingFault& pending, std::uint64_t now);
    void cut(const Fault& fault, std::uint64_t now);
    void mend_cables(std::uint64_t now);
    bool is_cut_off(std::uint32_t rank) const;
    void note_cut_off(std::uint64_t now);
    bool is_lost_for_good(std::uint32_t rank) const;
    bool is_on_smaller_side(std::uint32_t host, bool for_good) const;
    void find_stranded();
    void continue_rank(std::uint32_t rank, const char* why);
    void tell_when_all_happened();
    void begin_end(int exit_code);
    std::uint64_t next_wake(std::uint64_t now) const;
    void set_timer(std::uint64_t at_ns);
    void signal_rank(std::uint32_t rank, int signal) const;
    void fail_with(int exit_code);
    std::uint64_t due(Fault::Origin origin, std::uint64_t at_ns) const;
    int finish();

    const Options& options_;
    const SignalState& signals_;
    const Cores cores_;
    std::unique_ptr<bootstrap::Server> server_;
    std::unique_ptr<bootstrap::WitnessKeeper> witness_;  // null: there is no memory for one
    std::unique_ptr<status::KeptPages> pages_;
    std::unique_ptr<Hosts> hosts_;
    std::unique_ptr<Cables> cables_;    // with --cut
    std::unique_ptr<Starter> starter_;  // without rights over the hosts
    std::optional<LinkCounter> links_;
    std::vector<RankState> ranks_;
    std::vector<PendingFault> faults_;
    std::vector<PendingJoin> joins_;
    rlimit descriptors_{};  // RLIMIT_NOFILE as it was
    std::vector<TaggedStream> streams_;
    int poll_ = -1;
    int signal_descriptor_ = -1;
    int timer_ = -1;
    int all_happened_ = -1;  // an eventfd of all ranks, readable when nothing more will be done to them
    bool has_told_ = false;  // of that
    std::uint32_t running_ = 0;
    std::uint64_t start_ns_ = 0;
    std::optional<std::uint64_t> joined_ns_;  // when the first exchange was complete
    std::optional<std::uint64_t> zero_ns_;    // from when --kill and --stop count
    std::uint64_t reap_at_ns_ = 0;
    std::optional<std::uint64_t> strand_ns_;  // only ranks that are cut off for good are left: when they are ended
    std::optional<std::uint64_t> idle_ns_;    // only processes are left that no group has taken in: when they are ended
    bool has_success_ = false;                // some process has exited with 0
    std::optional<std::uint64_t> end_kill_ns_;  // the run is being ended: when SIGTERM becomes SIGKILL
    std::optional<int> exit_code_;              // of the first failure
    std::optional<int> excused_code_;           // of the first rank that had been cut off for long
};

}  // namespace coppice::run
