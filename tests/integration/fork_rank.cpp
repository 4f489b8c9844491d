// A rank of a program that starts other processes, under coppice-run.
//
//   fork_rank HOW        every rank verifies broadcasts and agreements before, meanwhile, and afterwards
//
//   exit, _exit, return   ranks 0 and 1 fork a child that looks at what it has open, makes every call, and ends in that way
//   runs-on               the same; the child goes on making calls until its parent is through
//   spawn, vfork, system  they execute this program again, which looks at what it was given
//   orphan, daemon, left  the last rank leaves a process behind (forked; by daemon(3); executed) and dies; the launcher
//                         ends that process
//
// Context and group are static objects, so a process that ends by exit() destroys them.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "coppice/coppice.hpp"

extern char** environ;

namespace {

using namespace std::chrono_literals;

// Where everything is emulated it takes longer.
const auto kPatience = [] {
    const char* const patience = std::getenv("COPPICE_TEST_PATIENCE");
    return 60s * (patience == nullptr ? 1 : std::atoi(patience));
}();
constexpr unsigned kOrphanSeconds = 120;

#define CHECK(condition)                                                                         \
    do {                                                                                         \
        if (!(condition))                                                                        \
            throw std::runtime_error("line " + std::to_string(__LINE__) + ": " #condition " (" + \
                                     std::string(coppice_last_error()) + ")");                   \
    } while (false)

// What a program's author writes. They end in the order in which they should, wherever exit() is called.
coppice::Context context;
coppice::Group group;
coppice_request_t* request = nullptr;  // under way all the time
coppice_group_t* shrunk = nullptr;

std::set<int> inherited;  // the descriptors that were open before the library was called

std::set<int> open_descriptors() {
    std::set<int> numbers;
    DIR* const directory = opendir("/proc/self/fd");
    while (const dirent* entry = readdir(directory))
        if (entry->d_name[0] != '.' && std::atoi(entry->d_name) != dirfd(directory))
            numbers.insert(std::atoi(entry->d_name));
    closedir(directory);
    return numbers;
}

// Says what is open besides those.
bool has_only(const std::set<int>& allowed, const char* who) {
    bool only = true;
    for (const int descriptor : open_descriptors()) {
        if (allowed.contains(descriptor)) continue;
        char target[256] = {};
        const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
        if (readlink(link.c_str(), target, sizeof target - 1) < 0) continue;
        std::fprintf(stderr, "%s has descriptor %d: %s\n", who, descriptor, target);
        only = false;
    }
    return only;
}

void check_refused(coppice_status_t status) {
    CHECK(status == COPPICE_ERR_FORKED);
    CHECK(std::strstr(coppice_last_error(), "forked from process") != nullptr);
}

// Each call of coppice.h that takes or makes an object.
void make_every_call() {
    coppice_context_t* new_context = nullptr;
    coppice_group_t* new_group = nullptr;
    coppice_request_t* new_request = nullptr;
    coppice_group_info_t info{};
    coppice_group_counts_t counts{};
    info.struct_size = sizeof info;
    counts.struct_size = sizeof counts;
    char bytes[8] = {};
    const void* payload = nullptr;
    std::size_t size = 0;
    coppice_group_t* const mine = group.native();
    constexpr std::uint64_t kSoon = 1'000'000'000;
    check_refused(coppice_context_create(nullptr, &new_context));
    check_refused(coppice_progress(context.native()));
    check_refused(coppice_group_create(context.native(), nullptr, &new_group));
    check_refused(coppice_group_query(mine, &info));
    check_refused(coppice_group_count(mine, &counts));
    check_refused(coppice_group_failed(mine, nullptr, 0, &size));
    check_refused(coppice_broadcast(mine, bytes, sizeof bytes, 0, nullptr, kSoon));
    check_refused(coppice_broadcast_nb(mine, bytes, sizeof bytes, 0, &new_request));
    check_refused(coppice_broadcast_view_nb(mine, bytes, sizeof bytes, 0, &new_request));
    check_refused(coppice_request_test(request, nullptr));
    check_refused(coppice_request_wait(request, nullptr, kSoon));
    check_refused(coppice_request_view(request, &payload, &size));
    check_refused(coppice_request_agreed(request, nullptr, 0, &size));
    check_refused(coppice_request_free(request));
    check_refused(coppice_memory_register(mine, bytes, sizeof bytes));
    check_refused(coppice_memory_deregister(mine, bytes));
    void* memory = nullptr;
    check_refused(coppice_memory_allocate(mine, sizeof bytes, &memory));
    check_refused(coppice_memory_free(mine, bytes));
    CHECK(memory == nullptr);
    check_refused(coppice_agree(mine, bytes, sizeof bytes, nullptr, kSoon));
    check_refused(coppice_agree_nb(mine, bytes, sizeof bytes, nullptr, &new_request));
    check_refused(coppice_group_agreed(mine, nullptr, 0, &size));
    check_refused(coppice_group_ack_failed(mine, nullptr, 0));
    check_refused(coppice_barrier(mine, kSoon));
    check_refused(coppice_barrier_nb(mine, &new_request));
    int pending = 0;
    coppice_view_t view{};
    view.struct_size = sizeof view;
    char ticket[COPPICE_TICKET_BYTES] = {};
    std::size_t room = sizeof ticket;
    check_refused(coppice_group_renew(mine, nullptr, &shrunk, kSoon));
    check_refused(coppice_group_renew_nb(mine, nullptr, &shrunk, &new_request));
    check_refused(coppice_group_leave(mine));
    check_refused(coppice_group_pending(mine, &pending));
    check_refused(coppice_group_view(mine, &view, nullptr, 0));
    check_refused(coppice_group_invite(mine, 1, kSoon, ticket, &room));
    check_refused(coppice_group_join(context.native(), ticket, sizeof ticket, nullptr, &new_group, kSoon));
    check_refused(coppice_group_revoke(mine));
    check_refused(coppice_group_shrink(mine, &shrunk, kSoon));
    check_refused(coppice_group_shrink_nb(mine, &shrunk, &new_request));
    check_refused(coppice_group_destroy(mine, kSoon));
    check_refused(coppice_context_destroy(context.native()));
    CHECK(new_context == nullptr && new_group == nullptr && new_request == nullptr && shrunk == nullptr);
}

std::uint32_t rank() {
    return group.info().rank;
}
std::uint32_t ranks() {
    return group.info().size;
}

int round_number = 0;

// Broadcasts from everybody in turn, and an agreement, which all ranks verify.
void work(int rounds, std::uint32_t living) {
    for (int i = 0; i < rounds; ++i) {
        const auto root = static_cast<std::uint32_t>(round_number) % living;
        std::uint64_t value = rank() == root ? 1000 + static_cast<std::uint64_t>(round_number) : 0;
        group.broadcast(std::as_writable_bytes(std::span(&value, 1)), root, kPatience);
        CHECK(value == 1000 + static_cast<std::uint64_t>(round_number));
        ++round_number;
    }
    std::uint64_t bits = ~(std::uint64_t{1} << rank());
    std::uint64_t expected = ~std::uint64_t{0};
    for (std::uint32_t r = 0; r < living; ++r)
        expected &= ~(std::uint64_t{1} << r);
    const coppice_status_t status =
        coppice_agree(group.native(), &bits, sizeof bits, nullptr, std::chrono::nanoseconds(kPatience).count());
    CHECK(status == (living == ranks() ? COPPICE_OK : COPPICE_ERR_PEER_FAILED));
    CHECK((bits | expected) == expected || living != ranks());
    CHECK(living != ranks() || bits == expected);
}

// A large payload, and a caller that comes late: every rank sleeps, on all that it can sleep on.
void work_with_all_it_has() {
    constexpr auto kLate = 200ms;
    std::vector<std::byte> payload(std::size_t{1} << 20);
    for (std::uint32_t root = 0; root < ranks(); ++root)
        group.broadcast(payload, root, kPatience);
    if (rank() == ranks() - 1) usleep(std::chrono::microseconds(kLate).count());
    work(1, ranks());
}

void check_ended_well(pid_t child) {
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// What the child opens has the numbers of what the library had open: its own child keeps that.
void check_that_a_grandchild_keeps_files() {
    constexpr int kFiles = 200;
    std::vector<int> files;
    for (int i = 0; i < kFiles; ++i)
        files.push_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const pid_t grandchild = fork();
    if (grandchild == 0) {
        bool all = true;
        for (const int file : files)
            all = all && fcntl(file, F_GETFD) >= 0;
        _exit(all && coppice_progress(context.native()) == COPPICE_ERR_FORKED ? 0 : 1);
    }
    CHECK(grandchild > 0);
    check_ended_well(grandchild);
    for (const int file : files)
        CHECK(close(file) == 0);
}

// In the forked child; ends it.
[[noreturn]] void be_child(const std::string& how, int until) {
    try {
        std::set<int> allowed = inherited;
        allowed.insert(until);
        CHECK(has_only(allowed, "a forked child"));
        make_every_call();
        check_that_a_grandchild_keeps_files();
        char byte = 0;
        while (how == "runs-on" && read(until, &byte, 1) < 0 && errno == EAGAIN) {
            make_every_call();
            usleep(1000);
        }
        if (how == "return") {
            // As at the end of a main(): what it has on its stack, too.
            const coppice::Group own = std::move(group);
            const coppice::Context owner = std::move(context);
        }
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "child of rank: %s\n", failure.what());
        _exit(1);
    }
    if (how == "_exit") _exit(0);
    std::exit(0);
}

void with_forked_child(const std::string& how) {
    int ends[2] = {-1, -1};
    pid_t child = -1;
    if (rank() < 2) {
        CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
        child = fork();
        if (child == 0) {
            close(ends[1]);
            be_child(how, ends[0]);
        }
        CHECK(child > 0);
        close(ends[0]);
        if (how != "runs-on") check_ended_well(child);
    }
    work(300, ranks());
    if (child > 0 && how == "runs-on") {
        close(ends[1]);
        check_ended_well(child);
        work(0, ranks());
    } else if (how == "runs-on") {
        work(0, ranks());
    }
    work(100, ranks());
}

// Executes this program; its own arguments say which descriptors it may have.
void execute(const std::string& how) {
    std::vector<std::string> words{"/proc/self/exe", "look"};
    for (const int descriptor : inherited)
        words.push_back(std::to_string(descriptor));
    std::vector<char*> arguments;
    for (std::string& word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (how == "system") {
        std::string command = "exec " + std::string("/proc/") + std::to_string(getpid()) + "/exe";
        for (std::size_t i = 1; i < words.size(); ++i)
            command += ' ' + words[i];
        const int status = std::system(command.c_str());
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        return;
    }
    pid_t child = -1;
    if (how == "spawn") {
        CHECK(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ) == 0);
    } else {
        child = vfork();
        if (child == 0) {
            execve("/proc/self/exe", arguments.data(), environ);
            _exit(127);
        }
    }
    CHECK(child > 0);
    check_ended_well(child);
}

int look(std::span<char*> numbers) {
    std::set<int> allowed;
    for (const char* number : numbers)
        allowed.insert(std::atoi(number));
    return has_only(allowed, "an executed program") ? 0 : 1;
}

// The last rank. It ends without having left its group, so to the others it has died.
[[noreturn]] void leave_behind(const std::string& how) {
    if (how == "left") _exit(std::system("sleep 120 >/dev/null 2>&1 </dev/null &") == 0 ? 0 : 1);
    const pid_t child = how == "daemon" ? daemon(1, 1) : fork();
    if (child != 0) _exit(child > 0 ? 0 : 1);
    for (int descriptor = 0; descriptor < 3; ++descriptor)
        close(descriptor);
    alarm(kOrphanSeconds);
    while (true) {
        make_every_call();
        usleep(1000);
    }
}

void without_the_last(const std::string& how) {
    const std::uint32_t last = ranks() - 1;
    if (rank() == last) leave_behind(how);
    while (group.failed().empty())
        context.progress();
    CHECK(group.failed().front() == last);
    work(100, last);
}

}  // namespace

int main(int count, char** arguments) {
    const std::string how = count > 1 ? arguments[1] : "";
    if (how == "look") return look(std::span(arguments + 2, static_cast<std::size_t>(count) - 2));
    try {
        inherited = open_descriptors();
        coppice::ContextOptions options;
        // Others that end before the fork; what they share with these does not end.
        auto early_context = coppice::Context::create(options);
        auto early_group = coppice::Group::create(early_context);
        context = coppice::Context::create(options);
        group = coppice::Group::create(context);
        early_group = {};
        early_context = {};
        CHECK(coppice_agree_nb(group.native(), nullptr, 0, nullptr, &request) == COPPICE_OK);
        work(50, ranks());
        work_with_all_it_has();
        if (how == "orphan" || how == "daemon" || how == "left") {
            without_the_last(how);
        } else if (how == "spawn" || how == "vfork" || how == "system") {
            if (rank() < 2) execute(how);
            work(300, ranks());
        } else {
            with_forked_child(how);
        }
        CHECK(coppice_request_free(request) == COPPICE_OK);
        std::puts("verified");
        return 0;  // static objects end here
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "fork_rank: %s\n", failure.what());
        return 1;
    }
}
