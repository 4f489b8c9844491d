// Forming a group: which ranks are there, which share a host, which transport reaches which.
//
// Two exchanges. First everybody says what it is (version, word size, host, settings), so that disagreement is found and
// named before anything is opened; only then are the transports made that are needed, and their addresses exchanged.
#pragma once

#include <memory>

#include "base/error.hpp"
#include "bootstrap/bootstrap.hpp"
#include "engine/group.hpp"

namespace coppice::engine {

// Collective. `deadline_ns` is on the engine's clock. A rank whose entry is empty is a failed member from the start.
Result<std::unique_ptr<Group>> form_group(Context& context, const Settings& settings, bootstrap::Bootstrap& bootstrap,
                                          Group::FailureCallback on_failure, std::uint64_t deadline_ns);

}  // namespace coppice::engine
