// Processes that are started while the others run: ranks that were killed, spares, and others that join.
#include <sys/wait.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "job.hpp"
#include "message.hpp"

namespace coppice::run {
namespace {

// A process that waits for a group hears at once that nobody is left there. One that does not end then is ended.
constexpr std::uint64_t kIdleGrace = 10 * kSecond;

}  // namespace

void Job::take_streams(std::uint32_t rank, const RankStart& started) {
    for (const auto& [source, sink] : {std::pair{started.output, STDOUT_FILENO}, {started.errors, STDERR_FILENO}}) {
        if (source < 0) continue;
        streams_.emplace_back(rank, source, sink);
        watch(source, kFirstStreamTag + streams_.size() - 1);
    }
}

void Job::start_late(std::uint32_t number) {
    RankState& state = ranks_[number];
    const bool was_there = state.pid >= 0;
    const std::uint32_t incarnation = was_there ? server_->lobby()->incarnation(number) + 1 : 0;
    const int core = core_for(number);
    auto started = run::start_late(plan(), {number, incarnation, core});
    if (!started) {
        say("{}", started.error().message);
        return fail_with(started.error().exit_code);
    }
    RankState next;
    next.pid = started->pid;
    next.core = core;
    next.is_late = true;
    next.respawns = state.respawns;
    next.was_parted = state.was_parted;
    if (state.cut_off_at_ns) next.cut_off_at_ns = now_ns();
    state = next;
    ++running_;
    server_->late_started(number, started->pid);
    take_streams(number, *started);
}

// Of one that is started now.
int Job::core_for(std::uint32_t number) const {
    std::vector<int> others;
    for (std::uint32_t other = 0; other < ranks_.size(); ++other)
        if (other != number && is_running(other)) others.push_back(ranks_[other].core);
    return cores_.least_used(others, cores_.of_rank(number));
}

// Another is lost: one of them may be in its place already. Those in groups have their cores before those that wait.
void Job::move_those_that_came_late() {
    std::vector<int> others;
    std::vector<std::uint32_t> late;
    for (std::uint32_t number = 0; number < ranks_.size(); ++number) {
        if (!is_running(number)) continue;
        if (ranks_[number].is_late)
            late.push_back(number);
        else
            others.push_back(ranks_[number].core);
    }
    std::ranges::stable_partition(late, [this](std::uint32_t number) { return !is_waiting(number); });
    for (const std::uint32_t number : late) {
        RankState& state = ranks_[number];
        const int core = cores_.least_used(others, state.core);
        move(state.pid, std::exchange(state.core, core), core);
        others.push_back(core);
    }
}

// It was killed. False when it is not started again.
bool Job::respawn(std::uint32_t number, bool on_purpose) {
    RankState& state = ranks_[number];
    const std::uint32_t most = std::min(options_.respawns.value_or(0), bootstrap::kMostIncarnation);
    if (most == 0 || end_kill_ns_ || !server_->lobby()->has_members()) return false;
    if (state.respawns >= most) {
        say("rank {} is not started again: it has been {} time{} already, as often as --respawn allows", number,
            state.respawns, state.respawns > 1 ? "s" : "");
        return false;
    }
    ++state.respawns;
    const pid_t before = state.pid;
    start_late(number);
    if (state.ended) return true;  // said already
    say("started rank {} again (pid {}){}", number, state.pid,
        on_purpose ? "" : fmt::format("), as a signal has ended pid {}", before).substr(1));
    return true;
}

bool Job::is_waiting(std::uint32_t number) const {
    return server_->lobby() != nullptr && server_->lobby()->is_waiting(number);
}

// Of those that run, none is in a group, or will make one.
bool Job::is_over() const {
    for (std::uint32_t number = 0; number < ranks_.size(); ++number) {
        if (is_running(number) && !is_waiting(number)) return false;
    }
    return true;
}

// Nobody waits that will be taken in: spares wait until they are needed, and where there are some also others until there is a place.
bool Job::has_all_members() const {
    std::uint32_t members = 0;
    bool any_waits = false;
    for (std::uint32_t number = 0; number < ranks_.size(); ++number) {
        if (!is_running(number)) continue;
        if (ranks_[number].killed) return false;  // its end is yet to be seen, and may make another one start
        const bool waits = is_waiting(number);
        members += waits ? 0 : 1;
        any_waits = any_waits || waits;
    }
    // Where hosts are cut off for good nobody may ever reach those that wait.
    const std::uint32_t expected = options_.members_at_the_end();
    return !any_waits || members >= expected;
}

void Job::end_those_that_wait() {
    if (!options_.admits() || end_kill_ns_ || running_ == 0) return;
    if (!is_over()) {
        idle_ns_.reset();
    } else if (!idle_ns_) {
        idle_ns_ = now_ns() + kIdleGrace;
    } else if (now_ns() >= *idle_ns_) {
        say("ending {} process{} that no group has taken in, as all others have ended", running_,
            running_ > 1 ? "es" : "");
        begin_end(exit_code_.value_or(0));
    }
}

}  // namespace coppice::run
