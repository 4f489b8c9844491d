// Which ranks are in the group that is made of another one, and on which node: the same at all members, whatever each has seen happen by now.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/collectives/shrink/succession.hpp"
#include "engine/core/members.hpp"
#include "engine/lineage.hpp"
#include "engine/newcomers/cards.hpp"

namespace coppice::engine {

// The host of a newcomer. Also of one that has died since, and whose number another process has by now.
using HostOfNewcomer = std::function<NewcomersHost(std::uint32_t number, std::uint32_t incarnation)>;

struct Heirs {
    std::vector<Birth::Member> members;
    std::vector<std::string> switches;  // Birth::switches
};

// `members` and `lineage` of the old group, `since` the new one's epoch. Without `by_host` each newcomer is a node of its own. A node keeps the
// path of switches that the first to come from there has named.
Heirs heirs_of(const Members& members, const Lineage& lineage, std::span<const Heritage::Heir> heirs, Epoch since,
               bool by_host, const HostOfNewcomer& host_of);

}  // namespace coppice::engine
