// One rank of the chaos soak (chaos.sh): a program that uses everything that coppice.h offers, in an order that is
// drawn from a seed, and looks at everything that it is given.
//
// All ranks are given the same options but for --die. What they have to do alike follows from the seed; pauses, the
// order in which requests are waited for, and how long views are held from the seed and the rank. Each rank writes
// DIRECTORY/log-RANK, a line for whatever has ended (chaos_team.hpp says which), and
//   k MICROSECONDS        it will be killed, by its own timer
//   x KIND TEXT           something is wrong: lost, corrupt, diverged, hung or leaked
//   f                     it was taken for dead, where the job allows that
//   c TEXT                no group could be made, where the job allows that
//   e                     it has come to its end, and all was well
// Exit code 0, or 1 after an x.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "chaos_exchange.hpp"
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

void live(const Options& options, std::uint64_t life, std::uint32_t self, std::uint32_t size) {
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
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 1; thread <= options.threads; ++thread)
        threads.emplace_back([&, thread] { Player(options, life, thread, self, size).play(context); });
    Player(options, life, 0, self, size).play(context);
    for (std::thread& thread : threads)
        thread.join();
    over = true;
    if (poller.joinable()) poller.join();
    status = coppice_context_destroy(context);
    if (status != COPPICE_OK) wrong("lost", describe("leaving the context", status));
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
    app.add_flag("--multiple", options.multiple, "COPPICE_THREAD_MULTIPLE in any case");
    app.add_flag("--polls", options.polls, "there is no progress thread: poll while staying away");
    app.add_flag("--poller", options.poller, "there is no progress thread: a thread of this program polls");
    app.add_flag("--no-create", options.no_create, "no groups but the first one and what is shrunk from it");
    app.add_flag("--may-be-fenced", options.may_be_fenced, "a rank may be taken for dead");
    app.add_flag("--may-not-create", options.may_not_create, "a transport may find its network without a carrier");
    app.add_flag("--may-miss", options.may_miss, "the correction promises nothing after a death");
    std::vector<std::string> deaths;
    app.add_option("--die", deaths, "RANK:LIFE:STEP:MICROSECONDS: it is killed so long after that step has begun");
    CLI11_PARSE(app, argc, argv);

    const std::uint32_t self = from_environment("COPPICE_RANK"), size = from_environment("COPPICE_SIZE");
    for (const std::string& death : deaths) {
        const std::size_t colon = death.find(':');
        if (death.substr(0, colon) == std::to_string(self)) options.die = death.substr(colon + 1);
    }
    open_log(fmt::format("{}/log-{}", options.directory, self));
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
