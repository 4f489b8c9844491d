#include "job.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "bootstrap/choose.hpp"
#include "bootstrap/process_tree.hpp"
#include "message.hpp"

namespace coppice::run {
namespace {

// How often to look which ranks have ended. A signal would wake this process at every death, on a core that the
// survivors may want just then to agree on it.
constexpr std::uint64_t kReapEvery = kSecond / 50;

// Of so many processes that have ended coppice-status finds the pages, or of as many as the job has ranks.
constexpr std::size_t kFewestEndedPages = 64;

constexpr std::uint64_t kSignalTag = 0;
constexpr std::uint64_t kTimerTag = 1;
constexpr std::uint64_t kServerTag = 2;

// The process that keeps a rank's memory when it dies (docs/detection.md).
bool is_keeper(pid_t pid) {
    std::string name;
    std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), name);
    return name == "coppice-keep";
}

}  // namespace

Job::Job(const Options& options, const SignalState& signals)
    : options_(options), signals_(signals), cores_(options.bind_to_cores ? Cores::allowed() : Cores({})) {
    for (const Fault& fault : options.faults)
        faults_.push_back({fault});
}

Job::~Job() {
    for (const int descriptor : {poll_, signal_descriptor_, timer_, all_happened_}) {
        if (descriptor >= 0) ::close(descriptor);
    }
}

int Job::run() {
    if (const auto code = prepare()) return *code;
    if (const auto code = start()) return *code;
    loop();
    return finish();
}

std::optional<int> Job::prepare() {
    if (options_.hosts > 0 && options_.devices.empty()) {
        auto hosts = Hosts::create(options_.hosts, options_.ranks, options_.leaves, options_.far_side());
        if (!hosts) {
            say("--hosts: {}", hosts.error().message);
            return 1;
        }
        hosts_ = std::move(*hosts);
        // A user namespace may have taken the guard's signal back.
        rearm_guard_signal();
    }
    const auto is_cut = [](const PendingFault& one) {
        return one.fault.kind == Fault::Kind::cut || one.fault.kind == Fault::Kind::part;
    };
    if (std::ranges::any_of(faults_, is_cut)) {
        auto cables = Cables::create(*hosts_);
        if (!cables) {
            say("--cut: {}", cables.error().message);
            return 1;
        }
        cables_ = std::move(*cables);
    }
    auto server = bootstrap::Server::open(options_.ranks,
                                          options_.admits() ? std::optional(options_.late_numbers()) : std::nullopt);
    if (!server) {
        say("{}", server.error().message);
        return 1;
    }
    server_ = std::move(*server);
    witness_ = bootstrap::WitnessKeeper::create(options_.ranks + options_.late_numbers());
    if (!witness_) say("warning: no witness of deaths (COPPICE_QUORUM=certain): {}", std::strerror(errno));
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int signal : {request_signal(), guard_died_signal()})
        ::sigaddset(&signals, signal);
    signal_descriptor_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    timer_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    poll_ = ::epoll_create1(EPOLL_CLOEXEC);
    all_happened_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (signal_descriptor_ < 0 || timer_ < 0 || poll_ < 0 || all_happened_ < 0) {
        say("cannot watch the ranks: {} (see `ulimit -n`)", std::strerror(errno));
        return 1;
    }
    watch(signal_descriptor_, kSignalTag);
    watch(timer_, kTimerTag);
    watch(server_->poll_descriptor(), kServerTag);
    return std::nullopt;
}

StartPlan Job::plan() {
    return {options_,
            signals_,
            server_->path(),
            witness_ ? witness_->path() : "",
            [this](std::uint32_t rank) { return cores_.of_rank(rank); },
            hosts_.get(),
            starter_.get(),
            descriptors_,
            all_happened_,
            {},
            {}};
}

std::optional<int> Job::start() {
    ::getrlimit(RLIMIT_NOFILE, &descriptors_);
    rlimit raised = descriptors_;
    raised.rlim_cur = raised.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &raised);
    if (options_.admits() && hosts_ && hosts_->will_drop_rights()) {
        const auto become = [late = plan(), launcher = ::getpid()](const Starter::Wish& wish,
                                                                   const Starter::Pipes& pipes) {
            become_late(late, launcher, wish, pipes);
        };
        starter_ = Starter::create(become);
        if (!starter_) {
            say("cannot start processes late: {} (see `ulimit -n` and -u)", std::strerror(errno));
            return 1;
        }
    }
    // The ranks' connections need most of them.
    pages_ = std::make_unique<status::KeptPages>(raised.rlim_cur / 4,
                                                 std::max<std::size_t>(kFewestEndedPages, options_.ranks));
    if (witness_) witness_->watch_at_most(raised.rlim_cur / 8);
    server_->on_arrival([this](std::uint32_t number, pid_t process) {
        pages_->keep(process);
        if (witness_) witness_->arrived(number, process);
    });

    StartPlan all = plan();
    all.started = [this](std::uint32_t rank, pid_t pid) {
        server_->rank_started(rank, pid);
        // A program that brings its ranks together by itself says nothing to the launcher.
        if (witness_) witness_->arrived(rank, pid);
    };
    all.before_release = [this] {
        if (options_.count_links) links_.emplace(options_.leaves);
        if (hosts_) hosts_->drop_rights();
        start_ns_ = now_ns();
    };
    auto started = start_ranks(all);
    if (!started) {
        say("{}", started.error().message);
        return started.error().exit_code;
    }
    ranks_.resize(options_.ranks + options_.late_numbers());
    for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
        ranks_[rank].pid = (*started)[rank].pid;
        ranks_[rank].core = cores_.of_rank(rank);
        take_streams(rank, (*started)[rank]);
    }
    running_ = options_.ranks;
    std::uint32_t next = options_.ranks;
    for (; next < options_.ranks + options_.spares; ++next)
        start_late(next);
    for (const LateStart& join : options_.joins) {
        joins_.push_back({join, next});
        next += join.count;
    }
    return std::nullopt;
}

void Job::watch(int descriptor, std::uint64_t tag) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = tag;
    ::epoll_ctl(poll_, EPOLL_CTL_ADD, descriptor, &event);
}

void Job::loop() {
    reap();  // a rank may have ended before the signals were looked at
    while (running_ > 0) {
        const std::uint64_t now = now_ns();
        if (now >= reap_at_ns_) {
            reap();
            continue;
        }
        act(now);
        set_timer(next_wake(now));
        std::array<epoll_event, 64> events{};
        const int count = ::epoll_wait(poll_, events.data(), static_cast<int>(events.size()), -1);
        for (int i = 0; i < count; ++i) {
            const std::uint64_t tag = events[static_cast<std::size_t>(i)].data.u64;
            if (tag == kSignalTag) {
                handle_signals();
            } else if (tag == kServerTag) {
                server_->serve();
            } else if (tag >= kFirstStreamTag) {
                streams_[tag - kFirstStreamTag].pump();
            }
        }
    }
}

void Job::handle_signals() {
    signalfd_siginfo info{};
    while (::read(signal_descriptor_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
        const int signal = static_cast<int>(info.ssi_signo);
        if (signal == guard_died_signal()) {
            // Nobody is left to report to.
            end_all_descendants();
            ::_exit(1);
        }
        if (signal == request_signal()) handle_request(info.ssi_int);
    }
}

void Job::handle_request(int signal) {
    if (end_kill_ns_) {
        end_kill_ns_ = now_ns();  // asked twice: no more patience
        return;
    }
    reap();
    if (running_ == 0) return;
    say("{}: ending {} ranks", strsignal(signal), running_);
    begin_end(128 + signal);
}

// Ends what is running: SIGTERM now, SIGKILL after a grace.
void Job::begin_end(int exit_code) {
    exit_code_ = exit_code;
    end_kill_ns_ = now_ns() + kGrace;
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
        if (ranks_[rank].ended || ranks_[rank].pid < 0) continue;
        signal_rank(rank, SIGTERM);
        signal_rank(rank, SIGCONT);
    }
}

// A rank may be a shell around the program: what is done to it is done to all below it. But a killed rank leaves behind
// what any other kill would leave: the keeper of its memory.
void Job::signal_rank(std::uint32_t rank, int signal) const {
    const pid_t pid = ranks_[rank].pid;
    auto below = bootstrap::descendants_of(pid);
    std::vector<pid_t> keepers;
    if (signal == SIGKILL) {
        std::ranges::copy_if(below, std::back_inserter(keepers), is_keeper);
        std::erase_if(below, is_keeper);
    }
    ::kill(pid, signal);
    for (const pid_t one : below)
        ::kill(one, signal);
    for (const pid_t one : keepers)
        ::kill(one, SIGCONT);  // it may have been stopped with its rank
    if (signal != SIGSTOP) return;
    // What was being started meanwhile stops as well. A process that is to stop starts nothing more, so this ends.
    for (auto again = bootstrap::descendants_of(pid); again != below; again = bootstrap::descendants_of(pid)) {
        below = std::move(again);
        for (const pid_t one : below)
            ::kill(one, signal);
    }
}

void Job::reap() {
    reap_at_ns_ = now_ns() + kReapEvery;
    if (witness_) witness_->look();
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
        const auto found = std::ranges::find_if(ranks_, [pid](const RankState& one) {
            return one.pid == pid && !one.ended;  // numbers of processes are used again
        });
        if (found == ranks_.end()) continue;  // an orphan of a rank
        while (server_->serve()) {            // what the rank said before its end comes first
        }
        rank_ended(static_cast<std::uint32_t>(found - ranks_.begin()), status);
    }
    if (running_ == 0) return;
    find_stranded();
    end_those_that_wait();
    // Those that were stopped for good would never end: the others have.
    const bool only_stopped = std::ranges::all_of(
        ranks_, [](const RankState& one) { return one.ended || one.pid < 0 || (one.stopped && !one.continue_at_ns); });
    if (!only_stopped) return;
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
        if (!ranks_[rank].ended && ranks_[rank].stopped && ranks_[rank].pid >= 0)
            continue_rank(rank, ", as all others have ended");
    }
}

void Job::rank_ended(std::uint32_t rank, int status) {
    RankState& state = ranks_[rank];
    state.ended = true;
    --running_;
    const bool was_waiting = is_waiting(rank);
    server_->rank_ended(rank);
    pages_->tidy();
    const bool by_signal = WIFSIGNALED(status);
    const bool on_purpose = state.killed && by_signal && WTERMSIG(status) == SIGKILL;
    has_success_ = has_success_ || (!by_signal && WEXITSTATUS(status) == 0);
    // One that crashes before it is taken in would crash again.
    if (by_signal && (on_purpose || !was_waiting) && respawn(rank, on_purpose)) return;
    if (!end_kill_ns_ && (by_signal || WEXITSTATUS(status) != 0)) move_those_that_came_late();
    if (on_purpose) return;
    if (!by_signal && WEXITSTATUS(status) == 0) return;
    if (end_kill_ns_) return;  // it was told to end
    if (was_waiting) {
        say("rank {} (pid {}), which no group had taken in, {} {}", rank, state.pid,
            by_signal ? "was killed by signal" : "exited with code",
            by_signal ? WTERMSIG(status) : WEXITSTATUS(status));
    } else if (by_signal) {
        say("rank {} (pid {}) was killed by signal {} ({})", rank, state.pid, WTERMSIG(status),
            strsignal(WTERMSIG(status)));
        fail_with(128 + WTERMSIG(status));
    } else if (is_cut_off(rank)) {
        say("rank {} (pid {}), cut off from the others, exited with code {}", rank, state.pid, WEXITSTATUS(status));
    } else if (state.was_cut_off_for_long) {
        say("rank {} (pid {}), which has been cut off from the others, exited with code {}", rank, state.pid,
            WEXITSTATUS(status));
        if (!excused_code_) excused_code_ = WEXITSTATUS(status);
    } else {
        say("rank {} (pid {}) exited with code {}", rank, state.pid, WEXITSTATUS(status));
        fail_with(WEXITSTATUS(status));
    }
}

void Job::fail_with(int exit_code) {
    if (!exit_code_) exit_code_ = exit_code;
}

void Job::set_timer(std::uint64_t at_ns) {
    itimerspec spec{};
    spec.it_value.tv_sec = static_cast<time_t>(at_ns / kSecond);
    spec.it_value.tv_nsec = static_cast<long>(at_ns % kSecond);
    // Setting it also takes back an expiry that nobody has read. A time that has passed expires at once.
    ::timerfd_settime(timer_, TFD_TIMER_ABSTIME, &spec, nullptr);
}

int Job::finish() {
    // What ranks have left running would keep their output open.
    end_all_descendants();
    for (auto& stream : streams_)
        stream.finish();
    for (const auto& pending : faults_) {
        if (!pending.done) say("warning: {}", describe_too_late(pending.fault));
    }
    for (const auto& pending : joins_) {
        if (!pending.done)
            say("warning: all ranks had ended before {} could join at {}", pending.join.count,
                format_duration(pending.join.at_ns));
    }
    if (links_) {
        for (const auto& line : describe_links(links_->count(), options_.operations))
            say("{}", line);
    }
    const auto& counters = server_->counters();
    if (counters.garbage > 0)
        say("dropped {} connections that did not speak the launcher's protocol", counters.garbage);
    if (counters.strangers > 0)
        say("refused {} connections of processes that are no rank of this job", counters.strangers);
    const bool has_excused = options_.admits() || excused_code_;
    if (has_excused && !has_success_ && exit_code_.value_or(0) == 0) {
        say("no process has ended well");
        return excused_code_.value_or(1);
    }
    return exit_code_.value_or(0);
}

}  // namespace coppice::run
