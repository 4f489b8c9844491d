// The one thread of a process that makes progress while its callers are not in the library.
//
// What a rank owes the others must happen although its caller computes, waits in another library, or never calls again.
// While callers come often the thread only looks at the clock of their visits (BiasedLock::entries). It takes over from a
// context that nobody has entered between two looks, makes progress until nothing more happens, and then sleeps until a
// descriptor of a transport, a timer of a group, or a leaving caller wakes it. So an idle process costs nothing.
//
//   callers enter and leave all the time     it looks every kTick, and every kLongTick when that has lasted
//   one has left something for its next call it looks every kCloseTick for a while
//   a caller stays inside                    it sleeps: that caller makes progress, and wakes it when it leaves
//   nobody has entered since the last look   it is on duty
//
// It blocks all signals. It takes the biased lock of one context at a time, for one round of progress.
#pragma once

#include <poll.h>

#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/shared_words.hpp"
#include "engine/progress/biased_lock.hpp"

namespace coppice::engine {

// What the thread looks after: a context. It calls all but lock() and clock() while it holds that lock.
class Attended {
  public:
    virtual BiasedLock& lock() = 0;
    virtual const Clock& clock() const = 0;
    // False: there is nothing in it yet. It will be entered before there is.
    virtual bool has_work() const = 0;
    // One round; how many things happened.
    virtual std::size_t progress_for_callers() = 0;
    // What to sleep on, and until when at the latest, by clock(). Another round of progress follows before the sleep.
    virtual std::uint64_t arm(std::vector<pollfd>& descriptors) = 0;
    // It has just taken over.
    virtual void note_duty() = 0;

  protected:
    ~Attended() = default;
};

class ProgressThread {
  public:
    static constexpr std::uint64_t kTickNs = 1'000'000;
    static constexpr std::uint64_t kLongTickNs = 4'000'000;
    static constexpr std::uint64_t kCloseTickNs = 50'000;
    static constexpr std::uint32_t kCloseLooks = 40;  // in a row after watch_closely() was called last
    static constexpr std::uint32_t kTicks = 16;       // in a row that found callers active, before the long ones
    static constexpr std::uint32_t kInsideLooks = 3;  // in a row that found the same caller inside, before it sleeps
    // On duty: rounds in a row that bring nothing, the core given away between them, before it sleeps.
    static constexpr std::uint32_t kFruitlessRounds = 16;
    static constexpr std::size_t kDescriptors = 256;  // it allocates nothing up to so many to sleep on

    // The process's. Never destroyed.
    static ProgressThread& instance();

    // Any thread. The first one starts the thread, the last one ends it; after forsake() it does not touch `what` any more.
    // COPPICE_ERR_NO_RESOURCES: no thread can be had.
    Result<void> attend(Attended& what);
    void forsake(Attended& what);

    // A caller has left a context: a load, unless the thread sleeps.
    void caller_left() {
        if (asleep_.get()) [[unlikely]]
            wake();
    }

    // A caller leaves something undone for its next call. For a while the thread looks every kCloseTickNs whether that has come, and
    // takes over where it has not.
    void watch_closely() {
        asked_.set(true);
        if (!watches_closely_.get()) [[unlikely]]
            wake();
    }

  private:
    struct Charge {
        Attended* what = nullptr;
        std::uint32_t seen = 0;    // entries
        std::uint32_t looks = 0;   // in a row that found the same caller inside
        std::uint32_t active = 0;  // looks in a row before which a caller had entered or left
        std::uint32_t fruitless = 0;
        bool on_duty = false;
        std::uint64_t until_ns = UINT64_MAX;  // of this pass: when to look again at the latest, by its clock
    };
    // What a pass over all charges comes to.
    struct Plan {
        bool again = false;     // at once
        bool watching = false;  // it looks again at callers that come often, which need not wake it then
        std::uint64_t longest_ns = UINT64_MAX;  // that it may sleep
    };

    ProgressThread() { descriptors_.reserve(kDescriptors); }
    Result<void> start();
    void stop();
    void wake();
    void run();
    Plan pass();
    void decide_how_close();
    void look_once_more();
    void look(Charge& charge, Plan& plan);
    void serve(Charge& charge, Plan& plan);
    static void look_again_in(Charge& charge, std::uint64_t ns);
    void sleep(const Plan& plan);
    bool anybody_came() const;
    static void stop_at_exit();

    std::mutex mutex_;  // of charges_; held during a pass
    std::vector<Charge> charges_;
    std::vector<pollfd> descriptors_;  // the thread's own
    std::mutex starting_;              // one start or end at a time
    std::thread thread_;
    int bell_ = -1;  // eventfd
    shared::State<bool> stop_;
    shared::Relaxed<bool> asleep_;
    shared::Relaxed<bool> asked_;  // to watch closely
    shared::Relaxed<bool> watches_closely_;
    std::uint32_t close_looks_ = 0;  // left
    pid_t process_ = -1;             // a forked child has no such thread
    bool over_ = false;              // the process is exiting
};

}  // namespace coppice::engine
