#include "engine/progress/turn_lock.hpp"

namespace coppice::engine {

std::uint32_t TurnLock::waiting() {
    const std::scoped_lock queue(queue_lock_);
    std::uint32_t count = 0;
    for (const Waiter* waiter = first_; waiter != nullptr; waiter = waiter->next)
        ++count;
    return count;
}

void TurnLock::wait_for_turn() {
    std::unique_lock queue(queue_lock_);
    // From here on a thread that gives the lock back comes to call_first(), so whether it is taken changes under queue_lock_ only.
    word_.insert(kAwaited);
    const auto is_free = [this] { return (word_.get() & kTaken) == 0; };
    const auto take = [this] { word_.set(first_ != nullptr ? kTaken | kAwaited : kTaken); };
    if (is_free() && (first_ == nullptr || overtaken_ < kOvertakes)) {
        if (first_ != nullptr) ++overtaken_;
        return take();
    }
    Waiter own;
    (last_ != nullptr ? last_->next : first_) = &own;
    last_ = &own;
    do {
        own.is_called = false;
        own.called.wait(queue, [&own] { return own.is_called; });
    } while (!is_free());
    first_ = own.next;
    if (first_ == nullptr) last_ = nullptr;
    overtaken_ = 0;
    take();
}

void TurnLock::call_first() {
    const std::scoped_lock queue(queue_lock_);
    word_.set(first_ != nullptr ? kAwaited : 0);
    if (first_ == nullptr || first_->is_called) return;
    first_->is_called = true;
    first_->called.notify_one();
}

}  // namespace coppice::engine
