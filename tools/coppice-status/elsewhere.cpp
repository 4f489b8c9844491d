#include "elsewhere.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <set>

#include "base/clock.hpp"
#include "base/host.hpp"
#include "dump.hpp"

extern char** environ;

namespace coppice::show {
namespace {

using status::Trouble;

constexpr std::size_t kMostAtOnce = 64;  // hosts that are asked at the same time

// A command that runs, and what it has said so far.
struct Question {
    std::string host;
    pid_t process = -1;
    int output = -1;
    std::string said{};
    std::string trouble{};
};

std::string own_path() {
    std::array<char, 4096> path{};
    const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
    return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : "coppice-status";
}

void ask(const std::string& reach, Question& question) {
    std::array<int, 2> pipe{-1, -1};
    if (pipe2(pipe.data(), O_CLOEXEC) != 0) {
        question.trouble = std::strerror(errno);
        return;
    }
    const std::string command = reach + R"( "$0" "$1" --dump)";
    const std::string tool = own_path();
    std::array<const char*, 6> words{"sh", "-c", command.c_str(), question.host.c_str(), tool.c_str(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipe[1], 1);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // so that it can be ended with all that it starts
    const int error =
        posix_spawn(&question.process, "/bin/sh", &actions, &attributes, const_cast<char**>(words.data()), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe[1]);
    question.output = pipe[0];
    if (error == 0) return;
    question.process = -1;
    question.trouble = std::strerror(error);
}

void listen(std::vector<Question>& questions, std::uint64_t deadline_ns) {
    constexpr std::uint64_t kMillisecond = 1'000'000;
    for (;;) {
        std::vector<pollfd> open;
        std::vector<Question*> who;
        for (Question& question : questions) {
            if (question.output < 0 || question.process < 0) continue;
            open.push_back({question.output, POLLIN, 0});
            who.push_back(&question);
        }
        const std::uint64_t now = now_ns();
        if (open.empty() || now >= deadline_ns) return;
        poll(open.data(), open.size(), static_cast<int>((deadline_ns - now) / kMillisecond) + 1);
        for (std::size_t i = 0; i < open.size(); ++i) {
            if (open[i].revents == 0) continue;
            std::array<char, 65536> bytes{};
            const ssize_t got = read(who[i]->output, bytes.data(), bytes.size());
            if (got < 0 && errno == EINTR) continue;
            if (got > 0) {
                who[i]->said.append(bytes.data(), static_cast<std::size_t>(got));
                continue;
            }
            close(who[i]->output);
            who[i]->output = -1;
        }
    }
}

void end(Question& question, std::chrono::milliseconds patience) {
    const bool is_late = question.output >= 0 && question.process >= 0;
    if (question.output >= 0) close(question.output);
    if (question.process < 0) return;
    if (is_late) kill(-question.process, SIGKILL);
    int result = 0;
    while (waitpid(question.process, &result, 0) < 0 && errno == EINTR) {
    }
    if (is_late) {
        question.trouble = fmt::format("no answer within {} s", static_cast<double>(patience.count()) / 1000.0);
    } else if (WIFEXITED(result) && WEXITSTATUS(result) == 127) {
        question.trouble = "the command that is to reach it, or coppice-status there, is not found";
    } else if (question.said.empty()) {
        question.trouble = fmt::format("the command that is to reach it ended with {} and said nothing",
                                       WIFEXITED(result) ? WEXITSTATUS(result) : 128 + WTERMSIG(result));
    }
}

void ask_all(const Elsewhere& elsewhere, std::vector<std::string> hosts, Everything& all) {
    while (!hosts.empty()) {
        std::vector<Question> questions;
        while (!hosts.empty() && questions.size() < kMostAtOnce) {
            questions.push_back({.host = hosts.back()});
            hosts.pop_back();
        }
        for (Question& question : questions)
            ask(elsewhere.reach, question);
        listen(questions, now_ns() + static_cast<std::uint64_t>(elsewhere.patience.count()) * 1'000'000);
        for (Question& question : questions) {
            end(question, elsewhere.patience);
            if (question.trouble.empty() && !take_dump(question.said, question.host, all)) {
                question.trouble = "what answers there is no coppice-status of this version";
            }
            if (question.trouble.empty()) continue;
            Problem& problem = all.problems.emplace_back();
            problem.error = {Trouble::unreached, std::move(question.trouble)};
            problem.host = question.host;
        }
    }
}

}  // namespace

void add_others(const Elsewhere& elsewhere, Everything& all) {
    std::set<std::string> asked{host_name()};
    std::vector<std::string> next(elsewhere.hosts);
    do {
        for (const Seen& seen : all.pages)
            next.insert(next.end(), seen.page.hosts.begin(), seen.page.hosts.end());
        std::erase_if(next, [&](const std::string& host) { return !asked.insert(host).second; });
        ask_all(elsewhere, std::exchange(next, {}), all);
        next.clear();
        for (const Seen& seen : all.pages)
            for (const std::string& host : seen.page.hosts)
                if (!asked.contains(host)) next.push_back(host);
    } while (!next.empty());
    sort_pages(all);
}

}  // namespace coppice::show
