#include "engine/context.hpp"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <thread>
#include <utility>

#include "base/descriptor_table.hpp"

namespace coppice::engine {
namespace {

// The progress thread holds the biased lock of this context, and may be asked something by a callback that it runs.
thread_local const Context* entered_by_thread = nullptr;

}  // namespace

Result<std::unique_ptr<Context>> Context::create(SettingTexts texts, bool multiple, Platform* platform) {
    if (is_progress_thread())
        return fail(COPPICE_ERR_INVALID_ARGUMENT, "a callback on the progress thread may create no context");
    auto settings = parse(texts);
    if (!settings) return tl::unexpected(std::move(settings.error()));
    const ProgressMode mode = settings->progress_thread;
    multiple = multiple || mode == ProgressMode::with_callbacks;
    std::unique_ptr<Context> context(new Context(std::move(texts), std::move(*settings), multiple, platform));
    if (platform == nullptr) make_room_for_descriptors();  // before there are threads of the library's
    if (platform == nullptr && context->settings_.shows_status)
        context->page_ = (context->observation_ = Observation::make(context->clock_)).get();
    if (platform == nullptr && !context->settings_.trace.empty()) {
        auto recorder = trace::Recorder::make(context->settings_.trace, context->clock_);
        if (!recorder) return tl::unexpected(std::move(recorder.error()));
        context->trace_ = std::move(*recorder);
    }
    if (mode == ProgressMode::none) return context;
    if (platform != nullptr) {
        if (auto attended = platform->attend(*context); !attended) return tl::unexpected(std::move(attended.error()));
        return context;
    }
    ProgressThread& thread = ProgressThread::instance();
    if (auto attended = thread.attend(*context); !attended) return tl::unexpected(std::move(attended.error()));
    context->thread_ = &thread;
    return context;
}

Context::~Context() {
    if (thread_ != nullptr) thread_->forsake(*this);
    if (platform_ != nullptr) platform_->forsake(*this);
}

bool Context::is_progress_thread() {
    return entered_by_thread != nullptr;
}

void Context::enter_multiple() {
    if (entered_by_thread == this) return;
    turns_.lock();
    lock_.enter();
}

void Context::leave_multiple() {
    if (entered_by_thread == this) return;
    if (lock_.leave() && thread_ != nullptr) thread_->caller_left();
    turns_.unlock();
}

void Context::warn_of_unregistered(std::string_view why) {
    if (std::exchange(has_warned_, true)) return;
    std::fprintf(
        stderr,
        "coppice: large payloads go in messages, and slower: %.*s (\"unregistered\" of coppice_group_count and "
        "coppice-perf --count says how many)\n",
        static_cast<int>(why.size()), why.data());
}

void Context::attach(Group& group) {
    groups_.push_back(&group);
    if (trace_ != nullptr)
        trace_->is_rank(group.members().self().value, group.members().ranks(), group.core().around().trace().name);
    if (observation_ != nullptr) observation_->attach(group);
}
void Context::detach(Group& group) {
    std::erase(groups_, &group);
    if (observation_ != nullptr) observation_->detach(group);
}

void Context::retire(std::unique_ptr<Group> group) {
    group->retire();
    if (observation_ != nullptr) observation_->retired(*group);
    retired_.push_back(std::move(group));
    drop_retired();
}

// The end of one may be what another waits for.
void Context::drop_retired() {
    for (const auto& group : retired_)
        group->go_on_leaving();
    const auto next = [this] {
        return std::ranges::find_if(retired_, [](const auto& group) { return group->may_go(); });
    };
    for (auto at = next(); at != retired_.end(); at = next()) {
        const std::unique_ptr<Group> group = std::move(*at);
        retired_.erase(at);
        detach(*group);
    }
}

std::size_t Context::progress() {
    std::size_t events = 0;
    for (std::size_t i = 0; i < groups_.size(); ++i)  // a group that is shrunk adds one
        events += groups_[i]->progress();
    if (!retired_.empty()) drop_retired();
    return events;
}

std::size_t Context::progress_before_sleep(Group& group) {
    std::size_t events = 0;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
        if (groups_[i]->waits_for_room() || groups_[i]->timer_is_due()) {
            events += groups_[i]->progress(Group::Care::thorough);
        } else if (groups_[i] == &group) {
            events += group.progress();
        }
    }
    if (!retired_.empty()) drop_retired();
    return events;
}

std::size_t Context::offer_progress() {
    if (!multiple_) {
        const Guard guard(*this);
        return progress();
    }
    const std::unique_lock turn(turns_, std::try_to_lock);
    if (turn.owns_lock()) {
        const Guard guard(*this);
        return progress();
    }
    std::this_thread::yield();
    return 0;
}

void Context::glance() {
    lock_.note_glance();
    for (std::size_t i = 0; i < groups_.size(); ++i)
        groups_[i]->core().membership().tell_failures();
}

// ----------------------------------------------------------------------------------------------- the status page ---

Context::Creation::Creation(Context& context) : context_(context) {
    const Guard guard(context_);
    if (context_.observation_ != nullptr) context_.observation_->begin_creation();
    ++context_.creations_;
    if (context_.thread_ != nullptr || context_.platform_ != nullptr || context_.groups_.empty()) return;
    ProgressThread& thread = ProgressThread::instance();
    if (thread.attend(context_)) context_.thread_ = &thread;  // else the others have to wait
}

Context::Creation::~Creation() {
    const Guard guard(context_);
    if (context_.observation_ != nullptr) context_.observation_->end_creation();
    if (--context_.creations_ > 0 || context_.thread_ == nullptr || context_.is_attended()) return;
    context_.thread_->forsake(context_);
    context_.thread_ = nullptr;
}

void Context::note_wait(Group& group) {
    group.broadcasts().note_wait();
}

void Context::Watch::end() {
    const Turn turn(context_);
    context_.observation_->go_on(waiter_);
}

// ------------------------------------------------------------------------------------------- the progress thread ---

// Thoroughly, because rounds are few here.
std::size_t Context::progress_for_callers() {
    struct Inside {
        explicit Inside(Context& owner) : context(owner) {
            context.on_thread_ = true;
            entered_by_thread = &context;
        }
        ~Inside() {
            context.on_thread_ = false;
            entered_by_thread = nullptr;
        }
        Context& context;
    };
    const Inside inside(*this);
    std::size_t events = 0;
    for (std::size_t i = 0; i < groups_.size() && !lock_.is_wanted(); ++i)
        events += groups_[i]->progress(Group::Care::thorough);
    if (!retired_.empty()) drop_retired();
    ++duty_.rounds;
    duty_.events += events;
    if (observation_ != nullptr) observation_->refresh();
    return events;
}

std::uint64_t Context::arm(std::vector<pollfd>& descriptors) {
    const std::uint64_t now = clock_.now_ns();
    std::uint64_t until = now + kLongestSleepNs;
    for (Group* const group : groups_) {
        const TransportSet::Armed armed = group->arm();
        const auto has = [&armed](const pollfd& entry) { return entry.fd == armed.descriptor; };
        if (armed.descriptor >= 0 && std::ranges::none_of(descriptors, has))
            descriptors.push_back({.fd = armed.descriptor, .events = POLLIN, .revents = 0});
        if (!armed.complete || group->owes_summary()) until = std::min(until, now + kLongestNapNs);
        if (armed.unheard || group->waits_for_room()) until = std::min(until, now + kLongestPauseNs);
        until = std::min(until, group->next_timer_ns());
    }
    return until;
}

}  // namespace coppice::engine
