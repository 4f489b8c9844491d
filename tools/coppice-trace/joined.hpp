// One trace of several.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "clocks.hpp"
#include "records.hpp"

namespace coppice::trace {

// By what a reader of a trace knows a process.
std::string name_of(const Trace& trace);

// All records by time, those of each process with a number of its own, after what each process is called. The first one is at 0. The
// traces' records are changed.
void join(std::ostream& out, std::vector<Trace>& traces, const Order& order);

}  // namespace coppice::trace
