// Which transports a rank of a new group makes: those that reach somebody, of the ones that are allowed or that the hardware decides on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/error.hpp"
#include "engine/formation/meeting.hpp"
#include "engine/platform.hpp"
#include "engine/settings.hpp"
#include "engine/transport_set.hpp"
#include "transport/faults.hpp"
#include "transport/host_memory.hpp"
#include "transport/regions.hpp"

namespace coppice::engine {

// What a rank has to reach.
struct Reach {
    std::uint32_t capacity = 1;
    std::uint32_t local_ranks = 1;  // alive, on this host
    bool has_local_peers = false;   // dead or alive
    bool has_far_peers = false;     // alive
    bool is_alone = false;
};

struct MadeTransports {
    transport::HostMemory* host_memory = nullptr;            // of one of the transports; null: none shares memory
    std::shared_ptr<transport::MessageCount> fault_count{};  // null: no faults are planted
};

// Where a transport can't be had but another one is allowed too, a rank does without: others then find no address of its kind.
bool can_do_without(const Settings& settings, const TransportChoice& choice);

// They are in `set` afterwards. `platform`: null outside of the simulator.
Result<MadeTransports> make_transports(TransportSet& set, const Settings& settings, const Meeting& meeting,
                                       const Reach& reach, std::span<const transport::Region> regions,
                                       Platform* platform);

}  // namespace coppice::engine
