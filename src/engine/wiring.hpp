// Which transport reaches a process: the first one of this rank's that gave an address there.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "engine/directory.hpp"
#include "engine/settings.hpp"
#include "engine/transport_set.hpp"

namespace coppice::engine {

// Makes the process that takes the seat known to that transport. The seat must be free. COPPICE_ERR_PEER_FAILED: it is dead already.
// `addresses` as append_address() makes them; they are kept in the directory where processes may join.
Result<void> wire_peer(TransportSet& transport_set, const Settings& settings, std::string_view own_host, Seat seat,
                       Directory::Holder holder, std::span<const std::byte> addresses);

}  // namespace coppice::engine
