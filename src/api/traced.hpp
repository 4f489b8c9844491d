// A call that may block, in the trace of this process and for probes. Where there is no trace, a few branches.
#pragma once

#include "api/api.hpp"
#include "engine/requests/tracing.hpp"
#include "trace/probes.hpp"

namespace coppice::api {

// From its construction to its end. Within a Visit, or around one; the context outlives it.
class TracedCall {
  public:
    TracedCall(engine::Context& context, std::string_view name, const trace::Operation& operation, size_t bytes = 0)
        : context_(context), operation_(operation) {
        COPPICE_PROBE(4, call__begin, static_cast<int>(operation.kind), operation.token, operation.root, bytes);
        if (context_.trace() == nullptr) [[likely]]
            return;
        const engine::Context::Guard guard(context_);
        context_.trace()->call_begins(name, operation, bytes);
    }
    TracedCall(engine::Context& context, const trace::Operation& operation, size_t bytes = 0)
        : TracedCall(context, trace::name_of(operation.kind), operation, bytes) {}
    TracedCall(const TracedCall&) = delete;
    TracedCall& operator=(const TracedCall&) = delete;

    // The request by which the call waits, if it has begun.
    void is(const engine::Request& request) {
        if (context_.trace() != nullptr && request.collective != nullptr)
            operation_ = engine::traced(request, request.group->core().around().trace().name);
    }
    void is(const trace::Operation& operation) { operation_ = operation; }
    coppice_status_t ended(coppice_status_t status) {
        COPPICE_PROBE(4, call__end, static_cast<int>(operation_.kind), operation_.token, operation_.number,
                      static_cast<int>(status));
        if (context_.trace() == nullptr) [[likely]]
            return status;
        const engine::Context::Guard guard(context_);
        context_.trace()->call_ends(operation_, status);
        return status;
    }

  private:
    engine::Context& context_;
    trace::Operation operation_;
};

// What a call is before it has a request.
inline trace::Operation named(const coppice_group& group, status::Kind kind) {
    trace::Operation operation = group.engine->core().around().trace().name;
    operation.kind = kind;
    return operation;
}

// A non-blocking operation has begun.
inline void trace_begin(engine::Context& context, engine::Request& request, std::uint64_t began_ns) {
    if (context.trace() != nullptr) [[unlikely]]
        engine::trace_begin(request.group->core().around().trace(), request, began_ns);
}
inline std::uint64_t trace_time(const engine::Context& context) {
    return context.trace() != nullptr ? context.trace()->now_ns() : 0;
}

}  // namespace coppice::api
