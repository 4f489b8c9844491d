// What a process has of Coppice: its settings, its groups, one lock for all of them. The progress thread looks after it.
//
// Every call into a group holds the context's guard. With COPPICE_THREAD_SINGLE callers serialize themselves, and the
// guard only keeps the progress thread out (BiasedLock); with COPPICE_THREAD_MULTIPLE a TurnLock serializes them first.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/process.hpp"
#include "base/shared_words.hpp"
#include "engine/core/group_context.hpp"
#include "engine/group.hpp"
#include "engine/observation.hpp"
#include "engine/platform.hpp"
#include "engine/progress/biased_lock.hpp"
#include "engine/progress/progress_thread.hpp"
#include "engine/progress/turn_lock.hpp"
#include "engine/settings.hpp"

namespace coppice::engine {

class Context final : public GroupContext, private Attended {
  public:
    // `multiple`: several threads may call; a progress thread with callbacks implies it.
    // `platform`: null is this process's own; it outlives the context.
    static Result<std::unique_ptr<Context>> create(SettingTexts texts, bool multiple, Platform* platform = nullptr);
    ~Context();

    const SettingTexts& texts() const { return texts_; }
    const Settings& settings() const { return settings_; }
    const Clock& clock() const override { return clock_; }
    Platform* platform() const { return platform_; }

    void attach(Group& group) override;
    void detach(Group& group);
    bool has_groups() const { return groups_.size() > retired_.size(); }
    void retire(std::unique_ptr<Group> group) override;

    // Makes progress in all groups once, under the guard; how many things happened.
    std::size_t progress() override;
    // The same for a caller of one group: of the others now and then, because somebody may wait for what this rank owes there, in
    // order to come here.
    std::size_t progress(Group& group) {
        if (++rounds_ % kRoundsPerSweep == 0 && groups_.size() > 1) return progress();
        return group.progress();
    }
    // For a call that only asks, or that has to be made again: tells of failures, in all groups, and makes no
    // progress. The progress thread goes on as if nobody had come. Under the guard.
    void glance();
    // The same as progress() for one that is about to sleep. Its rounds are few then, so what found no room, and beats, are not left to one in many, in whichever group.
    std::size_t progress_before_sleep(Group& group);
    // The same for a thread that has nothing else in mind: it lets those pass that want something of a group, and does
    // nothing while another thread makes progress anyway.
    std::size_t offer_progress();

    // Whether the calling thread is the progress thread, in a callback.
    static bool is_progress_thread();
    // What the progress thread did for this context. Under the guard.
    struct Duty {
        std::uint64_t takeovers = 0;  // times that it found no caller and took over
        std::uint64_t rounds = 0;     // of progress
        std::uint64_t events = 0;     // things that happened in these rounds
    };
    const Duty& duty() const { return duty_; }

    // Ranks of a group are on a host of that name. Under the guard.
    void note_host(std::string_view name) {
        if (observation_ != nullptr) observation_->add_host(name);
    }
    // A rank of this host: its page outlives it. Under the guard.
    void keep_page_of(pid_t process, int descriptor) {
        if (observation_ != nullptr) observation_->keep_page_of(process, descriptor);
    }
    // Of the status page. −1: there is none.
    int page_descriptor() const { return observation_ != nullptr ? observation_->page_descriptor() : -1; }
    void warn_of_unregistered(std::string_view why) override;
    // While one lives, a group is being made. Its caller waits in an exchange that knows nothing of other groups, so the progress
    // thread makes progress in these; where there is none otherwise, for so long.
    class Creation {
      public:
        explicit Creation(Context& context);
        ~Creation();
        Creation(const Creation&) = delete;
        Creation& operator=(const Creation&) = delete;

      private:
        Context& context_;
    };

    // Held during every call into a group. Recursive, because a failure callback may ask the group which ranks have
    // failed. Of a blocking call a Visit lasts from its start to its end, and each round in it is a Turn: with one
    // calling thread the context is entered once, with several all get their turns.
    class Guard {
      public:
        explicit Guard(Context& context) : context_(context) { context_.enter(); }
        ~Guard() { context_.leave(); }
        Guard(const Guard&) = delete;
        Guard& operator=(const Guard&) = delete;

      private:
        Context& context_;
    };
    class Visit {
      public:
        explicit Visit(Context& context) : context_(context) {
            if (!context_.multiple_) context_.enter();
        }
        ~Visit() {
            if (!context_.multiple_) context_.leave();
        }
        Visit(const Visit&) = delete;
        Visit& operator=(const Visit&) = delete;

      private:
        Context& context_;
    };
    // Within a Visit only.
    class Turn {
      public:
        explicit Turn(Context& context) : context_(context) {
            if (context_.multiple_) context_.enter();
        }
        ~Turn() {
            if (context_.multiple_) context_.leave();
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

      private:
        Context& context_;
    };

    // A Visit that begins with a Turn, so that a call for which this one is enough enters and leaves but once.
    class FirstTurn {
      public:
        explicit FirstTurn(Context& context) : context_(context) { context_.enter(); }
        ~FirstTurn() {
            if (!ended_ || !context_.multiple_) context_.leave();
        }
        // It is over, and the Visit goes on.
        void end() {
            ended_ = true;
            if (context_.multiple_) context_.leave();
        }
        FirstTurn(const FirstTurn&) = delete;
        FirstTurn& operator=(const FirstTurn&) = delete;

      private:
        Context& context_;
        bool ended_ = false;
    };

    // Within a Visit: makes progress until `done()` (called in a Turn) or the deadline; says whether it was done. `awaited` is
    // for the status page.
    template <class Done>
    bool wait(Group& group, Deadline& deadline, Done&& done, const Awaited& awaited) {
        Pauses idle(platform_, group.ranks_per_core(), settings_.spin_ns);
        Watch watch(*this, group, awaited);
        for (std::uint32_t round = 1;; ++round) {
            {
                const Turn turn(*this);
                if (done()) return true;
                if (round == 1) note_wait(group);
                if (progress(group) > 0) idle.reset();
                if (done()) return true;
            }
            const bool sleeps = idle.sleeps_next();  // which takes longer than a look at the clock
            if ((sleeps || round % kRoundsPerClock == 0) && deadline.passed()) {
                if (is_attended()) watch.wait_again();  // else nobody might see that the caller stays away
                return false;
            }
            if (!sleeps) {
                if (round % kRoundsPerWatch == 0) watch.look();
                idle.pause();
                continue;
            }
            int descriptor = -1;
            {
                const Turn turn(*this);
                descriptor = group.arm(idle.wants_rings()).descriptor;
                if (progress_before_sleep(group) > 0) {
                    idle.reset();
                    continue;
                }
                if (done()) return true;
                watch.look_within_turn();
            }
            idle.pause(descriptor, group.longest_sleep_ns(descriptor));
        }
    }

  private:
    // What a root has kept back leaves with the first poll.
    static void note_wait(Group& group);
    // Shows that a caller waits, once that has taken long.
    class Watch {
      public:
        Watch(Context& context, const Group& group, const Awaited& awaited)
            : context_(context), waiter_{.group = &group, .awaited = awaited} {}
        ~Watch() {
            if (waiter_.since_ns != 0) end();
        }
        Watch(const Watch&) = delete;
        Watch& operator=(const Watch&) = delete;
        void look() {
            if (context_.observation_ == nullptr) return;
            const Turn turn(context_);
            context_.observation_->wait(waiter_);
        }
        void look_within_turn() {
            if (context_.observation_ != nullptr) context_.observation_->wait(waiter_);
        }
        void wait_again() {
            if (context_.observation_ == nullptr) return;
            const Turn turn(context_);
            context_.observation_->wait_again(waiter_);
        }

      private:
        void end();

        Context& context_;
        Observation::Waiter waiter_;
    };

    static constexpr std::uint32_t kRoundsPerSweep = 16;
    static constexpr std::uint32_t kRoundsPerClock = 8;
    static constexpr std::uint32_t kRoundsPerWatch = 1024;
    // How long the progress thread sleeps at most: where every event wakes it (this is for what nobody has thought of), where
    // some don't, and where something waits for room.
    static constexpr std::uint64_t kLongestSleepNs = 1'000'000'000;
    static constexpr std::uint64_t kLongestNapNs = 20'000'000;
    static constexpr std::uint64_t kLongestPauseNs = 1'000'000;

    Context(SettingTexts texts, Settings settings, bool multiple, Platform* platform)
        : GroupContext(platform != nullptr ? platform->clock() : real_clock(), settings.progress_thread),
          platform_(platform),
          texts_(std::move(texts)),
          settings_(std::move(settings)),
          multiple_(multiple) {}
    void enter() {
        if (multiple_) return enter_multiple();
        lock_.enter();
    }
    void leave() {
        if (multiple_) return leave_multiple();
        if (lock_.leave() && thread_ != nullptr) thread_->caller_left();
    }
    void enter_multiple();
    void leave_multiple();
    void drop_retired();

    // Attended
    BiasedLock& lock() override { return lock_; }
    bool has_work() const override { return !groups_.empty(); }
    std::size_t progress_for_callers() override;
    std::uint64_t arm(std::vector<pollfd>& descriptors) override;
    void note_duty() override { ++duty_.takeovers; }

    process::Use use_;
    Platform* platform_;
    SettingTexts texts_;
    Settings settings_;
    bool multiple_;
    BiasedLock lock_;
    TurnLock turns_;               // of several calling threads
    std::uint32_t creations_ = 0;  // under way
    std::uint32_t rounds_ = 0;     // of progress(group)
    bool has_warned_ = false;
    Duty duty_;
    std::unique_ptr<Observation> observation_;  // null: there is no status page
    std::vector<Group*> groups_;                // the retired ones, too
    std::vector<std::unique_ptr<Group>> retired_;
};

// Groups are in no other.
inline Context& Group::context() const {
    return static_cast<Context&>(core_.around().context());
}

}  // namespace coppice::engine
