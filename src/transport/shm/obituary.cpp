#include "transport/shm/obituary.hpp"

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <mutex>

namespace coppice::transport::shm {

namespace {

// The kernel's view of our list: `next` pointers, and one distance from each entry to its futex word.
static_assert(offsetof(Obituary, next) == 0);
static_assert(sizeof(Obituary::word) == sizeof(std::uint32_t));

constexpr std::size_t kStack = 128 * 1024;  // it sleeps; sanitizers want some room for their own

struct Holder {
    robust_list_head head{};
    pid_t process = -1;  // the process that the holder lives in: a forked child has the memory but not the thread
    pid_t thread = 0;    // 0: not started
    int error = 0;
    std::atomic<bool> answered{false};  // thread and error are valid
    std::atomic<pid_t> undertaker{0};   // a thread; 0: not known yet; −1: there is none
    std::atomic<bool> stands_last{false};
};

// Never destroyed: the kernel reads the list when the process ends, after all destructors.
std::mutex& list_mutex() {
    static std::mutex* const mutex = [] {
        auto* const made = new std::mutex;
        // A fork while another thread holds the mutex would leave it locked in the child for good.
        pthread_atfork([] { list_mutex().lock(); }, [] { list_mutex().unlock(); }, [] { list_mutex().unlock(); });
        return made;
    }();
    return *mutex;
}

Holder& holder() {
    static Holder* const made = new Holder;
    return *made;
}

void* hold_until_death(void* argument) {
    Holder& mine = *static_cast<Holder*>(argument);
    pthread_setname_np(pthread_self(), "coppice-obit");
    const long set = syscall(SYS_set_robust_list, &mine.head, sizeof mine.head);
    mine.error = set == 0 ? 0 : errno;
    mine.thread = set == 0 ? static_cast<pid_t>(syscall(SYS_gettid)) : 0;
    mine.answered.store(true, std::memory_order_release);
    mine.answered.notify_one();
    while (set == 0)
        pause();
    return nullptr;
}

// Waits for the end; see stand_last().
void* take_apart(void* argument) {
    Holder& mine = *static_cast<Holder*>(argument);
    pthread_setname_np(pthread_self(), "coppice-bury");
    mine.undertaker.store(static_cast<pid_t>(syscall(SYS_gettid)), std::memory_order_release);
    while (true)
        pause();
    return nullptr;
}

// The two run code of this library until the process ends, so the library has to stay mapped after a dlclose().
void keep_library_loaded() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&hold_until_death), &info) != 0 && info.dli_fname != nullptr)
        dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

// A thread that takes no signals and has little stack; 0 or an error.
int start_thread(void* (*run)(void*), void* argument) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, std::max<std::size_t>(kStack, static_cast<std::size_t>(PTHREAD_STACK_MIN)));
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const int error = pthread_create(&thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    return error;
}

// With the list mutex held.
int start_holder(Holder& mine) {
    keep_library_loaded();
    mine.thread = 0;
    mine.error = 0;
    mine.answered.store(false);
    mine.undertaker.store(0);
    mine.stands_last.store(false);
    mine.head.list.next = &mine.head.list;
    mine.head.futex_offset = static_cast<long>(offsetof(Obituary, word));
    mine.process = getpid();

    if (const int error = start_thread(hold_until_death, &mine); error != 0) return error;
    if (start_thread(take_apart, &mine) != 0) mine.undertaker.store(-1);

    mine.answered.wait(false, std::memory_order_acquire);
    while (mine.undertaker.load(std::memory_order_acquire) == 0)
        sched_yield();
    return mine.error;
}

}  // namespace

Result<void> hold(Obituary& obituary) {
    const std::scoped_lock lock(list_mutex());
    Holder& mine = holder();
    if (mine.thread == 0 || mine.process != getpid()) {
        if (const int error = start_holder(mine); error != 0)
            return fail(COPPICE_ERR_NO_RESOURCES,
                        "shm: cannot start the thread that tells other ranks of this process's death: {}; "
                        "raise the limit of threads (ulimit -u)",
                        std::strerror(error));
    }
    // The kernel may read the list after any of these stores.
    obituary.next = mine.head.list.next;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    mine.head.list.next = reinterpret_cast<robust_list*>(&obituary);
    obituary.word.store(static_cast<std::uint32_t>(mine.thread), std::memory_order_release);
    return {};
}

void let_go(Obituary& obituary) {
    const std::scoped_lock lock(list_mutex());
    Holder& mine = holder();
    if (mine.process != getpid()) return;  // a forked child: not its obituary
    robust_list* at = &mine.head.list;
    while (at->next != &mine.head.list) {
        if (at->next == reinterpret_cast<robust_list*>(&obituary)) {
            at->next = static_cast<robust_list*>(obituary.next);
            break;
        }
        at = at->next;
    }
    obituary.word.store(0, std::memory_order_release);
}

bool is_held(const Obituary& obituary) {
    const std::uint32_t word = obituary.word.load(std::memory_order_acquire);
    return (word & FUTEX_OWNER_DIED) == 0 && (word & FUTEX_TID_MASK) != 0;
}

void stand_last() {
    constexpr long kWorthItKiB = 64 * 1024;
    Holder& mine = holder();
    if (mine.stands_last.load(std::memory_order_relaxed)) return;
    rusage usage{};
    if (getrusage(RUSAGE_SELF, &usage) != 0 || usage.ru_maxrss < kWorthItKiB) return;
    mine.stands_last.store(true, std::memory_order_relaxed);
    const sched_param lowest{};
    const pid_t undertaker = mine.undertaker.load(std::memory_order_acquire);
    if (undertaker > 0 && mine.process == getpid()) (void)sched_setscheduler(undertaker, SCHED_IDLE, &lowest);
}

}  // namespace coppice::transport::shm
