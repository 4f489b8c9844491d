// What the files of the C API share: opaque types, the guard at the border, the last error.
//
// This room checks arguments and maps errors, nothing else.
#pragma once

#include <new>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "coppice/coppice.h"
#include "engine/context.hpp"
#include "engine/group.hpp"

struct coppice_context {
    std::unique_ptr<coppice::engine::Context> engine;
};

struct coppice_group {
    coppice::engine::Context* context = nullptr;
    std::unique_ptr<coppice::engine::Group> engine;
};

// A coppice_request_t is never defined: the pointer is the engine's own request.

namespace coppice::api {

// Remembers the sentence for coppice_last_error() of this thread and gives the status back.
coppice_status_t remember(coppice_status_t status, std::string message) noexcept;
inline coppice_status_t remember(Error error) noexcept {
    return remember(error.status, std::move(error.message));
}
coppice_status_t null_argument(const char* call, const char* argument) noexcept;

// Runs a call's body so that no exception crosses the C border.
template <class Body>
coppice_status_t guarded(Body&& body) noexcept {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return remember(COPPICE_ERR_NO_MEMORY, "out of memory");
    } catch (...) {
        return remember(COPPICE_ERR_INTERNAL, {});
    }
}

inline engine::Request& request_of(coppice_request_t* request) {
    return *reinterpret_cast<engine::Request*>(request);
}
inline const engine::Request& request_of(const coppice_request_t* request) {
    return *reinterpret_cast<const engine::Request*>(request);
}
inline coppice_request_t* handle_of(engine::Request* request) {
    return reinterpret_cast<coppice_request_t*>(request);
}

}  // namespace coppice::api
