#include "bootstrap/pmix_caller.hpp"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <new>
#include <system_error>

#include "base/clock.hpp"
#include "base/signals.hpp"
#include "base/time_point.hpp"

namespace coppice::bootstrap::pmix {
namespace {

// Threads that hang in a call. Never destroyed: one of them may come back while the process ends.
struct LeftBehind {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint32_t count = 0;
};
LeftBehind& of_this_process() {
    static auto* const one = new LeftBehind;
    return *one;
}
LeftBehind& left_behind() {
    LeftBehind& one = of_this_process();
    // A forked child has none of its parent's threads, and may have the mutex as one of them held it: all begins anew.
    static const int registered = pthread_atfork(nullptr, nullptr, [] { new (&of_this_process()) LeftBehind; });
    (void)registered;
    return one;
}

thread_local bool is_caller = false;

}  // namespace

struct Caller::Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::list<std::function<void()>> calls;  // the first one is under way
    std::list<std::function<void()>> last;   // one that goodbye() moves to them
    bool no_memory = false;                  // for what a call has returned
    bool is_last = false;                    // no more calls come
    bool is_left = false;                    // nobody waits for the thread

    void work() {
        is_caller = true;
        std::unique_lock lock(mutex);
        while (true) {
            changed.wait(lock, [&] { return !calls.empty() || is_last; });
            if (calls.empty()) break;
            std::function<void()>& call = calls.front();
            lock.unlock();
            bool failed = false;
            try {
                call();
            } catch (const std::bad_alloc&) {
                failed = true;
            }
            call = nullptr;  // what it has brought too late may be of the library, and hang as it goes
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

Result<std::unique_ptr<Caller>> Caller::start(std::uint64_t deadline_ns, std::function<void()> last,
                                              std::uint64_t least_ns) {
    {
        LeftBehind& others = left_behind();
        std::unique_lock lock(others.mutex);
        if (!others.changed.wait_until(lock, time_of(deadline_ns), [&] { return others.count == 0; })) {
            return fail(COPPICE_ERR_BOOTSTRAP,
                        "the launcher's server of PMIx has still not answered what it was asked for an earlier group: "
                        "it is stopped, or hangs");
        }
    }
    std::unique_ptr<Caller> caller(new Caller(std::make_shared<Shared>(), least_ns));
    if (last) caller->shared_->last.push_back(std::move(last));
    try {
        const SignalsBlocked blocked;
        caller->thread_ = std::thread([shared = caller->shared_] { shared->work(); });
        pthread_setname_np(caller->thread_.native_handle(), "coppice-pmix");
    } catch (const std::system_error& error) {
        return fail(COPPICE_ERR_NO_RESOURCES, "no thread for the exchange by PMIx: {}; raise ulimit -u", error.what());
    }
    return caller;
}

Caller::Caller(std::shared_ptr<Shared> shared, std::uint64_t least_ns)
    : shared_(std::move(shared)), least_ns_(least_ns) {}

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
    const auto end = time_of(in_time(deadline_ns));
    if (!shared_->changed.wait_until(lock, end, [&] { return shared_->calls.empty(); })) return false;
    if (std::exchange(shared_->no_memory, false)) throw std::bad_alloc();
    return true;
}

void Caller::goodbye(std::uint64_t deadline_ns) noexcept {
    std::unique_lock lock(shared_->mutex);
    shared_->calls.splice(shared_->calls.end(), shared_->last);
    shared_->changed.notify_all();
    shared_->changed.wait_until(lock, time_of(in_time(deadline_ns)), [&] { return shared_->calls.empty(); });
}

std::uint64_t Caller::in_time(std::uint64_t deadline_ns) const {
    return std::max(deadline_ns, deadline_after(real_clock(), least_ns_));
}

bool Caller::is_this_thread() {
    return is_caller;
}

}  // namespace coppice::bootstrap::pmix
