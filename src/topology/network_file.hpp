// Where hosts are, as files of schedulers and fabrics say it: the text in, names of leaf switches and pods out.
//
// Three kinds, told apart by their first line that says something:
//   ibnetdiscover    what that tool prints of an InfiniBand fabric, or the netlist that ibsim reads
//   topology.conf    Slurm's, of switches (SwitchName=…) or of blocks (BlockName=…); what `scontrol show topology` prints, too
//   list             "HOST LEAF [POD]", a line for each host
//
// Leaf switches are those with hosts. Leaves that share a switch above them are one pod. Files come from elsewhere: they are bounded,
// and what is wrong with one is a sentence with its name and line. What can be used as far as it goes is used, and
// remarked upon.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "topology/placement.hpp"

namespace coppice::topology {

inline constexpr std::size_t kMaxNetworkText = std::size_t{1} << 28;
inline constexpr std::uint32_t kMaxNetworkHosts = 1U << 20;
inline constexpr std::size_t kMaxNetworkName = 255;

struct NetworkHost {
    std::string name;
    Site site;  // indices into NetworkFile's leaves and pods
};

// An adapter of a fabric: the GUID of its node, and whose it is, an index into NetworkFile's hosts.
struct Adapter {
    std::uint64_t guid = 0;
    std::uint32_t host = 0;
};

struct NetworkFile {
    std::string_view kind;  // of a literal
    std::vector<NetworkHost> hosts{};
    std::vector<std::string> leaves{};  // their names, which need not differ
    std::vector<std::string> pods{};
    std::vector<Adapter> adapters{};  // of fabrics, in the order of the file
    std::vector<std::string> remarks{};

    std::vector<Site> sites() const;
};

// `name` is the file's, for what is said about it.
tl::expected<NetworkFile, std::string> parse_network_file(std::string_view text, std::string_view name);

// Which host of the file a machine is, and by which GUID it was found; 0: by its name.
struct FoundHost {
    std::uint32_t host = 0;
    std::uint64_t guid = 0;
};

// By the GUIDs of the machine's own adapters, where the file has one of them, else by its name: a cable says more than a name, which may
// have changed since. Of several the first in the file. What stands behind a dot in a name is a domain, which some sources leave out.
std::optional<FoundHost> find_host(const NetworkFile& file, std::string_view name,
                                   std::span<const std::uint64_t> guids);

// What Slurm tells each task in SLURM_TOPOLOGY_ADDR and SLURM_TOPOLOGY_ADDR_PATTERN, as names from the outermost switch to
// the host: "spine[1-2].leaf1.n1" with "switch.switch.node". Several switches that lead up are one name, as they stand there.
tl::expected<std::vector<std::string>, std::string> parse_slurm_address(std::string_view address,
                                                                        std::string_view pattern);

// "n[1-3,07]" → n1 n2 n3 n07; several brackets multiply. Adds to `names`, up to kMaxNetworkHosts in all; a sentence if it cannot.
tl::expected<void, std::string> expand_hostlist(std::string_view text, std::vector<std::string>& names);

}  // namespace coppice::topology
