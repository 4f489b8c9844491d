// Real processes for tests of death: forked here, ended by any signal, and never left behind.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace coppice::testing {

// No test waits for a time to pass; each waits for a condition, and gives up after this long. Where everything is
// emulated it takes longer: COPPICE_TEST_PATIENCE=N multiplies.
inline const std::uint64_t kDeadlineNs = [] {
    const char* patience = std::getenv("COPPICE_TEST_PATIENCE");
    return 60'000'000'000 * std::max(patience == nullptr ? 1UL : std::strtoul(patience, nullptr, 10), 1UL);
}();

std::uint64_t now_ns();

// Waits for what another thread of this process, or the kernel, does at some time. False when it has not come in time.
bool becomes(const std::function<bool()>& condition, std::uint64_t within_ns = kDeadlineNs);

// In a child: what did not hold. Children have no GoogleTest; they end with exit code 1 and the text on
// stderr.
struct CheckFailed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

#define COPPICE_CHECK(condition)                                                                           \
    do {                                                                                                   \
        if (!(condition))                                                                                  \
            throw ::coppice::testing::CheckFailed(std::string(__FILE__) + ":" + std::to_string(__LINE__) + \
                                                  ": " #condition);                                        \
    } while (false)

// How a process ended.
struct Ending {
    int status = 0;  // as waitpid() gives it
    bool timed_out = false;
    bool well() const;  // exit code 0
    bool killed_by(int signal) const;
    std::string text() const;
};

// The children of one test. The destructor kills and reaps those that are left.
class Processes {
  public:
    Processes() = default;
    Processes(const Processes&) = delete;
    Processes& operator=(const Processes&) = delete;
    ~Processes();

    // Kills and reaps all that are left, and forgets them.
    void clear();

    // Forks. The child runs `body` and exits with its result (1 when it throws); it dies with its parent.
    std::size_t start(const std::function<int()>& body);

    pid_t pid(std::size_t index) const { return children_[index].pid; }
    void signal(std::size_t index, int number) const;

    // Waits until the child is dead without reaping it: it stays a zombie.
    bool await_zombie(std::size_t index) const;

    // Without reaping.
    bool has_ended(std::size_t index) const;

    // Reaps, once. After the deadline the child is killed and `timed_out` set.
    Ending wait(std::size_t index, std::uint64_t deadline_ns = now_ns() + kDeadlineNs);

  private:
    struct Child {
        pid_t pid = -1;
        bool reaped = false;
    };
    std::vector<Child> children_;
};

// Memory that this process and its children share, zeroed, and gone with the last of them.
class SharedMemory {
  public:
    explicit SharedMemory(std::size_t bytes);
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;
    ~SharedMemory();
    void* get() const { return memory_; }

  private:
    void* memory_ = nullptr;
    std::size_t bytes_ = 0;
};

// Open descriptors and threads of this process, to show that nothing is left over.
std::size_t open_descriptors();
std::size_t threads();

}  // namespace coppice::testing
