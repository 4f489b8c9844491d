// One rank of the chaos soak (chaos.sh): a program that uses everything that coppice.h offers, in an order that is
// drawn from a seed, and looks at everything that it is given.
//
// All ranks are given the same options but for --die. What they have to do alike follows from the seed; pauses, the
// order in which requests are waited for, and how long views are held from the seed and the rank. Each rank writes
// DIRECTORY/log-RANK, a line for whatever has ended (chaos_team.hpp says which), and
//   p PID                 it has begun
//   k MICROSECONDS        it will be killed, by its own timer
//   x KIND TEXT           something is wrong: lost, corrupt, diverged, hung or leaked
//   f                     it was taken for dead, where the job allows that
//   c TEXT                no group could be made, where the job allows that
//   q TEAM TEXT           it has no quorum
//   e                     it has come to its end, and all was well
// With --grows (chaos_grower.hpp) the log of those that are started again is DIRECTORY/log-RANK.INCARNATION, and there are also
//   w MICROSECONDS TEXT   no group has taken it in, and why
//   o                     it has left as it wanted to, and all was well
//   z MICROSECONDS        it leaves the last group, as all members do
// Exit code 0, or 1 after an x.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "chaos_exchange.hpp"
#include "chaos_grower.hpp"
#include "chaos_player.hpp"

namespace {

using namespace chaos;

std::uint32_t from_environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? 0 : static_cast<std::uint32_t>(std::strtoul(value, nullptr, 10));
}

std::uint64_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::uint64_t>(std::distance(begin(all), end(all)));
}

// What may be open beyond what there was when the process began: the launcher's session, and what the C library keeps.
constexpr std::uint64_t kLasts = 8;

// `play` is given the context, and whatever moves it is there.
template <class Play>
void with_context(const Options& options, Play&& play) {
    coppice_context_options_t wanted = COPPICE_CONTEXT_OPTIONS_INIT;
    if (options.multiple || options.threads > 0 || options.poller) wanted.thread_mode = COPPICE_THREAD_MULTIPLE;
    coppice_context_t* context = nullptr;
    coppice_status_t status = coppice_context_create(&wanted, &context);
    if (status != COPPICE_OK) wrong("lost", describe("context", status));
    std::atomic<bool> over{false};
    std::thread poller;
    if (options.poller) {
        poller = std::thread([&] {
            while (!over.load()) {
                coppice_progress(context);
                ::usleep(200);
            }
        });
    }
    play(context);
    over = true;
    if (poller.joinable()) poller.join();
    status = coppice_context_destroy(context);
    if (status != COPPICE_OK) wrong("lost", describe("leaving the context", status));
}

void live(const Options& options, std::uint64_t life, std::uint32_t self, std::uint32_t size) {
    with_context(options, [&](coppice_context_t* context) {
        std::vector<std::thread> threads;
        for (std::uint64_t thread = 1; thread <= options.threads; ++thread)
            threads.emplace_back([&, thread] { Player(options, life, thread, self, size).play(context); });
        Player(options, life, 0, self, size).play(context);
        for (std::thread& thread : threads)
            thread.join();
    });
}

void grow(const Options& options, std::uint32_t self, std::uint32_t incarnation, bool is_late) {
    const std::uint64_t before = open_descriptors();
    bool is_there = false;
    with_context(options, [&](coppice_context_t* context) {
        is_there = Grower(options, process_of(self, incarnation), is_late).play(context);
    });
    const std::uint64_t now = open_descriptors();
    if (now > before + kLasts) wrong("leaked", fmt::format("{} descriptors, {} at first", now, before));
    log_line(is_there ? "e" : "o");
}

// "NAME:WHAT", of those the one with this name.
std::string of_this(const std::vector<std::string>& all, const std::string& name) {
    for (const std::string& one : all)
        if (one.starts_with(name + ":")) return one.substr(name.size() + 1);
    return "";
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("One rank of the chaos soak; chaos.sh starts it.", "chaos_rank");
    app.add_option("--directory", options.directory, "of logs and exchanges")->required();
    app.add_option("--seed", options.seed, "of everything that is drawn");
    app.add_option("--steps", options.steps, "of a life's main thread");
    app.add_option("--lives", options.lives, "contexts, one after the other");
    app.add_option("--threads", options.threads, "beside the main one, with groups of their own");
    app.add_option("--patience", options.patience, "seconds after which a call counts as hung");
    app.add_option("--large", options.large, "bytes of the largest payloads, of which many go in chunks then");
    app.add_option("--eager", options.eager, "bytes of the largest payload that goes whole");
    app.add_option("--payload-window", options.payload_window,
                   "bytes of the payloads that may be under way in a group");
    app.add_flag("--multiple", options.multiple, "COPPICE_THREAD_MULTIPLE in any case");
    app.add_flag("--polls", options.polls, "there is no progress thread: poll while staying away");
    app.add_flag("--poller", options.poller, "there is no progress thread: a thread of this program polls");
    app.add_flag("--no-create", options.no_create, "no groups but the first one and what is shrunk from it");
    app.add_flag("--may-be-fenced", options.may_be_fenced, "a rank may be taken for dead");
    app.add_flag("--may-not-create", options.may_not_create, "a transport may find its network without a carrier");
    app.add_flag("--may-miss", options.may_miss, "the correction promises nothing after a death");
    std::vector<std::string> deaths;
    app.add_option("--die", deaths,
                   "RANK:LIFE:STEP:MICROSECONDS: it is killed so long after that step has begun; with --grows "
                   "RANK.INCARNATION:POINT:COUNT:MICROSECONDS, the points being create, step and renew");
    app.add_flag("--grows", options.grows, "one group that is renewed");
    app.add_option("--most", options.most, "members that it may have");
    app.add_option("--expect", options.expect, "members that it has at the end");
    std::vector<std::string> leaves;
    app.add_option("--leave", leaves, "RANK.INCARNATION:STEP: it wants to leave in that step of its own");
    CLI11_PARSE(app, argc, argv);

    const std::uint32_t self = from_environment("COPPICE_RANK"), size = from_environment("COPPICE_SIZE");
    const char* const late = std::getenv("COPPICE_INCARNATION");
    const std::uint32_t incarnation = from_environment("COPPICE_INCARNATION");
    const std::string name = options.grows ? fmt::format("{}.{}", self, incarnation) : std::to_string(self);
    options.die = of_this(deaths, name);
    options.leave = std::strtoull(of_this(leaves, name).c_str(), nullptr, 10);
    open_log(fmt::format("{}/log-{}", options.directory, name));
    log_line(fmt::format("p {}", ::getpid()));
    if (options.grows) {
        grow(options, self, incarnation, late != nullptr);
        return 0;
    }
    FileExchange::announce(options.directory, self);
    std::uint64_t descriptors = 0;
    for (std::uint64_t life = 0; life < options.lives; ++life) {
        live(options, life, self, size);
        // The first life opens what lasts for the process's own.
        const std::uint64_t now = open_descriptors();
        if (life > 0 && now > descriptors) wrong("leaked", fmt::format("{} descriptors, {} before", now, descriptors));
        descriptors = now;
    }
    log_line("e");
    return 0;
}
