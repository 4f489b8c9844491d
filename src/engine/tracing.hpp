// What the engine tells of operations to a trace (trace/recorder.hpp) and to probes (trace/probes.hpp). Where there is no trace, one
// load and one branch, which the caller makes.
//
// Under the context's guard.
#pragma once

#include "engine/requests/request.hpp"
#include "trace/recorder.hpp"

namespace coppice::engine {

class Core;
class Group;

// A group by its name alone.
trace::Operation trace_name(const Core& core);
// What a request that has begun is.
trace::Operation traced(const Request& request);

// A non-blocking request has begun; it may have ended, too. Only where there is a trace.
void trace_begin(trace::Recorder& recorder, Request& request, std::uint64_t began_ns);
void trace_end_now(Request& request);
// It has ended, or is given back.
inline void trace_end(Request& request) {
    if (request.traced) [[unlikely]]
        trace_end_now(request);
}

}  // namespace coppice::engine
