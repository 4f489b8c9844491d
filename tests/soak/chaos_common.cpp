#include "chaos_common.hpp"

#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace chaos {

namespace {

int log_file = -1;
std::string log_path;

}  // namespace

void open_log(const std::string& path) {
    log_path = path;
    log_file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log_file >= 0) return;
    std::perror(path.c_str());
    std::exit(2);
}

void log_line(const std::string& line) {
    const std::string text = line + "\n";
    [[maybe_unused]] const auto written = ::write(log_file, text.data(), text.size());
}

std::string describe(const std::string& what, coppice_status_t status) {
    return fmt::format("{}: {}: {}", what, coppice_status_string(status), coppice_last_error());
}

void wrong(const char* kind, const std::string& what) {
    log_line(fmt::format("x {} {}", kind, what));
    // The runner looks at all ranks first: nothing can be seen of a hang once its ranks have gone.
    const std::string looked = log_path.substr(0, log_path.rfind('/')) + "/looked";
    for (int i = 0; i < 600 && std::string_view(kind) == "hung" && ::access(looked.c_str(), F_OK) != 0; ++i)
        ::usleep(100'000);
    ::_exit(1);
}

void leave(const std::string& line) {
    log_line(line);
    ::_exit(0);
}

void die_in(std::uint64_t microseconds) {
    log_line(fmt::format("k {}", microseconds));
    if (microseconds == 0) ::kill(::getpid(), SIGKILL);
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    timer_t timer{};
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(microseconds / 1'000'000);
    when.it_value.tv_nsec = static_cast<long>(microseconds % 1'000'000 * 1000);
    if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || ::timer_settime(timer, 0, &when, nullptr) != 0)
        ::kill(::getpid(), SIGKILL);
}

void stay_away(const Options& options, Draw& own, coppice_context_t* context) {
    const std::uint64_t kind = own.below(20);
    const std::uint64_t milliseconds = kind == 0 ? 1000 : own.below(kind < 6 ? 300 : 20);
    const auto until = Clock::now() + std::chrono::milliseconds(milliseconds);
    while (Clock::now() < until) {
        if (options.polls) coppice_progress(context);
        ::usleep(options.polls ? 200 : 1000);
    }
}

}  // namespace chaos
