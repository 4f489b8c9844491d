// What this process may do with Coppice: everything, unless it was forked from a process that used it.
//
// A forked child has copies of its parent's objects and descriptors, but none of its threads: whatever it does with
// them, its parent's peers take for the parent's. So a handler of pthread_atfork(3) marks a child of a process that has
// a context, and closes the library's descriptors in it: otherwise connections would outlive the parent, and its peers
// would not see its death. vfork, posix_spawn, system and popen call no such handlers; their children have the parent's
// memory or none of it, and what they execute gets no descriptors of the library's.
//
// Nothing here allocates, and what a child calls does not lock, so all of it may be used by any thread and in a child
// whose other threads are gone.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>

#include "base/shared_words.hpp"

namespace coppice::process {

namespace detail {
inline constexpr std::uint32_t kForked = 1U << 31;
// 0 in the ordinary case: the one word that each call looks at. kForked, and how many callbacks are running.
extern shared::Counter<std::uint32_t> unusual;
// fork(2) waits for it.
extern std::mutex no_fork;
}  // namespace detail

// False: this process was not forked from one that used Coppice, and no thread of it is within a callback. One load.
inline bool is_unusual() {
    return detail::unusual.value() != 0;
}

// For good, in a child of fork(2) whose parent had a context (a Use) then.
inline bool in_forked_child() {
    return (detail::unusual.value() & detail::kForked) != 0;
}
// The parent of such a child.
pid_t forked_from();

// While one lives this process uses Coppice.
class Use {
  public:
    Use();
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
};

// While one lives its thread is within a callback of the caller's, which may not call the library.
class InCallback {
  public:
    InCallback();
    ~InCallback();
    InCallback(const InCallback&) = delete;
    InCallback& operator=(const InCallback&) = delete;
};
bool in_callback();  // this thread

// A descriptor of the library's: forked children close it from now on, until it is forgotten, which must be before it
// is closed. With kMembers it is an epoll set, whose members they close too. Numbers above a million are left open.
enum class Closes : std::uint8_t { it, kMembers };
void close_in_children(int descriptor, Closes what = Closes::it);
void forget_descriptor(int descriptor);
bool is_own(int descriptor);

// What `open` opens is such a descriptor from its first moment on, also for a child that another thread forks just then.
// Returns what `open` returned, with its errno. `open` neither forks nor calls anything here.
template <class Open>
int open_own(Open&& open, Closes what = Closes::it) {
    const std::scoped_lock lock(detail::no_fork);
    const int descriptor = open();
    if (descriptor >= 0) close_in_children(descriptor, what);
    return descriptor;
}
// Closes one, if it is one. In a forked child it is closed already, and the number may be another file's.
void close_own(int descriptor);

// Calls `tell` for each descriptor that is a member of this process's epoll set `set`. False: that could not be read, or not to
// its end: there is no /proc, or no descriptor to read it with.
bool for_each_member(int set, void (*tell)(void* argument, int member), void* argument);
template <class Tell>
bool for_each_member(int set, Tell tell) {
    return for_each_member(
        set, [](void* argument, int member) { (*static_cast<Tell*>(argument))(member); }, &tell);
}

}  // namespace coppice::process
