// The lock that serializes several calling threads. A thread that wants it gets it, however often others come back for it.
//
// pthread's mutex is not fair: a thread that gives it back and takes it again at once, as one does that asks whether its request
// has ended, keeps all others out for as long as it likes. They are woken each time, and find it taken. To serve all in the order
// in which they come would be fair, but then each turn of a contended lock waits until a certain thread gets a core. So others
// may overtake the thread that has waited longest, kOvertakes times; then they line up behind it.
//
// Where one thread calls it costs what a mutex costs, a compare-and-swap on each side. A thread may take it again while it has it.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/shared_words.hpp"

namespace coppice::engine {

class TurnLock {
  public:
    static constexpr std::uint32_t kOvertakes = 16;

    TurnLock() = default;
    TurnLock(const TurnLock&) = delete;
    TurnLock& operator=(const TurnLock&) = delete;

    void lock() {
        if (is_own()) {
            ++depth_;
            return;
        }
        if (!word_.replace(0, kTaken)) [[unlikely]]
            wait_for_turn();
        begin();
    }
    // False: another thread has it, or others wait for it.
    bool try_lock() {
        if (is_own()) {
            ++depth_;
            return true;
        }
        if (!word_.replace(0, kTaken)) return false;
        begin();
        return true;
    }
    void unlock() {
        if (--depth_ > 0) return;
        owner_.set(0);
        if (!word_.replace(kTaken, 0)) [[unlikely]]
            call_first();
    }

    // Some thread waits for its turn; how many do.
    bool is_awaited() const { return (word_.get() & kAwaited) != 0; }
    std::uint32_t waiting();

  private:
    static constexpr std::uint32_t kTaken = 1;
    static constexpr std::uint32_t kAwaited = 2;  // changes under queue_lock_ only

    // On the stack of the thread that waits.
    struct Waiter {
        std::condition_variable called{};
        Waiter* next = nullptr;
        bool is_called = false;  // to take it, if no other thread has been faster
    };

    static std::uint64_t self() { return static_cast<std::uint64_t>(pthread_self()); }
    bool is_own() const { return owner_.get() == self(); }
    void begin() {
        owner_.set(self());
        depth_ = 1;
    }
    void wait_for_turn();
    void call_first();

    shared::State<std::uint32_t> word_{0};
    shared::Relaxed<std::uint64_t> owner_{0};
    std::uint32_t depth_ = 0;  // the owner's

    std::mutex queue_lock_;
    Waiter* first_ = nullptr;
    Waiter* last_ = nullptr;
    std::uint32_t overtaken_ = 0;  // how often others took it since the first one is first
};

}  // namespace coppice::engine
