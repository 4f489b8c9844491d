#include "engine/context.hpp"

#include <algorithm>
#include <system_error>

namespace coppice::engine {

Result<std::unique_ptr<Context>> Context::create(SettingTexts texts, bool multiple) {
    auto settings = parse(texts);
    if (!settings) return tl::unexpected(std::move(settings.error()));
    const bool with_thread = settings->progress_thread;
    std::unique_ptr<Context> context(new Context(std::move(texts), std::move(*settings), multiple || with_thread));
    if (with_thread) {
        try {
            context->thread_ = std::thread([raw = context.get()] { raw->run_progress_thread(); });
        } catch (const std::system_error& error) {
            return fail(COPPICE_ERR_NO_RESOURCES, "no progress thread: {} (see ulimit -u)", error.what());
        }
    }
    return context;
}

Context::~Context() {
    stop_.store(true, std::memory_order_relaxed);
    if (thread_.joinable()) thread_.join();
}

void Context::attach(Group& group) {
    groups_.push_back(&group);
}
void Context::detach(Group& group) {
    std::erase(groups_, &group);
}

void Context::retire(std::unique_ptr<Group> group) {
    group->retire();
    retired_.push_back(std::move(group));
    drop_retired();
}

// The end of one may be what another waits for.
void Context::drop_retired() {
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

std::size_t Context::offer_progress() {
    if (!multiple_) return progress();
    if (callers_waiting_.load(std::memory_order_relaxed) == 0) {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (lock.owns_lock()) return progress();
    }
    std::this_thread::yield();
    return 0;
}

// The thread takes part like any waiting caller, but gives the core away from the start: it is not the one in a hurry.
void Context::run_progress_thread() {
    transport::Idle idle(true);
    while (!stop_.load(std::memory_order_relaxed)) {
        std::size_t events = 0;
        try {
            events = offer_progress();
        } catch (const std::bad_alloc&) {
            // Whatever needed the memory is tried again; a caller's own call will tell of it.
        }
        if (events > 0) {
            idle.reset();
        } else {
            idle.pause();
        }
    }
}

}  // namespace coppice::engine
