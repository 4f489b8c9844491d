// What Job does on purpose, and when: kills, stops, cut cables, and the end of a run whose time is over.
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "job.hpp"
#include "message.hpp"

namespace coppice::run {
namespace {

// --kill and --stop count from the first complete exchange. A program of which no rank has called by then is
// taken for one that never will; one that has called but does not get done is given longer.
constexpr std::uint64_t kFirstCall = 2 * kSecond;
constexpr std::uint64_t kFirstExchange = 10 * kSecond;
// Ranks that are cut off for good are given so long after the end of all others.
constexpr std::uint64_t kStrandGrace = 10 * kSecond;

}  // namespace

void Job::find_zero(std::uint64_t now) {
    if (!joined_ns_ && server_->gathered()) joined_ns_ = now;
    if (zero_ns_) return;
    if (joined_ns_) {
        zero_ns_ = joined_ns_;
    } else if (now >= start_ns_ + (server_->contacted() ? kFirstExchange : kFirstCall)) {
        zero_ns_ = start_ns_;
    }
}

std::uint64_t Job::due(Fault::Origin origin, std::uint64_t at_ns) const {
    if (origin == Fault::Origin::start) return start_ns_ + at_ns;
    if (origin == Fault::Origin::joined) return joined_ns_ ? *joined_ns_ + at_ns : UINT64_MAX;
    return zero_ns_ ? *zero_ns_ + at_ns : UINT64_MAX;
}

// Everything whose time has come.
void Job::act(std::uint64_t now) {
    find_zero(now);
    for (auto& pending : faults_) {
        if (!pending.done && due(pending.fault.origin, pending.fault.at_ns) <= now) inject(pending, now);
    }
    for (auto& pending : joins_) {
        if (pending.done || end_kill_ns_ || due(pending.join.origin, pending.join.at_ns) > now) continue;
        pending.done = true;
        say("starting {} process{} at {}", pending.join.count, pending.join.count > 1 ? "es" : "",
            format_duration(pending.join.at_ns));
        for (std::uint32_t i = 0; i < pending.join.count; ++i)
            start_late(pending.first + i);
    }
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
        const RankState& state = ranks_[rank];
        if (state.stopped && state.continue_at_ns && *state.continue_at_ns <= now) continue_rank(rank, "");
    }
    mend_cables(now);
    tell_when_all_happened();
    if (strand_ns_ && !end_kill_ns_ && now >= *strand_ns_) {
        say("ending {} rank{} of hosts that are cut off, as all others have ended", running_, running_ > 1 ? "s" : "");
        begin_end(exit_code_.value_or(0));
    }
    if (options_.timeout_ns && !end_kill_ns_ && now >= start_ns_ + *options_.timeout_ns) {
        reap();
        if (running_ == 0) return;
        std::string names;
        for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
            if (!ranks_[rank].ended && ranks_[rank].pid >= 0)
                names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
        }
        say("timeout after {}; still running: rank{} {}", format_duration(*options_.timeout_ns),
            running_ > 1 ? "s" : "", names);
        begin_end(124);
    }
    if (end_kill_ns_ && now >= *end_kill_ns_) {
        for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
            if (!ranks_[rank].ended && ranks_[rank].pid >= 0) signal_rank(rank, SIGKILL);
        }
        end_kill_ns_ = now + kGrace;
    }
}

void Job::inject(PendingFault& pending, std::uint64_t now) {
    const Fault& fault = pending.fault;
    const bool is_cut = fault.kind == Fault::Kind::cut || fault.kind == Fault::Kind::part;
    // Its process is about to end, and another may take its place, for which this one is then. A launcher that was held up has both to do at once.
    if (!is_cut && ranks_[fault.rank].killed && !ranks_[fault.rank].ended) return;
    pending.done = true;
    if (is_cut) return cut(fault, now);
    RankState& state = ranks_[fault.rank];
    const bool kill = fault.kind == Fault::Kind::kill;
    const std::string when = format_duration(fault.at_ns);
    siginfo_t info{};
    const bool over = state.ended || state.pid < 0 ||
                      (::waitid(P_PID, static_cast<id_t>(state.pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                       info.si_pid == state.pid);
    if (over) {
        say("warning: {}", describe_too_late(fault));
        return;
    }
    signal_rank(fault.rank, kill ? SIGKILL : SIGSTOP);
    if (kill) {
        state.killed = true;
        say("killed rank {} (pid {}) at {}", fault.rank, state.pid, when);
        return;
    }
    state.stopped = true;
    if (fault.duration_ns) state.continue_at_ns = now + *fault.duration_ns;
    say("stopped rank {} (pid {}) at {}", fault.rank, state.pid, when);
    reap();  // it may be the last one that was not stopped
}

void Job::cut(const Fault& fault, std::uint64_t now) {
    std::optional<std::uint64_t> until;
    if (fault.duration_ns) until = now + *fault.duration_ns;
    const bool parts = fault.kind == Fault::Kind::part;
    if (auto ok = parts ? cables_->part(fault.side, until) : cables_->cut(fault.rank, until); !ok) {
        say("{}", ok.error().message);
        return fail_with(1);
    }
    const std::string when = format_duration(fault.at_ns);
    if (parts) {
        for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank)
            ranks_[rank].was_parted = is_running(rank) && !is_waiting(rank);
        say("cut hosts {} off from {} at {}", list_hosts(fault.side), list_hosts(fault.other_side), when);
    } else {
        say("cut host {} off at {}", fault.rank, when);
    }
    note_cut_off(now);
}

void Job::note_cut_off(std::uint64_t now) {
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
        RankState& state = ranks_[rank];
        if (is_cut_off(rank)) {
            if (!state.cut_off_at_ns) state.cut_off_at_ns = now;
        } else if (const auto since = std::exchange(state.cut_off_at_ns, std::nullopt)) {
            state.was_cut_off_for_long = state.was_cut_off_for_long || now > *since + kHarmlessCutNs;
        }
    }
}

void Job::mend_cables(std::uint64_t now) {
    if (!cables_ || cables_->next_mend() > now) return;
    const std::uint64_t due = cables_->next_mend();
    const auto mended = cables_->mend(now);
    if (!mended) {
        say("{}", mended.error().message);
        return fail_with(1);
    }
    for (const std::uint32_t host : mended->hosts)
        say("repaired the cable of host {}", host);
    HostSet all;
    for (std::uint32_t host = 0; host < options_.hosts; ++host)
        all.set(host);
    for (const HostSet& side : mended->sides)
        say("repaired what joins hosts {} and {}", list_hosts(side), list_hosts(all & ~side));
    note_cut_off(due);
}

bool Job::is_cut_off(std::uint32_t rank) const {
    if (!cables_) return false;
    // A host that has lost all others is as lost as if its own cable were out.
    std::uint32_t reached = 0;
    const std::uint32_t host = hosts_->place(rank).host;
    for (std::uint32_t other = 0; other < options_.hosts; ++other)
        reached += other != host && !cables_->is_cut(other);
    return cables_->is_cut(host) || (options_.hosts > 1 && reached == 0) || is_on_smaller_side(host, false);
}

bool Job::is_lost_for_good(std::uint32_t rank) const {
    const std::uint32_t host = hosts_->place(rank).host;
    return cables_->is_cut_for_good(host) || is_on_smaller_side(host, true);
}

// Where hosts are cut in sides: of the ranks that lived then fewer were on this host's than on the others; or as many, without the lowest.
bool Job::is_on_smaller_side(std::uint32_t host, bool for_good) const {
    std::uint32_t here = 0;
    std::uint32_t there = 0;
    std::optional<bool> has_lowest;
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
        if (!ranks_[rank].was_parted) continue;
        const bool together = !cables_->are_parted(host, hosts_->place(rank).host, for_good);
        if (!has_lowest) has_lowest = together;
        ++(together ? here : there);
    }
    return here < there || (here == there && !has_lowest.value_or(true));
}

// Ranks that are cut off for good may not find out, or wait for something of their own: they are not waited for
// forever.
void Job::find_stranded() {
    if (!cables_ || strand_ns_) return;
    bool others = false;
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
        if (is_lost_for_good(rank)) continue;
        if (!ranks_[rank].ended) return;
        others = true;
    }
    if (others) strand_ns_ = now_ns() + kStrandGrace;
}

void Job::continue_rank(std::uint32_t rank, const char* why) {
    RankState& state = ranks_[rank];
    state.stopped = false;
    state.continue_at_ns.reset();
    if (state.ended) return;
    signal_rank(rank, SIGCONT);
    say("continued rank {} (pid {}){}", rank, state.pid, why);
}

// Nothing that was asked for is left, but what has no end.
void Job::tell_when_all_happened() {
    if (has_told_) return;
    const auto is_done = [](const auto& one) { return one.done; };
    const bool will_continue =
        std::ranges::any_of(ranks_, [](const RankState& one) { return one.stopped && one.continue_at_ns; });
    const bool will_mend = cables_ && cables_->next_mend() != UINT64_MAX;
    if (!std::ranges::all_of(faults_, is_done) || !std::ranges::all_of(joins_, is_done) || will_continue || will_mend)
        return;
    if (!has_all_members()) return;
    has_told_ = ::eventfd_write(all_happened_, 1) == 0;
}

std::uint64_t Job::next_wake(std::uint64_t now) const {
    std::uint64_t wake = reap_at_ns_;
    const bool waiting = std::ranges::any_of(faults_, [](const PendingFault& one) { return !one.done; }) ||
                         std::ranges::any_of(joins_, [](const PendingJoin& one) { return !one.done; });
    for (const auto& pending : joins_) {
        if (!pending.done) wake = std::min(wake, due(pending.join.origin, pending.join.at_ns));
    }
    for (const auto& pending : faults_) {
        if (!pending.done) wake = std::min(wake, due(pending.fault.origin, pending.fault.at_ns));
    }
    if (waiting && !zero_ns_) {
        wake = std::min(wake, start_ns_ + (server_->contacted() ? kFirstExchange : kFirstCall));
    }
    if (cables_) wake = std::min(wake, cables_->next_mend());
    if (strand_ns_ && !end_kill_ns_) wake = std::min(wake, *strand_ns_);
    for (const auto& state : ranks_) {
        if (state.stopped && state.continue_at_ns) wake = std::min(wake, *state.continue_at_ns);
    }
    if (options_.timeout_ns && !end_kill_ns_) wake = std::min(wake, start_ns_ + *options_.timeout_ns);
    if (end_kill_ns_) wake = std::min(wake, *end_kill_ns_);
    return std::max(wake, now + 1);
}

}  // namespace coppice::run
