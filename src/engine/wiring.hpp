// Which transport reaches a process: the first one of this rank's that gave an address there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "engine/seats.hpp"
#include "engine/settings.hpp"

namespace coppice::engine {

// One that takes a seat.
struct Process {
    std::uint32_t incarnation = 0;  // how many had the seat before
    std::string_view host;          // host_identity(); the dead of the start are counted to some host
    // As append_address() makes them. Kept in the directory where processes may join.
    std::span<const std::byte> addresses;
};

// Makes the process known to that transport. The seat must be free. COPPICE_ERR_PEER_FAILED: it is dead already.
Result<void> wire_peer(Seats& seats, const Settings& settings, std::string_view own_host, Seat seat,
                       const Process& process);

}  // namespace coppice::engine
