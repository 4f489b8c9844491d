#include "engine/progress/progress_thread.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>

#include "base/process.hpp"
#include "base/signals.hpp"

namespace coppice::engine {

ProgressThread& ProgressThread::instance() {
    static ProgressThread* const one = new ProgressThread;
    return *one;
}

Result<void> ProgressThread::attend(Attended& what) {
    const std::scoped_lock starting(starting_);
    if (!over_ && !thread_.joinable()) {
        if (auto started = start(); !started) return started;
    }
    const std::scoped_lock lock(mutex_);
    charges_.push_back({.what = &what, .seen = what.lock().entries()});
    wake();
    return {};
}

void ProgressThread::forsake(Attended& what) {
    const std::scoped_lock starting(starting_);
    bool last = false;
    {
        const std::scoped_lock lock(mutex_);
        std::erase_if(charges_, [&what](const Charge& charge) { return charge.what == &what; });
        last = charges_.empty();
    }
    if (last) stop();
}

Result<void> ProgressThread::start() {
    bell_ = process::open_own([] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
    if (bell_ < 0) {
        const int error = errno;
        rlimit limit{};
        getrlimit(RLIMIT_NOFILE, &limit);
        return fail(COPPICE_ERR_NO_RESOURCES,
                    "no file descriptor for the progress thread: {}; the limit (RLIMIT_NOFILE) is {}, raise it with "
                    "ulimit -n",
                    std::strerror(error), limit.rlim_cur);
    }
    // Before the library's own dependencies end: it may be in the middle of one of their calls.
    static const int registered = std::atexit(&ProgressThread::stop_at_exit);
    (void)registered;
    stop_.set(false);
    process_ = getpid();
    try {
        const SignalsBlocked blocked;
        thread_ = std::thread([this] { run(); });
        pthread_setname_np(thread_.native_handle(), "coppice-progr");
    } catch (const std::system_error& error) {
        process::close_own(std::exchange(bell_, -1));
        return fail(COPPICE_ERR_NO_RESOURCES,
                    "no progress thread: {}; raise ulimit -u, or do without one (COPPICE_PROGRESS_THREAD=0)",
                    error.what());
    } catch (const std::bad_alloc&) {
        process::close_own(std::exchange(bell_, -1));
        throw;
    }
    return {};
}

void ProgressThread::stop() {
    if (!thread_.joinable() || thread_.get_id() == std::this_thread::get_id()) return;
    stop_.set(true);
    wake();
    thread_.join();
    process::close_own(std::exchange(bell_, -1));
}

void ProgressThread::stop_at_exit() {
    ProgressThread& one = instance();
    if (one.process_ != getpid()) return;
    const std::scoped_lock starting(one.starting_);
    one.over_ = true;
    one.stop();
}

void ProgressThread::wake() {
    asleep_.set(false);
    const std::uint64_t once = 1;
    (void)!write(bell_, &once, sizeof once);
}

void ProgressThread::run() {
    while (!stop_.get()) {
        Plan plan;
        {
            const std::scoped_lock lock(mutex_);
            plan = pass();
        }
        if (plan.again) {
            sched_yield();
        } else {
            sleep(plan);
        }
    }
    if (asked_.get() || watches_closely_.get()) look_once_more();
}

// A request that comes just when the flag goes down may be seen one tick late.
void ProgressThread::decide_how_close() {
    if (asked_.get()) {
        asked_.set(false);
        close_looks_ = kCloseLooks;
    } else if (close_looks_ > 0) {
        --close_looks_;
    }
    watches_closely_.set(close_looks_ > 0);
}

// At the process's exit: what callers have left for their next calls.
void ProgressThread::look_once_more() {
    const std::scoped_lock lock(mutex_);
    for (const Charge& charge : charges_) {
        if (!charge.what->lock().try_claim()) continue;
        try {
            if (charge.what->has_work()) charge.what->progress_for_callers();
        } catch (...) {  // nobody is left to tell
        }
        charge.what->lock().release();
    }
}

ProgressThread::Plan ProgressThread::pass() {
    Plan plan;
    decide_how_close();
    descriptors_.assign(1, {.fd = bell_, .events = POLLIN, .revents = 0});
    for (Charge& charge : charges_) {
        charge.until_ns = UINT64_MAX;
        look(charge, plan);
    }
    // Only now: a round of one charge may have taken long.
    for (const Charge& charge : charges_) {
        if (charge.until_ns == UINT64_MAX) continue;
        const std::uint64_t now = charge.what->clock().now_ns();
        plan.longest_ns = std::min(plan.longest_ns, charge.until_ns > now ? charge.until_ns - now : 0);
    }
    return plan;
}

void ProgressThread::look_again_in(Charge& charge, std::uint64_t ns) {
    charge.until_ns = std::min(charge.until_ns, charge.what->clock().now_ns() + ns);
}

void ProgressThread::look(Charge& charge, Plan& plan) {
    const std::uint32_t entries = charge.what->lock().entries();
    const bool same = entries == std::exchange(charge.seen, entries);
    if (same || charge.on_duty) charge.active = 0;
    if (!same) ++charge.active;
    const bool inside = BiasedLock::is_inside(entries);
    charge.looks = inside && same && close_looks_ == 0 ? charge.looks + 1 : 0;
    if (same && !inside) return serve(charge, plan);
    charge.on_duty = false;
    if (charge.looks >= kInsideLooks) return;
    const std::uint64_t tick = charge.active > kTicks ? kLongTickNs : kTickNs;
    plan.watching = true;
    look_again_in(charge, close_looks_ > 0 ? kCloseTickNs : tick);
}

void ProgressThread::serve(Charge& charge, Plan& plan) {
    Attended& what = *charge.what;
    if (!what.lock().try_claim()) {
        plan.watching = true;
        look_again_in(charge, kTickNs);
        return;
    }
    if (what.has_work()) {
        if (!std::exchange(charge.on_duty, true)) {
            charge.fruitless = 0;
            what.note_duty();
        }
        try {
            std::size_t events = what.progress_for_callers();
            if (events == 0 && ++charge.fruitless >= kFruitlessRounds) {
                charge.until_ns = what.arm(descriptors_);
                events = what.progress_for_callers();
            } else {
                plan.again = true;
            }
            if (events > 0) charge.fruitless = 0;
            plan.again = plan.again || events > 0;
        } catch (...) {
            // Whatever needed memory is tried again; a caller's own call will tell of it. A callback may have thrown what it likes.
            look_again_in(charge, kTickNs);
        }
    } else {
        charge.on_duty = false;
    }
    what.lock().release();
}

// Whether an entry has changed since it was looked at. With the flag up, a caller that comes later wakes the thread.
bool ProgressThread::anybody_came() const {
    return std::ranges::any_of(charges_,
                               [](const Charge& charge) { return charge.what->lock().entries() != charge.seen; });
}

void ProgressThread::sleep(const Plan& plan) {
    if (!plan.watching) {
        const std::scoped_lock lock(mutex_);
        asleep_.set(true);
        if (!charges_.empty()) charges_.front().what->lock().order_against_callers();
        if (anybody_came() || stop_.get()) {
            asleep_.set(false);
            return;
        }
    }
    timespec span{};
    const timespec* limit = nullptr;
    if (plan.longest_ns != UINT64_MAX) {
        span = {.tv_sec = static_cast<time_t>(plan.longest_ns / 1'000'000'000),
                .tv_nsec = static_cast<long>(plan.longest_ns % 1'000'000'000)};
        limit = &span;
    }
    ppoll(descriptors_.data(), descriptors_.size(), limit, nullptr);
    asleep_.set(false);
    std::uint64_t rings;
    (void)!read(bell_, &rings, sizeof rings);
}

}  // namespace coppice::engine
