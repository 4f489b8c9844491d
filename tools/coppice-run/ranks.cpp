#include "ranks.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace coppice::run {
namespace {

// How far a child came when it failed; through a pipe that execve closes.
struct ChildFailure {
    enum class Step : std::uint32_t { join_host, run };
    Step step = Step::run;
    std::uint32_t rank = 0;
    int reason = 0;
};

struct Pipe {
    int read = -1;
    int write = -1;

    bool open() {
        std::array<int, 2> ends{-1, -1};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
        read = ends[0];
        write = ends[1];
        return true;
    }
    void close_read() { close(read); }
    void close_write() { close(write); }

  private:
    static void close(int& end) {
        if (end >= 0) ::close(end);
        end = -1;
    }
};

void set_number(const char* name, std::uint32_t value) {
    ::setenv(name, std::to_string(value).c_str(), 1);
}

// An outer coppice-run may have set them for its own ranks.
void set_admission(const StartPlan& plan, std::optional<std::uint32_t> incarnation) {
    ::unsetenv("COPPICE_INCARNATION");
    if (incarnation) set_number("COPPICE_INCARNATION", *incarnation);
    if (plan.options.admits()) {
        ::setenv("COPPICE_JOIN", plan.options.hosts > 0 ? "any" : "host", 1);
        set_number("COPPICE_CAPACITY", plan.options.ranks + plan.options.late_numbers());
        set_number("COPPICE_RUN_MEMBERS", plan.options.members_at_the_end());
    } else if (::getenv("COPPICE_LAUNCHER") != nullptr) {
        ::unsetenv("COPPICE_JOIN");
        ::unsetenv("COPPICE_CAPACITY");
        ::unsetenv("COPPICE_RUN_MEMBERS");
    }
    ::setenv("COPPICE_RUN_DONE_FD", std::to_string(plan.all_happened).c_str(), 1);
}

void set_environment(const StartPlan& plan, std::uint32_t rank, std::optional<std::uint32_t> incarnation) {
    set_admission(plan, incarnation);
    set_number("COPPICE_RANK", rank);
    set_number("COPPICE_SIZE", plan.options.ranks);
    ::setenv("COPPICE_LAUNCHER", plan.launcher_path.c_str(), 1);
    ::setenv("COPPICE_WITNESS", plan.witness_path.c_str(), 1);
    const std::uint32_t hosts = std::max(plan.options.hosts, 1U);
    const Placement place = place_of(rank, plan.options.ranks, hosts);
    if (rank < plan.options.ranks) {
        set_number("COPPICE_LOCAL_RANK", place.local_rank);
        set_number("COPPICE_LOCAL_SIZE", place.local_size);
    }
    if (plan.options.hosts == 0) return;
    ::setenv("COPPICE_HOST", fmt::format("host{}", place.host).c_str(), 1);
    if (const std::uint32_t leaves = plan.options.leaves; leaves > 0) {
        const std::uint32_t leaf = leaf_of(place.host, plan.options.hosts, leaves);
        ::setenv("COPPICE_SWITCHES", fmt::format("leaf{}", leaf).c_str(), 1);
    }
    if (plan.hosts != nullptr) {
        ::setenv("COPPICE_UCX_NET_DEVICES", plan.hosts->interface_name(place.host).c_str(), 1);
    } else {
        const std::string& device = plan.options.devices[place.host];
        ::setenv("COPPICE_VERBS_DEVICE", device.c_str(), 1);
        ::setenv("COPPICE_UCX_NET_DEVICES", (device + ":1").c_str(), 1);  // its first port
    }
}

struct Child {
    std::uint32_t rank = 0;
    int core = Cores::kAny;
    std::optional<std::uint32_t> incarnation{};  // of one that is started late
};

// In the child: becomes the rank. Returns only as a failure. `gate`: closed when it may; −1: at once.
ChildFailure become_rank(const StartPlan& plan, const Child& child, pid_t launcher, int gate, int output, int errors) {
    const std::uint32_t rank = child.rank;
    pin(child.core);
    set_environment(plan, rank, child.incarnation);
    ::setrlimit(RLIMIT_NOFILE, &plan.descriptors);
    ::fcntl(plan.all_happened, F_SETFD, 0);  // stays open in the program
    if (rank != 0) {
        const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
    }
    if (output >= 0) ::dup2(output, STDOUT_FILENO);
    if (errors >= 0) ::dup2(errors, STDERR_FILENO);
    if (plan.hosts != nullptr) {
        if (const int reason = plan.hosts->join(rank); reason != 0) {
            return {ChildFailure::Step::join_host, rank, reason};
        }
    }
    // Asked for last: a change of credentials would take it away again.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != launcher) ::_exit(1);
    char byte = 0;
    while (gate >= 0 && ::read(gate, &byte, 1) < 0 && errno == EINTR) {
    }
    if (!plan.signals.sigpipe_ignored) ::signal(SIGPIPE, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &plan.signals.mask, nullptr);
    std::vector<char*> arguments;
    for (const auto& argument : plan.options.command)
        arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    return {ChildFailure::Step::run, rank, errno};
}

StartError describe(const ChildFailure& failure, const std::string& program) {
    if (failure.step == ChildFailure::Step::join_host) {
        return {1, fmt::format("rank {} cannot join its simulated host: {}", failure.rank, strerror(failure.reason))};
    }
    if (failure.reason == ENOENT) {
        const bool has_path = program.find('/') != std::string::npos;
        return {127,
                fmt::format("cannot run '{}': {}", program,
                            has_path ? "no such file (or its interpreter or loader is missing)"
                                     : "no such program in PATH (a program of this directory is ./" + program + ")")};
    }
    return {126, fmt::format("cannot run '{}': {}", program, strerror(failure.reason))};
}

StartError out_of(const StartPlan& plan, std::uint32_t rank, const char* what, const char* remedy) {
    return {1, fmt::format("only {} of {} ranks could be started: {}: {} ({})", rank, plan.options.ranks, what,
                           strerror(errno), remedy)};
}

}  // namespace

tl::expected<std::vector<RankStart>, StartError> start_ranks(const StartPlan& plan) {
    const pid_t launcher = ::getpid();
    Pipe gate;    // closed by the launcher when all exist
    Pipe report;  // closed by every execve
    if (!gate.open() || !report.open()) return tl::unexpected(out_of(plan, 0, "pipe", "see `ulimit -n`"));
    std::vector<RankStart> ranks;
    for (std::uint32_t rank = 0; rank < plan.options.ranks; ++rank) {
        Pipe output;
        Pipe errors;
        if (plan.options.tag_output && (!output.open() || !errors.open())) {
            return tl::unexpected(out_of(plan, rank, "pipe", "see `ulimit -n`"));
        }
        const pid_t pid = ::fork();
        if (pid < 0) return tl::unexpected(out_of(plan, rank, "fork", "see `ulimit -u` and the memory that is free"));
        if (pid == 0) {
            gate.close_write();
            const auto failure =
                become_rank(plan, {rank, plan.core_of(rank)}, launcher, gate.read, output.write, errors.write);
            [[maybe_unused]] const auto told = ::write(report.write, &failure, sizeof failure);
            ::_exit(127);
        }
        output.close_write();
        errors.close_write();
        ranks.push_back({pid, output.read, errors.read});
        plan.started(rank, pid);
    }
    plan.before_release();
    gate.close_read();
    gate.close_write();
    report.close_write();
    ChildFailure failure;
    const auto got = ::read(report.read, &failure, sizeof failure);
    report.close_read();
    if (got == static_cast<ssize_t>(sizeof failure)) {
        return tl::unexpected(describe(failure, plan.options.command.front()));
    }
    return ranks;
}

void become_late(const StartPlan& plan, pid_t launcher, const Starter::Wish& wish, const Starter::Pipes& pipes) {
    const auto [output, errors, report] = pipes;
    const bool has_pipes = plan.options.tag_output;
    const auto failure = become_rank(plan, {wish.number, wish.core, wish.incarnation}, launcher, -1,
                                     has_pipes ? output : -1, has_pipes ? errors : -1);
    [[maybe_unused]] const auto told = ::write(report, &failure, sizeof failure);
}

tl::expected<RankStart, StartError> start_late(const StartPlan& plan, const Starter::Wish& wish) {
    const auto failed = [&](const char* what) {
        return tl::unexpected(StartError{1, fmt::format("cannot start rank {} late: {}: {} (see `ulimit -n` and -u)",
                                                        wish.number, what, strerror(errno))});
    };
    Pipe report;  // closed by execve
    Pipe output;
    Pipe errors;
    if (!report.open() || (plan.options.tag_output && (!output.open() || !errors.open()))) return failed("pipe");
    const pid_t launcher = ::getpid();
    const Starter::Pipes pipes{output.write, errors.write, report.write};
    const pid_t pid = plan.starter != nullptr ? plan.starter->start(wish, pipes) : ::fork();
    if (pid < 0) return failed("fork");
    if (pid == 0) {
        become_late(plan, launcher, wish, pipes);
        ::_exit(127);
    }
    for (Pipe* const pipe : {&output, &errors, &report})
        pipe->close_write();
    ChildFailure failure;
    const auto got = ::read(report.read, &failure, sizeof failure);
    report.close_read();
    if (got == static_cast<ssize_t>(sizeof failure)) {
        output.close_read();
        errors.close_read();
        return tl::unexpected(describe(failure, plan.options.command.front()));
    }
    return RankStart{pid, output.read, errors.read};
}

}  // namespace coppice::run
