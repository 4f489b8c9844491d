// Coppice for C++20: RAII over coppice.h, header-only.
//
// coppice.h and docs/ say what an operation does, promises and costs. Here is only what C++ adds:
//
//  - Objects own what they stand for and are move-only. An object made by its default constructor, or moved from, is empty:
//    it may be assigned to, destroyed and asked `if (object)`, and nothing else.
//  - Lifetimes nest as in C: a Context outlives its Groups, a Group its Requests, Views and Registrations. Objects that are
//    declared in this order in one scope end in the right order.
//  - Every call that can fail exists twice. `try_…` never throws and returns a Status; its result goes to an out
//    parameter, which keeps its value unless the Status is kOk. The other one returns the result and throws Error, which
//    carries the Status and the sentence of last_error().
//  - Payloads are spans of bytes: std::as_bytes and std::as_writable_bytes make them of other spans.
//  - Deadlines are std::chrono durations from now. Negative ones count as 0, kNoTimeout waits for ever.
//
// Everything is in an inline namespace that carries the number of the ABI, so that a program may link the
// static library, whose own names are in namespace coppice too.
#pragma once

#include <coppice/coppice.h>
#include <coppice/agreement.hpp>
#include <coppice/context.hpp>
#include <coppice/group.hpp>
#include <coppice/group_options.hpp>
#include <coppice/request.hpp>
#include <coppice/shrinking.hpp>
#include <coppice/status.hpp>
