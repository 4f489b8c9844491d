// Which switches are above this host, from the first source that knows.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "engine/settings.hpp"
#include "topology/nodes.hpp"
#include "topology/placement.hpp"

namespace coppice::engine {

// A source and what it said: a path of switches (topology/switch_path.hpp), or why it has none.
struct Whereabouts {
    std::string_view source;
    std::string path{};
    std::string how{};  // by which this host was found in a file
    std::string why_not{};
};

// What a file may know this machine by.
struct OwnNames {
    std::string host;
    std::vector<std::uint64_t> guids{};  // of its RDMA devices' nodes
};

// As getenv.
using Environment = std::function<const char*(const char*)>;

// All sources, in the order in which they count: COPPICE_SWITCHES (the caller's option, or what a launcher says), the file of
// COPPICE_TOPOLOGY, Slurm's SLURM_TOPOLOGY_ADDR. Later ones are not asked once one has answered. A file that can't be read, or is wrong, is
// an error with its name and line.
Result<std::vector<Whereabouts>> look_for_switches(const Settings& settings, const OwnNames& own,
                                                   const Environment& environment);
// The path of the first that has one; empty when none has.
std::string switches_in(const std::vector<Whereabouts>& found);

// Those of this machine. A simulated host has its name alone: the devices are those of all of them.
OwnNames own_names(const Settings& settings);
// For a process of this machine.
Result<std::vector<Whereabouts>> look_for_switches_here(const Settings& settings);

// What a rank tells the others: the same, in short. In a world of the simulator's nothing is known but what is set.
Result<std::string> own_switches(const Settings& settings, bool is_simulated);

// The path of each node, by what each rank has told. COPPICE_ERR_MISMATCH, with the ranks: it is no path, or ranks
// of one node say different things.
Result<std::vector<std::string>> switches_by_node(const topology::Nodes& nodes, std::span<const std::string> switches);

}  // namespace coppice::engine
