// What a group needs of the context that it is in (context.hpp): time, progress, its status page and its trace.
//
// Under the context's guard, but for is_attended().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/clock.hpp"
#include "engine/progress/progress_thread.hpp"
#include "engine/settings.hpp"
#include "trace/recorder.hpp"

namespace coppice::engine {

class Group;

// The status page, as a group sees it.
class StatusPage {
  public:
    void note_change() { changed_ = true; }
    // Often: writes a report if there is reason to.
    void look() {
        if (changed_ || ++looks_ % kLooksPerClock == 0) refresh();
    }
    virtual void refresh() = 0;

  protected:
    ~StatusPage() = default;

    bool changed_ = false;

  private:
    static constexpr std::uint32_t kLooksPerClock = 16;

    std::uint32_t looks_ = 0;
};

class GroupContext {
  public:
    GroupContext(const GroupContext&) = delete;
    GroupContext& operator=(const GroupContext&) = delete;

    const Clock& clock() const { return clock_; }
    // Makes progress in all groups once; how many things happened.
    virtual std::size_t progress() = 0;
    // Whether functions of the application may be called now: always but on the progress thread, unless the application
    // has asked for that.
    bool may_call_back() const { return !on_thread_ || progress_mode_ == ProgressMode::with_callbacks; }

    // The progress thread makes progress where callers stay away. In this order, because without the guard `thread_` may be read only
    // where it stays what create() has made it.
    bool is_attended() const { return progress_mode_ != ProgressMode::none && thread_ != nullptr; }
    // Something stays with this rank for its caller's next call: the thread is to see soon that there is none. Only where is_attended().
    void watch_closely() { thread_->watch_closely(); }

    // The status page, if there is one: looked at often, written when there is reason to.
    void observe() {
        if (page_ != nullptr) page_->look();
    }
    void note_change() {
        if (page_ != nullptr) page_->note_change();
    }
    // Large payloads go in messages that would be read: tells people so, the first time.
    virtual void warn_of_unregistered(std::string_view why) = 0;
    // Null: nothing is traced.
    trace::Recorder* trace() const { return trace_.get(); }

    // From now on progress is made in that group, too.
    virtual void attach(Group& group) = 0;
    // Takes an attached group that its caller has left, and keeps it while others need its answers.
    virtual void retire(std::unique_ptr<Group> group) = 0;

  protected:
    GroupContext(const Clock& clock, ProgressMode progress_mode) : clock_(clock), progress_mode_(progress_mode) {}
    ~GroupContext() = default;

    const Clock& clock_;
    const ProgressMode progress_mode_;
    bool on_thread_ = false;                  // the progress thread is inside
    ProgressThread* thread_ = nullptr;        // null: none looks after this context. Changed under the guard
    StatusPage* page_ = nullptr;              // null: there is no status page
    std::unique_ptr<trace::Recorder> trace_;  // null: there is no trace
};

}  // namespace coppice::engine
