// The first exchange of a group: what each rank says of itself and of its host, and what follows for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/words.hpp"
#include "bootstrap/bootstrap.hpp"
#include "engine/context.hpp"
#include "engine/settings.hpp"
#include "transport/ip_addresses.hpp"
#include "transport/secret.hpp"

namespace coppice::engine {

struct Meeting {
    Rank self{0};
    std::vector<std::string> hosts{};     // by rank; that of a dead one is a neighbour's
    std::vector<std::string> switches{};  // by rank: above its host
    std::vector<Rank> dead{};             // that have not come
    std::uint64_t token = 0;              // of this group alone
    transport::GroupSecret secret{};
    transport::HostAddresses own_addresses{};
    std::vector<transport::HostAddresses> their_addresses{};  // of the other ranks' hosts
    // The transports that a host is for when nobody has chosen, separated by commas.
    std::string own_defaults{};
    std::vector<std::string> far_defaults{};  // of the ranks on other hosts

    std::uint32_t size() const { return static_cast<std::uint32_t>(hosts.size()); }
    bool same_host(Rank rank) const { return hosts[rank.value] == hosts[self.value]; }
};

// Collective. Fails where ranks differ in what must be the same, and names the rank. `deadline_ns` is on the engine's clock.
Result<Meeting> meet(Context& context, const Settings& settings, bootstrap::Bootstrap& bootstrap,
                     std::uint64_t deadline_ns);

}  // namespace coppice::engine
