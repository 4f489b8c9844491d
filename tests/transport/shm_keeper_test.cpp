// The process that keeps a dead process's memory: what it keeps, what it does not, and that it goes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bootstrap/process_tree.hpp"
#include "support/processes.hpp"
#include "transport/shm/keeper.hpp"
#include "transport/shm/obituary.hpp"

namespace coppice::testing {

namespace {

using transport::shm::give_up_rights;
using transport::shm::hold;
using transport::shm::keep_memory;
using transport::shm::let_go;
using transport::shm::Obituary;

constexpr std::size_t kLarge = std::size_t{32} << 20;

std::string name_of(pid_t pid) {
    std::string name;
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
    return name;
}

// The keepers of that process. They take their name a moment after they have been started.
std::vector<pid_t> keepers_of(pid_t pid) {
    std::vector<pid_t> found = bootstrap::descendants_of(pid);
    std::erase_if(found, [](pid_t one) { return name_of(one) != "coppice-keep"; });
    return found;
}

std::size_t resident_bytes(pid_t pid) {
    std::size_t size = 0;
    std::size_t resident = 0;
    std::ifstream("/proc/" + std::to_string(pid) + "/statm") >> size >> resident;
    return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

char state_of(pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("State:")) return line[line.find_first_not_of(" \t", 6)];
    return '-';
}

bool has_ended(pid_t pid) {
    const char state = state_of(pid);
    return state == '-' || state == 'Z' || state == 'X';
}

bool has_files(pid_t pid) {
    std::error_code unreadable;
    const std::filesystem::directory_iterator files("/proc/" + std::to_string(pid) + "/fd", unreadable);
    return unreadable || files != std::filesystem::directory_iterator();
}

// Waits for the keeper of this process, which has to be the only one.
pid_t own_keeper() {
    COPPICE_CHECK(becomes([] { return keepers_of(getpid()).size() == 1; }));
    return keepers_of(getpid()).front();
}

class Keeper : public ::testing::Test {
  protected:
    void in_a_child(const std::function<void()>& body) {
        const Ending ending = processes_.wait(processes_.start([&] {
            body();
            return 0;
        }));
        EXPECT_TRUE(ending.well()) << ending.text();
    }

    // What children tell.
    struct Told {
        std::atomic<pid_t> keeper{0};
    };
    Told& told() { return *static_cast<Told*>(shared_.get()); }
    static void wait_for_a_signal() {
        while (true)
            pause();
    }
    // A process with `kLarge` bytes and a keeper, which it tells when all is ready. Then it does `then`.
    std::size_t start_large(const std::function<void()>& then = wait_for_a_signal) {
        return processes_.start([&, then] {
            static Obituary obituary;
            COPPICE_CHECK(hold(obituary).has_value());
            keep_memory();
            const std::vector<char> large(kLarge, 'x');
            const pid_t keeper = own_keeper();
            COPPICE_CHECK(becomes([keeper] { return !has_files(keeper); }));
            told().keeper.store(keeper);
            then();
            return large.back() == 'x' ? 0 : 1;
        });
    }
    pid_t await_keeper() {
        EXPECT_TRUE(becomes([this] { return told().keeper.load() != 0; }));
        return told().keeper.load();
    }

    SharedMemory shared_{sizeof(Told)};
    Processes processes_;
};

}  // namespace

TEST_F(Keeper, HasTheMemoryOfADeadProcessAndNothingElseOfIt) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const std::size_t child = start_large();
    close(ends[1]);
    const pid_t keeper = await_keeper();
    // It would be gone soon; this holds it up.
    kill(keeper, SIGSTOP);
    ASSERT_TRUE(becomes([keeper] { return state_of(keeper) == 'T'; }));
    processes_.signal(child, SIGKILL);
    EXPECT_TRUE(processes_.wait(child).killed_by(SIGKILL));
    pollfd end{.fd = ends[0], .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&end, 1, static_cast<int>(kDeadlineNs / 1'000'000)), 1);
    EXPECT_NE(end.revents & POLLHUP, 0) << "what the dead process had open is open";
    EXPECT_GE(resident_bytes(keeper), kLarge);
    kill(keeper, SIGCONT);
    EXPECT_TRUE(becomes([keeper] { return has_ended(keeper); }));
    close(ends[0]);
}

TEST_F(Keeper, IsNoChildThatAProgramWaitsFor) {
    in_a_child([] {
        Obituary obituary;
        COPPICE_CHECK(hold(obituary).has_value());
        COPPICE_CHECK(keepers_of(getpid()).empty());
        keep_memory();
        keep_memory();
        const pid_t keeper = own_keeper();
        COPPICE_CHECK(waitpid(-1, nullptr, 0) == -1 && errno == ECHILD);
        let_go(obituary);
        COPPICE_CHECK(kill(keeper, 0) == -1 && errno == ESRCH);
    });
}

TEST_F(Keeper, ComesAndGoesWithTheFirstAndTheLastObituary) {
    in_a_child([] {
        Obituary obituaries[2];
        for (int round = 0; round < 3; ++round) {
            for (Obituary& obituary : obituaries) {
                COPPICE_CHECK(hold(obituary).has_value());
                keep_memory();
            }
            const pid_t keeper = own_keeper();
            let_go(obituaries[1]);
            COPPICE_CHECK(own_keeper() == keeper);
            let_go(obituaries[0]);
            COPPICE_CHECK(keepers_of(getpid()).empty());
        }
    });
}

TEST_F(Keeper, GoesWhenTheProcessBecomesAnotherProgram) {
    start_large([] { execl("/bin/sleep", "sleep", "1000", nullptr); });
    const pid_t keeper = await_keeper();
    EXPECT_TRUE(becomes([keeper] { return has_ended(keeper); }));
}

TEST_F(Keeper, GoesWhenTheProcessEndsWithoutAWord) {
    const std::size_t child = start_large([] { _exit(7); });
    const pid_t keeper = await_keeper();
    EXPECT_EQ(processes_.wait(child).text(), "exit code 7");
    EXPECT_TRUE(becomes([keeper] { return has_ended(keeper); }));
}

TEST_F(Keeper, OfAParentIsNoneOfAForkedChild) {
    in_a_child([] {
        Obituary obituary;
        COPPICE_CHECK(hold(obituary).has_value());
        keep_memory();
        const pid_t keeper = own_keeper();
        Processes forked;
        const std::size_t child = forked.start([&] {
            let_go(obituary);
            Obituary own;
            COPPICE_CHECK(hold(own).has_value());
            COPPICE_CHECK(keepers_of(getpid()).empty());
            keep_memory();
            COPPICE_CHECK(own_keeper() != keeper);
            let_go(own);
            return 0;
        });
        COPPICE_CHECK(forked.wait(child).well());
        COPPICE_CHECK(own_keeper() == keeper);
        let_go(obituary);
    });
}

// Only root can give up its user: the keeper of another one is its own anyway.
TEST_F(Keeper, GoesWithAProcessThatHasBecomeAnotherUser) {
    in_a_child([] {
        Obituary obituary;
        COPPICE_CHECK(hold(obituary).has_value());
        keep_memory();
        const pid_t keeper = own_keeper();
        COPPICE_CHECK(geteuid() != 0 || setuid(65534) == 0);
        let_go(obituary);
        COPPICE_CHECK(state_of(keeper) == '-');
    });
}

TEST_F(Keeper, MayDoNothingButSleepAndEnd) {
    const std::size_t child = processes_.start([]() -> int {
        if (!give_up_rights()) return 1;
        constexpr timespec kMoment{.tv_sec = 0, .tv_nsec = 1000};
        const auto refused = [](long result) { return result == -1 && errno == EPERM; };
        long code = 0;
        if (syscall(SYS_nanosleep, &kMoment, nullptr) != 0) code = 2;
        if (!refused(syscall(SYS_getpid))) code = 3;
        if (!refused(syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY))) code = 4;
        if (!refused(syscall(SYS_kill, 0, 0))) code = 5;
        if (!refused(syscall(SYS_setpriority, PRIO_PROCESS, 1, 19))) code = 6;
        if (!refused(syscall(SYS_setpriority, PRIO_USER, 0, 19))) code = 7;
        if (!refused(syscall(SYS_setpriority, PRIO_PROCESS, 0, 0))) code = 8;
        if (syscall(SYS_setpriority, PRIO_PROCESS, 0, 19) != 0) code = 9;
        if (!refused(syscall(SYS_exit_group, 0))) code = 10;
        while (true)
            syscall(SYS_exit, code);
    });
    EXPECT_EQ(processes_.wait(child).text(), "exit code 0");
}

TEST_F(Keeper, GoesOnWhenItWasStopped) {
    const std::size_t child = start_large();
    const pid_t keeper = await_keeper();
    for (int round = 0; round < 3; ++round) {
        kill(keeper, SIGSTOP);
        ASSERT_TRUE(becomes([keeper] { return state_of(keeper) == 'T'; }));
        kill(keeper, SIGCONT);
        ASSERT_TRUE(becomes([keeper] { return state_of(keeper) == 'S'; }));
    }
    processes_.signal(child, SIGKILL);
    EXPECT_TRUE(becomes([keeper] { return has_ended(keeper); }));
}

TEST_F(Keeper, IsDoneWithoutWhereThereIsNoRightToAnotherProcess) {
    in_a_child([] {
        Obituary obituary;
        COPPICE_CHECK(hold(obituary).has_value());
        const rlimit none{1, 1};
        COPPICE_CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);
        COPPICE_CHECK(geteuid() != 0 || setuid(65534) == 0);  // to which the limit does not apply
        keep_memory();
        COPPICE_CHECK(bootstrap::descendants_of(getpid()).empty());
        let_go(obituary);
        _exit(0);  // a sanitizer that looks for leaks at the end needs the right that this process has given up
    });
}

}  // namespace coppice::testing
