#include "engine/collectives/shrink/heirs.hpp"

#include <map>

namespace coppice::engine {

// What a rank knows of seats and their holders would not do: it may have heard already that a newcomer which it takes in has died, and
// of the process that has that number now, and others not.
Heirs heirs_of(const Members& members, const Lineage& lineage, std::span<const Heritage::Heir> heirs, Epoch since,
               bool by_host, const HostOfNewcomer& host_of) {
    std::map<std::uint64_t, std::uint32_t> node_of_host;
    for (std::uint32_t rank = 0; by_host && rank < members.ranks(); ++rank)
        node_of_host.emplace(lineage.of(Rank(rank)).host, members.node_of(Rank(rank)).value);
    std::uint32_t next_node = members.nodes();
    Heirs made{.members = {}, .switches = {members.switches().begin(), members.switches().end()}};
    std::vector<Birth::Member>& all = made.members;
    all.reserve(heirs.size());
    for (const Heritage::Heir& heir : heirs) {
        if (heir.before) {
            all.push_back({lineage.after(*heir.before), members.node_of(*heir.before).value});
            continue;
        }
        const NewcomersHost home = host_of(heir.number, heir.incarnation);
        const Origin origin{.seat = Seat(heir.number),
                            .incarnation = heir.incarnation,
                            .before = Origin::kNobody,
                            .since = since.value,
                            .host = home.number};
        const auto known = by_host ? node_of_host.find(origin.host) : node_of_host.end();
        if (known != node_of_host.end()) {
            all.push_back({origin, known->second});
            continue;
        }
        if (by_host) node_of_host.emplace(origin.host, next_node);
        if (!made.switches.empty()) made.switches.push_back(home.switches);
        all.push_back({origin, next_node++});
    }
    return made;
}

}  // namespace coppice::engine
