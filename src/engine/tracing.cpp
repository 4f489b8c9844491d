#include "engine/tracing.hpp"

#include "engine/context.hpp"
#include "engine/group.hpp"

namespace coppice::engine {

trace::Operation trace_name(const Core& core) {
    return {.token = core.id().token, .epoch = core.id().epoch.value};
}

trace::Operation traced(const Request& request) {
    trace::Operation operation = trace_name(request.group->core());
    operation.kind = request.collective->kind();
    operation.number = request.sequence.value;
    operation.root = request.root.value;
    return operation;
}

void trace_begin(trace::Recorder& recorder, Request& request, std::uint64_t began_ns) {
    recorder.request_begins(traced(request), request.capacity, began_ns);
    request.traced = true;
    if (request.state == RequestState::done) trace_end_now(request);
}

void trace_end_now(Request& request) {
    request.traced = false;
    trace::Recorder* const recorder = request.group->context().trace();
    if (recorder == nullptr) return;
    const bool is_over = request.state == RequestState::done;
    recorder->request_ends(traced(request), is_over ? request.status : COPPICE_IN_PROGRESS);
}

}  // namespace coppice::engine
