// Context. Programs include <coppice/coppice.hpp>, of which this is a part.
#pragma once

#include <coppice/context.h>
#include <coppice/status.hpp>

#include <string>
#include <utility>

namespace coppice {
inline namespace v0 {

enum class ThreadMode { kSingle = COPPICE_THREAD_SINGLE, kMultiple = COPPICE_THREAD_MULTIPLE };

// What is left empty or false takes the value of its environment variable, else the default.
struct ContextOptions {
    ThreadMode thread_mode = ThreadMode::kSingle;
    int progress_thread = 0;      // as in coppice.h: 0 default, 1 with callbacks, -1 none
    std::string transports = {};  // "shm,tcp"
};

class Context {
  public:
    Context() = default;
    Context(Context&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Context& operator=(Context&& other) noexcept {
        Context taken(std::move(other));
        std::swap(handle_, taken.handle_);
        return *this;
    }
    // A context that still has groups stays until the process ends.
    ~Context() { static_cast<void>(coppice_context_destroy(handle_)); }

    static Context create(const ContextOptions& options = {}) {
        Context context;
        detail::throw_unless_ok(try_create(options, context));
        return context;
    }
    static Status try_create(const ContextOptions& options, Context& context) noexcept {
        coppice_context_options_t plain = COPPICE_CONTEXT_OPTIONS_INIT;
        plain.thread_mode = static_cast<coppice_thread_mode_t>(options.thread_mode);
        plain.progress_thread = options.progress_thread;
        plain.transports = detail::or_null(options.transports);
        Context made;
        const Status status = detail::from_c(coppice_context_create(&plain, &made.handle_));
        if (status == Status::kOk) context = std::move(made);
        return status;
    }

    void progress() { detail::throw_unless_ok(try_progress()); }
    Status try_progress() noexcept { return detail::from_c(coppice_progress(handle_)); }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    coppice_context_t* native() const noexcept { return handle_; }  // stays this object's

  private:
    coppice_context_t* handle_ = nullptr;
};

}  // namespace v0
}  // namespace coppice
