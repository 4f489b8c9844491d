#include "engine/progress/turn_lock.hpp"

namespace coppice::engine {

// With queue_lock_.
void TurnLock::remove_first() {
    first_ = first_->next;
    if (first_ == nullptr) last_ = nullptr;
    overtaken_ = 0;
}

std::uint32_t TurnLock::waiting() {
    const std::scoped_lock queue(queue_lock_);
    std::uint32_t count = 0;
    for (const Waiter* waiter = first_; waiter != nullptr; waiter = waiter->next)
        ++count;
    return count;
}

void TurnLock::wait_for_turn() {
    std::unique_lock queue(queue_lock_);
    // From here on a thread that gives the lock back comes to give_to_waiter(), so whether it is taken changes under queue_lock_ only.
    word_.insert(kAwaited);
    const bool is_free = (word_.get() & kTaken) == 0;
    if (is_free && (first_ == nullptr || overtaken_ < kOvertakes)) {
        if (first_ != nullptr) ++overtaken_;
        word_.set(first_ != nullptr ? kTaken | kAwaited : kTaken);
        return;
    }
    Waiter own;
    (last_ != nullptr ? last_->next : first_) = &own;
    last_ = &own;
    for (;;) {
        own.called.wait(queue, [&own] { return own.is_called; });
        if (own.has_it) return;
        own.is_called = false;
        if ((word_.get() & kTaken) != 0) continue;
        remove_first();
        word_.set(first_ != nullptr ? kTaken | kAwaited : kTaken);
        return;
    }
}

void TurnLock::give_to_waiter() {
    const std::scoped_lock queue(queue_lock_);
    if (first_ == nullptr) {  // the last one that came took it without waiting
        word_.set(0);
        return;
    }
    Waiter& first = *first_;
    if (overtaken_ >= kOvertakes) {
        remove_first();
        word_.set(first_ != nullptr ? kTaken | kAwaited : kTaken);
        first.has_it = true;
    } else {
        word_.set(kAwaited);
    }
    if (first.is_called && !first.has_it) return;  // and has not come yet
    first.is_called = true;
    first.called.notify_one();
}

}  // namespace coppice::engine
