#include "engine/requests/tracing.hpp"

#include <utility>

#include "engine/core/collective.hpp"

namespace coppice::engine {

trace::Operation traced(const Request& request, const trace::Operation& group) {
    trace::Operation operation = group;
    operation.kind = request.collective->kind();
    operation.number = request.sequence.value;
    operation.root = request.root.value;
    return operation;
}

void trace_begin(const GroupTrace& trace, Request& request, std::uint64_t began_ns) {
    trace.recorder->request_begins(traced(request, trace.name), request.capacity, began_ns);
    request.traced = &trace;
    if (request.state == RequestState::done) trace_end_now(request);
}

void trace_end_now(Request& request) {
    const GroupTrace& trace = *std::exchange(request.traced, nullptr);
    const bool is_over = request.state == RequestState::done;
    trace.recorder->request_ends(traced(request, trace.name), is_over ? request.status : COPPICE_IN_PROGRESS);
}

}  // namespace coppice::engine
