// What a process has of Coppice: its settings, its groups, one lock for all of them, and the thread that may move them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "engine/group.hpp"
#include "engine/settings.hpp"
#include "transport/idle.hpp"

namespace coppice::engine {

class Context {
  public:
    // `multiple`: several threads may call; a progress thread implies it.
    static Result<std::unique_ptr<Context>> create(SettingTexts texts, bool multiple);
    ~Context();

    const SettingTexts& texts() const { return texts_; }
    const Settings& settings() const { return settings_; }

    void attach(Group& group);
    void detach(Group& group);
    bool has_groups() const { return groups_.size() > retired_.size(); }
    // Takes an attached group that its caller has left, and keeps it while others need its answers.
    void retire(std::unique_ptr<Group> group);

    // Moves all groups once, under the guard; how many things happened.
    std::size_t progress();
    // The same for threads that only want things to move: they let those pass that want something of a group, and do
    // nothing while another thread moves things anyway. (A mutex is not fair: without this they would starve the others.)
    std::size_t offer_progress();

    // Held during every call into a group. Free of charge with one thread. Recursive, because a failure callback may
    // ask the group who has failed.
    class Guard {
      public:
        explicit Guard(Context& context) : mutex_(context.multiple_ ? &context.mutex_ : nullptr) {
            if (mutex_ == nullptr || mutex_->try_lock()) return;
            context.callers_waiting_.fetch_add(1, std::memory_order_relaxed);
            mutex_->lock();
            context.callers_waiting_.fetch_sub(1, std::memory_order_relaxed);
        }
        ~Guard() {
            if (mutex_ != nullptr) mutex_->unlock();
        }
        Guard(const Guard&) = delete;
        Guard& operator=(const Guard&) = delete;

      private:
        std::recursive_mutex* mutex_;
    };

    // Makes progress until `done()` (called under the guard) or the deadline; says whether it was done.
    template <class Done>
    bool wait(Group& group, Deadline& deadline, Done&& done) {
        transport::Idle idle(group.oversubscribed());
        for (std::uint32_t round = 1;; ++round) {
            {
                const Guard guard(*this);
                if (done()) return true;
                // Other groups' relays go on too: somebody may wait for them in order to come here.
                if (round % kRoundsPerSweep == 0 && groups_.size() > 1) {
                    if (progress() > 0) idle.reset();
                } else if (group.progress() > 0) {
                    idle.reset();
                }
                if (done()) return true;
            }
            if (round % kRoundsPerClock == 0 && deadline.passed()) return false;
            if (!idle.sleeps_next()) {
                idle.pause();
                continue;
            }
            int descriptor = -1;
            {
                const Guard guard(*this);
                descriptor = group.arm();
                if (descriptor >= 0 && group.progress() > 0) {
                    idle.reset();
                    continue;
                }
                if (done()) return true;
            }
            idle.pause(descriptor, group.longest_sleep_ns(descriptor));
        }
    }

  private:
    static constexpr std::uint32_t kRoundsPerSweep = 16;
    static constexpr std::uint32_t kRoundsPerClock = 8;

    Context(SettingTexts texts, Settings settings, bool multiple)
        : texts_(std::move(texts)), settings_(std::move(settings)), multiple_(multiple) {}
    void run_progress_thread();
    void drop_retired();

    SettingTexts texts_;
    Settings settings_;
    bool multiple_;
    std::recursive_mutex mutex_;
    std::atomic<std::uint32_t> callers_waiting_{0};
    std::vector<Group*> groups_;  // the retired ones, too
    std::vector<std::unique_ptr<Group>> retired_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

}  // namespace coppice::engine
