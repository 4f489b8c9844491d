// How a process that was started late comes to a group: in place of formation.hpp.
#pragma once

#include <memory>

#include "base/error.hpp"
#include "bootstrap/launcher_environment.hpp"
#include "engine/group.hpp"

namespace coppice::engine {

// Returns when the group has taken this process in, at its members' next renewal, however late that is, or when that can't be any more.
// `deadline_ns`: for that, on the engine's clock; UINT64_MAX: none. COPPICE_ERR_TIMEOUT when it has passed.
Result<std::unique_ptr<Group>> join_group(Context& context, const Settings& settings,
                                          const bootstrap::LauncherEnvironment& environment,
                                          Group::FailureCallback on_failure, std::uint64_t deadline_ns);

}  // namespace coppice::engine
