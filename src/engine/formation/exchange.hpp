// The exchange of addresses when a group is made: each rank makes known to its transports whom it gets the address of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "bootstrap/bootstrap.hpp"
#include "engine/settings.hpp"
#include "engine/transport_set.hpp"
#include "topology/nodes.hpp"

namespace coppice::engine {

// What ranks know of each other by then.
struct Met {
    const Settings& settings;
    TransportSet& transport_set;  // has its transports
    Rank self;
    std::span<const std::string> hosts;  // by rank
    const std::vector<bool>& is_dead;    // by rank
    const topology::Nodes& nodes;
    std::uint32_t token;
    const Clock& clock;
};

// Whether ranks get the addresses of some others only, and copy the rest (copying.hpp): the same at all of them.
bool asks_for_few(const Settings& settings, const topology::Nodes& nodes, bool has_store);

// Among the addresses: the descriptor of the status page of the process that tells them, as an int.
inline constexpr std::string_view kPageName = "status";

struct Learned {
    // Those that have died meanwhile, as far as it is known.
    std::vector<Rank> dead;
    std::vector<Rank> silent;  // of these: they have given no address, so none of them has the group
    // Of ranks of this host.
    std::map<Rank, int> pages;
};

// Collective.
Result<Learned> exchange_addresses(bootstrap::Bootstrap& bootstrap, const Met& met, std::span<const std::byte> mine,
                                   std::uint64_t deadline_ns);

}  // namespace coppice::engine
