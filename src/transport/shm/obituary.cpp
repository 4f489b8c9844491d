#include "transport/shm/obituary.hpp"

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <mutex>

#include "base/shared_words.hpp"
#include "transport/shm/keeper.hpp"

namespace coppice::transport::shm {

namespace {

// The kernel's view of our list: `next` pointers, and one distance from each entry to its futex word.
static_assert(offsetof(Obituary, next) == 0);
static_assert(sizeof(Obituary::word) == sizeof(std::uint32_t));

constexpr std::size_t kStack = 128 * 1024;  // it sleeps; sanitizers want some room for their own

constexpr pid_t kNoKeeper = 0;
constexpr pid_t kKeeperWanted = -2;

struct Holder {
    robust_list_head head{};
    Obituary own;        // for this process's keeper; the first on the list, whatever becomes of the others
    pid_t process = -1;  // the process that the holder lives in: a forked child has the memory but not the thread
    pid_t thread = 0;    // 0: not started
    int error = 0;
    shared::Published<bool> answered;  // thread and error are valid
    // What its thread has to do besides: kNoKeeper, kKeeperWanted, or the keeper's process, or −1 if there can't be one.
    shared::State<pid_t> keeper{kNoKeeper};
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
    mine.answered.publish_and_wake(true);
    while (set == 0) {
        const pid_t keeper = mine.keeper.get();
        if (keeper != kKeeperWanted) {
            mine.keeper.wait_while(keeper);
            continue;
        }
        mine.keeper.set_and_wake(start_keeper(mine.own));
    }
    return nullptr;
}

// It runs code of this library until the process ends, so the library has to stay mapped after a dlclose().
void keep_library_loaded() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&hold_until_death), &info) != 0 && info.dli_fname != nullptr)
        dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

// A thread that takes no signals and has little stack; 0 or an error.
int start_thread(Holder& mine) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, std::max<std::size_t>(kStack, static_cast<std::size_t>(PTHREAD_STACK_MIN)));
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const int error = pthread_create(&thread, &attributes, hold_until_death, &mine);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    return error;
}

// With the list mutex held.
int start_holder(Holder& mine) {
    keep_library_loaded();
    mine.thread = 0;
    mine.error = 0;
    mine.answered.publish(false);
    mine.keeper.set(kNoKeeper);
    mine.own.next = &mine.head.list;
    mine.head.list.next = reinterpret_cast<robust_list*>(&mine.own);
    mine.head.futex_offset = static_cast<long>(offsetof(Obituary, word));
    mine.process = getpid();

    if (const int error = start_thread(mine); error != 0) return error;
    mine.answered.wait_while(false);
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
    obituary.next = mine.own.next;
    shared::ProcessMemory::order_in_program();
    mine.own.next = &obituary;
    obituary.word.publish(static_cast<std::uint32_t>(mine.thread));
    return {};
}

void let_go(Obituary& obituary) {
    const std::scoped_lock lock(list_mutex());
    Holder& mine = holder();
    if (mine.process != getpid()) return;  // a forked child: not its obituary
    for (Obituary* at = &mine.own; at->next != &mine.head.list; at = static_cast<Obituary*>(at->next)) {
        if (at->next != &obituary) continue;
        at->next = obituary.next;
        break;
    }
    obituary.word.publish(0);
    if (mine.own.next != &mine.head.list) return;
    mine.own.word.publish(0);
    if (const pid_t keeper = mine.keeper.exchange(kNoKeeper); keeper > 0) end_keeper(keeper);
}

void keep_memory() {
    const std::scoped_lock lock(list_mutex());
    Holder& mine = holder();
    if (mine.thread == 0 || mine.process != getpid() || mine.keeper.get() != kNoKeeper) return;
    mine.own.word.publish(static_cast<std::uint32_t>(mine.thread));
    mine.keeper.set_and_wake(kKeeperWanted);
    mine.keeper.wait_while(kKeeperWanted);
}

}  // namespace coppice::transport::shm
