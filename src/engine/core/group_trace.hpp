// A group in the trace of its context.
#pragma once

#include "trace/recorder.hpp"

namespace coppice::engine {

struct GroupTrace {
    trace::Recorder* recorder = nullptr;  // null: nothing is traced
    trace::Operation name{};              // of the group alone
};

}  // namespace coppice::engine
