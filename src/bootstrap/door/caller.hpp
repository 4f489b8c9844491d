// A process with a ticket: finds the member that keeps the door, and is let in there.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bootstrap/door/door.hpp"

namespace coppice::bootstrap {

// Tickets that stand one behind the other. COPPICE_ERR_INVALID_ARGUMENT: these are none; COPPICE_ERR_MISMATCH: of another version.
Result<std::vector<Ticket>> read_tickets(std::span<const std::byte> bytes);

std::uint64_t draw_joiner();

// Waits until it is let in, `deadline_ns` (CLOCK_MONOTONIC) at most, and asks in turn at all doors that the tickets name. What the door says
// next is an invitation.
// COPPICE_ERR_BOOTSTRAP: no ticket is good for anything, and why; COPPICE_ERR_NO_RESOURCES: the group is full; COPPICE_ERR_MISMATCH: it
// is of another version; COPPICE_ERR_TIMEOUT.
// `joiner`: drawn by the process, the same whenever it begins anew.
Result<std::unique_ptr<Door>> be_let_in(std::span<const Ticket> tickets, std::uint64_t joiner, bool host_only,
                                        const std::vector<DoorAddress::Ip>& ips, std::uint64_t deadline_ns);

}  // namespace coppice::bootstrap
