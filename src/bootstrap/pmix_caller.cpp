#include "bootstrap/pmix_caller.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <system_error>

namespace coppice::bootstrap::pmix {
namespace {

std::chrono::steady_clock::time_point time_of(std::uint64_t deadline_ns) {
    return std::chrono::steady_clock::time_point(
        std::chrono::nanoseconds(std::min<std::uint64_t>(deadline_ns, INT64_MAX)));
}

// Threads that hang in a call. Never destroyed: one of them may come back while the process ends.
struct LeftBehind {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint32_t count = 0;
};
LeftBehind& left_behind() {
    static auto* const one = new LeftBehind;
    return *one;
}

}  // namespace

struct Caller::Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> calls;  // the first one is under way
    bool no_memory = false;                   // for what a call has returned
    bool is_last = false;                     // no more calls come
    bool is_left = false;                     // nobody waits for the thread

    void work() {
        std::unique_lock lock(mutex);
        while (true) {
            changed.wait(lock, [&] { return !calls.empty() || is_last; });
            if (calls.empty()) break;
            std::function<void()>& call = calls.front();  // stays where it is when others are added
            lock.unlock();
            bool failed = false;
            try {
                call();
            } catch (const std::bad_alloc&) {
                failed = true;
            }
            lock.lock();
            no_memory |= failed;
            calls.pop_front();
            changed.notify_all();
        }
        if (!is_left) return;
        LeftBehind& others = left_behind();
        const std::lock_guard others_lock(others.mutex);
        --others.count;
        others.changed.notify_all();
    }
};

Result<std::unique_ptr<Caller>> Caller::start(std::uint64_t deadline_ns) {
    {
        LeftBehind& others = left_behind();
        std::unique_lock lock(others.mutex);
        if (!others.changed.wait_until(lock, time_of(deadline_ns), [&] { return others.count == 0; })) {
            return fail(COPPICE_ERR_BOOTSTRAP,
                        "the launcher's server of PMIx has still not answered what it was asked for an earlier group: "
                        "it is stopped, or hangs");
        }
    }
    std::unique_ptr<Caller> caller(new Caller(std::make_shared<Shared>()));
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    Result<std::unique_ptr<Caller>> result;
    try {
        caller->thread_ = std::thread([shared = caller->shared_] { shared->work(); });
        pthread_setname_np(caller->thread_.native_handle(), "coppice-pmix");
        result = std::move(caller);
    } catch (const std::system_error& error) {
        result =
            fail(COPPICE_ERR_NO_RESOURCES, "no thread for the exchange by PMIx: {}; raise ulimit -u", error.what());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return result;
}

Caller::Caller(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

Caller::~Caller() {
    if (!thread_.joinable()) return;
    std::unique_lock lock(shared_->mutex);
    shared_->is_last = true;
    shared_->changed.notify_all();
    shared_->is_left = !shared_->calls.empty();
    if (!shared_->is_left) {
        lock.unlock();
        thread_.join();
        return;
    }
    LeftBehind& others = left_behind();
    const std::lock_guard others_lock(others.mutex);
    ++others.count;
    thread_.detach();
}

bool Caller::run(std::uint64_t deadline_ns, std::function<void()> what) {
    std::unique_lock lock(shared_->mutex);
    if (!shared_->calls.empty()) return false;
    shared_->calls.push_back(std::move(what));
    shared_->changed.notify_all();
    if (!shared_->changed.wait_until(lock, time_of(deadline_ns), [&] { return shared_->calls.empty(); })) return false;
    if (std::exchange(shared_->no_memory, false)) throw std::bad_alloc();
    return true;
}

void Caller::goodbye(std::uint64_t deadline_ns, std::function<void()> last) {
    std::unique_lock lock(shared_->mutex);
    shared_->calls.push_back(std::move(last));
    shared_->changed.notify_all();
    shared_->changed.wait_until(lock, time_of(deadline_ns), [&] { return shared_->calls.empty(); });
}

}  // namespace coppice::bootstrap::pmix
