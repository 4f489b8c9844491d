// --hosts: simulated hosts, each a network namespace of its own with mounts to match, joined by a bridge; or by
// one for each leaf, as hosts of a fat tree are by their leaf switches, and one above these.
//
// All namespaces are anonymous: they are held by descriptors of the launcher and by the ranks in them, and
// vanish with the launcher and the last of these, however they end. Root makes them directly; other users through a user
// namespace of the launcher, in which user and group ids stay what they are.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace coppice::run {

inline constexpr std::uint32_t kMaxHosts = 250;
using HostSet = std::bitset<kMaxHosts>;

// Where a rank runs. Ranks are dealt out in blocks, as clusters do: the first ranks on host 0, and so on; the
// first (ranks mod hosts) hosts have one rank more.
struct Placement {
    std::uint32_t host = 0;
    std::uint32_t local_rank = 0;
    std::uint32_t local_size = 0;
};
Placement place_in_blocks(std::uint32_t rank, std::uint32_t ranks, std::uint32_t hosts);
// Processes beyond the ranks, which come later, are dealt out in turn, and are none of those that a host begins with.
constexpr std::uint32_t host_of_latecomer(std::uint32_t number, std::uint32_t ranks, std::uint32_t hosts) {
    return (number - ranks) % hosts;
}
// Of either.
Placement place_of(std::uint32_t number, std::uint32_t ranks, std::uint32_t hosts);
// So are hosts to leaves, which divide them.
constexpr std::uint32_t leaf_of(std::uint32_t host, std::uint32_t hosts, std::uint32_t leaves) {
    return host / (hosts / leaves);
}

class Hosts {
  public:
    // Makes the namespaces, the bridge and its cables; with leaves a bridge for each, and that one above them; or one for `far_side`,
    // if any, and a trunk between the two. The calling process (single-threaded) moves into the bridge's namespace, and perhaps
    // into a user namespace, for good.
    static Result<std::unique_ptr<Hosts>> create(std::uint32_t hosts, std::uint32_t ranks, std::uint32_t leaves,
                                                 const HostSet& far_side);
    ~Hosts();
    Hosts(const Hosts&) = delete;
    Hosts& operator=(const Hosts&) = delete;

    std::uint32_t count() const { return hosts_; }
    Placement place(std::uint32_t number) const;
    // The bridge's end of a host's cable.
    static std::string port_name(std::uint32_t host);
    // What joins the hosts.
    static constexpr const char* kBridge = "coppice";
    // A leaf's end of the link to the bridge above.
    static std::string uplink_name(std::uint32_t leaf);
    // The two ends of the trunk, on `kBridge` and on the far side's.
    static constexpr const char* kTrunkEnds[] = {"trunk", "far-trunk"};
    bool has_trunk() const { return far_side_.any(); }
    // The host's end, and its address, "10.99.0.1" and so on.
    std::string interface_name(std::uint32_t host) const;
    std::string address(std::uint32_t host) const;

    // In a child: moves into the rank's host. Returns 0 or an errno.
    int join(std::uint32_t rank) const;
    // One in each host's network, for requests to its interfaces; −1: none could be had. The caller owns them, and has the rights.
    std::vector<int> open_sockets() const;
    // Gives up the rights that a user namespace gave to the launcher: a rank may look at /proc of the
    // launcher only if it has every right that the launcher has. To be called before any rank runs.
    void drop_rights() const;
    bool will_drop_rights() const { return user_namespace_; }

  private:
    Hosts(std::uint32_t hosts, std::uint32_t ranks, std::uint32_t leaves, const HostSet& far_side)
        : hosts_(hosts), ranks_(ranks), leaves_(leaves), far_side_(far_side) {}
    Result<void> make_namespaces();
    Result<void> cable();
    void make_mounts();
    std::string bridge_of(std::uint32_t host) const;
    Result<void> wait_for_links();
    static Result<void> wait_for_link(const std::string& interface, std::uint64_t deadline_ns);

    std::uint32_t hosts_;
    std::uint32_t ranks_;
    std::uint32_t leaves_;
    HostSet far_side_;
    bool user_namespace_ = false;
    int bridge_ = -1;  // descriptors of the network namespaces
    std::vector<int> descriptors_;
    // Of the mount namespaces, of the first hosts at least: ranks of the others make their own.
    std::vector<int> mounts_;
};

}  // namespace coppice::run
