// How a process that comes late gets to a group, started by the launcher or with a ticket: in place of formation.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.hpp"
#include "bootstrap/launcher_environment.hpp"
#include "engine/group.hpp"

namespace coppice::engine {

// Returns when the group has taken this process in, at its members' next renewal, however late that is, or when that can't be any more.
// `deadline_ns`: for that, on the engine's clock; UINT64_MAX: none. COPPICE_ERR_TIMEOUT when it has passed.
Result<std::unique_ptr<Group>> join_group(Context& context, const Settings& settings,
                                          const bootstrap::LauncherEnvironment& environment,
                                          Group::FailureCallback on_failure, std::uint64_t deadline_ns);

// The same with tickets (coppice_group_invite), one behind the other.
Result<std::unique_ptr<Group>> join_group(Context& context, const Settings& settings,
                                          std::span<const std::byte> tickets, Group::FailureCallback on_failure,
                                          std::uint64_t deadline_ns);

}  // namespace coppice::engine
