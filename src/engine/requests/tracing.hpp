// What the engine tells of operations to a trace (trace/recorder.hpp) and to probes (trace/probes.hpp). Where there is no trace, one
// load and one branch, which the caller makes.
//
// Under the context's guard.
#pragma once

#include "engine/core/group_trace.hpp"
#include "engine/requests/request.hpp"

namespace coppice::engine {

// What a request that has begun is, in a group of that name.
trace::Operation traced(const Request& request, const trace::Operation& group);

// A non-blocking request has begun; it may have ended, too. Only where there is a trace, which outlives the request.
void trace_begin(const GroupTrace& trace, Request& request, std::uint64_t began_ns);
void trace_end_now(Request& request);
// It has ended, or is given back.
inline void trace_end(Request& request) {
    if (request.traced != nullptr) [[unlikely]]
        trace_end_now(request);
}

}  // namespace coppice::engine
