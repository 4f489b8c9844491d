// A transport's libraries, which are loaded when they are needed first (base/shared_library.hpp).
#pragma once

#include <mutex>
#include <string>

#include "base/error.hpp"
#include "base/shared_library.hpp"

namespace coppice::transport {

// By any thread. What is missing now may be there later, a descriptor, say: so it is tried again until all is loaded.
class Loading {
  public:
    Result<void> load(const char* transport, tl::expected<void, std::string> (*libraries)()) {
        const std::lock_guard lock(mutex_);
        if (is_loaded_) return {};
        const auto loaded = libraries();
        is_loaded_ = loaded.has_value();
        if (is_loaded_) return {};
        if (const auto limit = limit_of_used_up_descriptors())
            return fail(COPPICE_ERR_NO_RESOURCES, "{}: {} (the limit is {} descriptors: raise it with 'ulimit -n')",
                        transport, loaded.error(), *limit);
        return fail(COPPICE_ERR_NO_TRANSPORT, "{}: {}", transport, loaded.error());
    }

  private:
    std::mutex mutex_;
    bool is_loaded_ = false;
};

}  // namespace coppice::transport
