// Files that say where hosts are: what is read from good ones, and what is said of bad ones.
#include "topology/network_file.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace coppice::topology {
namespace {

NetworkFile read(std::string_view text) {
    auto file = parse_network_file(text, "net");
    EXPECT_TRUE(file.has_value()) << file.error();
    return file ? std::move(*file) : NetworkFile{.kind = ""};
}

std::string refusal(std::string_view text) {
    const auto file = parse_network_file(text, "net");
    EXPECT_FALSE(file.has_value());
    return file ? "" : file.error();
}

// "pod/leaf" of each host.
std::map<std::string, std::string> places(const NetworkFile& file) {
    std::map<std::string, std::string> places;
    for (const NetworkHost& host : file.hosts)
        places[host.name] = file.pods.at(host.site.pod) + "/" + file.leaves.at(host.site.leaf);
    return places;
}

std::vector<std::string> expanded(std::string_view list) {
    std::vector<std::string> names;
    EXPECT_TRUE(expand_hostlist(list, names)) << list;
    return names;
}

using Names = std::vector<std::string>;

TEST(Hostlist, Expands) {
    EXPECT_EQ(expanded("n1"), Names{"n1"});
    EXPECT_EQ(expanded("n[1-3,7],m2"), (Names{"n1", "n2", "n3", "n7", "m2"}));
    EXPECT_EQ(expanded("n[08-11]"), (Names{"n08", "n09", "n10", "n11"}));
    EXPECT_EQ(expanded("r[1-2]n[1-2]"), (Names{"r1n1", "r1n2", "r2n1", "r2n2"}));
    EXPECT_EQ(expanded("n[1-2]-ib"), (Names{"n1-ib", "n2-ib"}));
}

TEST(Hostlist, RefusesWhatIsNone) {
    for (const char* list : {"", "n[", "n[]", "n[1-]", "n[2-1]", "n[a]", "n1,", ",n1", "n[1]]", "n[1-9999999]",
                             "n[0-1023]m[0-1024]", "n[99999999999999999999]", "a b", "n[-1]"}) {
        Names names;
        EXPECT_FALSE(expand_hostlist(list, names)) << list;
    }
}

TEST(SlurmAddress, IsAPath) {
    EXPECT_EQ(parse_slurm_address("spine[1-2].leaf1.n1", "switch.switch.node").value(),
              (Names{"spine[1-2]", "leaf1", "n1"}));
    EXPECT_EQ(parse_slurm_address("n1.cluster.org", "node").value(), Names{"n1.cluster.org"});
    EXPECT_EQ(parse_slurm_address("b4.n1", "block.node").value(), (Names{"b4", "n1"}));
    for (const auto& [address, pattern] : std::map<std::string, std::string>{{"leaf1", "switch.node"},
                                                                             {"a.n1", "rack.node"},
                                                                             {"a.n1", ""},
                                                                             {"a.n1", "switch.switch"},
                                                                             {".n1", "switch.node"},
                                                                             {"a b.n1", "switch.node"}})
        EXPECT_FALSE(parse_slurm_address(address, pattern)) << address << " " << pattern;
}

TEST(SlurmTopology, OfSwitches) {
    const NetworkFile file = read(R"(
# three levels
switchname=leaf1 nodes=n[1-2]
SwitchName=leaf2 Nodes=n[3-4]   # a comment
SwitchName=leaf3 Nodes=n5 LinkSpeed=1
SwitchName=pod1 Switches=leaf[1-2]
SwitchName=pod2 \
  Switches=leaf3
SwitchName=top Switches=pod[1-2]
)");
    EXPECT_EQ(file.kind, "topology.conf");
    EXPECT_EQ(places(file), (std::map<std::string, std::string>{{"n1", "pod1/leaf1"},
                                                                {"n2", "pod1/leaf1"},
                                                                {"n3", "pod1/leaf2"},
                                                                {"n4", "pod1/leaf2"},
                                                                {"n5", "pod2/leaf3"}}));
}

// Several spines over the same leaves, as scontrol prints them.
TEST(SlurmTopology, AsScontrolPrintsIt) {
    const NetworkFile file = read(
        "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-2]\r\n"
        "SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[3-4]\r\n"
        "SwitchName=spine1 Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=leaf[1-2]\r\n"
        "SwitchName=spine2 Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=leaf[1-2]\r\n");
    EXPECT_EQ(file.pods, Names{"spine1"});
    EXPECT_EQ(file.leaves, (Names{"leaf1", "leaf2"}));
    EXPECT_EQ(file.hosts.size(), 4U);
}

TEST(SlurmTopology, OfBlocks) {
    const NetworkFile file = read("BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockSizes=4\n");
    EXPECT_EQ(file.leaves, (Names{"b1", "b2"}));
    EXPECT_EQ(file.pods.size(), 2U) << "nothing is known to be above blocks";
}

TEST(SlurmTopology, SaysWhatIsWrongAndWhere) {
    EXPECT_EQ(refusal("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n[1-2]\n"),
              "net:2: host \"n1\" is below \"b\" and, in line 1, below \"a\"");
    EXPECT_EQ(refusal("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n"),
              "net:2: switch \"a\" stands in line 1 already");
    EXPECT_EQ(refusal("SwitchName=a Nodes=n1\nSwitchName=b Switches=a,c\n"),
              "net:2: switch \"c\" is below \"b\" and described nowhere");
    EXPECT_EQ(refusal("SwitchName=l Nodes=n1\nSwitchName=a Switches=b,l\nSwitchName=b Switches=a\n"),
              "net:2: below switch \"a\" there is a cycle");
    EXPECT_EQ(refusal("SwitchName=a Nodes=n1\nNodeName=n1 CPUs=4\n"),
              "net:2: no topology.conf has the key \"NodeName\"");
    EXPECT_EQ(refusal("SwitchName=a\n"), "net:1: switch \"a\" has neither Nodes nor Switches");
    EXPECT_EQ(refusal("SwitchName=a Nodes=n\x1b[1m\n"), "net:1: host list \"n?[1m\": a bracket is not closed");
}

constexpr const char* kTwoLeaves = R"(#
# Topology file: generated on Sun Nov 22 2026
#
vendid=0x0
switchguid=0x200000(200000)
Switch	4 "S-1"		# "leaf1" base port 0 lid 3 lmc 0
[1]	"H-1"[1](100001) 		# "n1 mlx5_0" lid 1 4xSDR
[2]	"H-2"[1] 		# "n2 mlx5_0" lid 2 4xSDR
[3]	"S-3"[1]		# "spine" lid 5 4xSDR

Switch	4 "S-2"		# "leaf2" base port 0 lid 4 lmc 0
[1]	"H-3"[1]		# "n3 mlx5_0"
[3]	"S-3"[2]		# "spine" lid 5 4xSDR

Switch	4 "S-3"		# "spine" base port 0 lid 5 lmc 0
[1]	"S-1"[3]
[2]	"S-2"[3]

caguid=0x100000
Ca	1 "H-1"		# "n1 mlx5_0"
[1](100001) 	"S-1"[1]		# lid 1 lmc 0 "leaf1" lid 3 4xSDR

Ca	1 "H-2"		# "n2 mlx5_0"
[1](100003) 	"S-1"[2]		# lid 2

Ca	1 "H-3"		# "n3 mlx5_0"
[1](100005) 	"S-2"[1]		# lid 6
)";

TEST(Fabric, OfTwoLevels) {
    const NetworkFile file = read(kTwoLeaves);
    EXPECT_EQ(file.kind, "ibnetdiscover");
    EXPECT_EQ(places(file), (std::map<std::string, std::string>{
                                {"n1", "spine/leaf1"}, {"n2", "spine/leaf1"}, {"n3", "spine/leaf2"}}));
    EXPECT_TRUE(file.remarks.empty());
}

TEST(Fabric, WithMoreThanAFatTreeHas) {
    const std::string text = std::string(kTwoLeaves) + R"(
Ca	1 "H-9"		# "n9 mlx5_0"

Ca	1 "H-4"		# "n1 mlx5_1"
[1]	"S-2"[2]

Ca	1 "H-5"		# "Mellanox Technologies Aggregation Node"
[1]	"S-3"[9]
)";
    const NetworkFile file = read(text);
    EXPECT_EQ(file.hosts.size(), 3U);
    EXPECT_EQ(file.remarks,
              (Names{"1 adapters have no link to a switch and are left out",
                     "1 adapters are a switch's own (aggregation nodes) and are left out",
                     "1 further adapters of hosts are on another leaf than the first one, which counts"}));
}

// A second adapter of n1, on the other leaf, and one that nobody has given a name.
constexpr const char* kTwoRails = R"(
Ca	1 "H-00000000000000f4"		# "n1 mlx5_1"
[1](f5) 	"S-2"[2]		# lid 7

Ca	1 "H-0c42a10300f6b1c2"		# "MT4119 ConnectX5   Mellanox Technologies"
[1](f7) 	"S-2"[3]		# lid 8

Ca	1 "H-0c42a10300f6b1c3"		# "MT4119 ConnectX5   Mellanox Technologies"
[1](f7) 	"S-1"[4]		# lid 9
)";

TEST(Fabric, KnowsHostsByTheGuidsOfAllTheirAdapters) {
    const NetworkFile file = read(std::string(kTwoLeaves) + kTwoRails);
    const auto where = [&file](std::string_view name, std::vector<std::uint64_t> guids) {
        const auto found = find_host(file, name, guids);
        return found ? file.hosts[found->host].name : std::string("nowhere");
    };
    EXPECT_EQ(where("n1", {}), "n1");
    EXPECT_EQ(where("n1.cluster.example", {}), "n1");
    EXPECT_EQ(where("renamed", {0xf4}), "n1") << "by its second adapter";
    EXPECT_EQ(where("n2", {0x77, 0xf4}), "n1") << "a cable says more than a name";
    EXPECT_EQ(where("n2", {0x77}), "n2") << "a device that the file does not have says nothing";
    EXPECT_EQ(where("n7", {0x77}), "nowhere");
    EXPECT_EQ(where("MT4119", {}), "nowhere");
    EXPECT_EQ(find_host(file, "", std::vector<std::uint64_t>{0xf4})->guid, 0xf4U);
    EXPECT_EQ(find_host(file, "n1", {})->guid, 0U);
}

TEST(Fabric, AdaptersThatDoNotSayWhoseTheyAreAreHostsOfTheirOwn) {
    const NetworkFile file = read(std::string(kTwoLeaves) + kTwoRails);
    ASSERT_EQ(file.hosts.size(), 5U);
    const auto found = find_host(file, "n8", std::vector<std::uint64_t>{0x0c42a10300f6b1c3});
    ASSERT_TRUE(found);
    EXPECT_EQ(file.hosts[found->host].name, "H-0c42a10300f6b1c3");
    EXPECT_EQ(file.leaves[file.hosts[found->host].site.leaf], "leaf1");
    EXPECT_EQ(file.remarks.front(),
              "2 adapters do not say whose they are: each counts as a host, which knows itself by the adapter's GUID");
}

TEST(NetworkList, HasNamesAlone) {
    const NetworkFile file = read("n1 leaf1\nn2 leaf1\n");
    EXPECT_EQ(find_host(file, "n2", std::vector<std::uint64_t>{0xf4})->host, 1U);
}

TEST(Fabric, SaysWhatIsWrongAndWhere) {
    EXPECT_EQ(refusal("Switch 4 \"S-1\" # \"leaf1\"\n[1] \"H-1\"[1]\n"),
              "net:2: node \"H-1\" is linked here and described nowhere: is the file cut short?");
    EXPECT_EQ(refusal("Switch 4 \"S-1\"\n\nSwitch 4 \"S-1\"\n"), "net:3: node \"S-1\" stands in line 1 already");
    EXPECT_EQ(refusal("vendid=0x0\n[1] \"S-1\"[1]\n"), "net:2: a link of no node");
    EXPECT_EQ(refusal("Switch 4 \"S-1\"\n[1] S-2\n"), "net:2: a link that leads nowhere: \"[1] S-2\"");
    EXPECT_EQ(refusal("Switch 4 \"S-1\"\nhello\n"), "net:2: expected a node or a link of a fabric, not \"hello\"");
    EXPECT_EQ(refusal("Switch 4 \"S-1\"\n"), "net: no host in it");
}

TEST(NetworkList, IsAHostALine) {
    const NetworkFile file = read("# rack\nn1 l1 p1\nn2 l1 p1\n\nn3 l2 p2 # far\n");
    EXPECT_EQ(places(file), (std::map<std::string, std::string>{{"n1", "p1/l1"}, {"n2", "p1/l1"}, {"n3", "p2/l2"}}));
    EXPECT_EQ(read("n1 l1\nn2 l2\n").pods, Names{""});
}

TEST(NetworkList, SaysWhatIsWrongAndWhere) {
    EXPECT_EQ(refusal(""), "net: nothing in it");
    EXPECT_EQ(refusal("# nothing\n\n"), "net: nothing in it");
    EXPECT_EQ(refusal("n1 l1\nn1 l2\n"), "net:2: host \"n1\" stands in line 1 already");
    EXPECT_EQ(refusal("n1 l1 p1\nn2 l1 p2\n"), "net:2: leaf \"l1\" is in pod \"p1\" elsewhere, and in \"p2\" here");
    EXPECT_EQ(refusal("n1\n"),
              "net:1: expected HOST LEAF [POD], not \"n1\"; nor is it ibnetdiscover's output or a topology.conf");
    EXPECT_EQ(refusal("n\x01 l1\n"), "net:1: \"n?\" is no name");
    EXPECT_EQ(refusal(std::string(300, 'n') + " l1\n").substr(0, 7), "net:1: ");
}

TEST(NetworkList, AMillionLines) {
    std::string text;
    for (std::uint32_t host = 0; host < kMaxNetworkHosts; ++host)
        text.append("n").append(std::to_string(host)).append(" l").append(std::to_string(host / 32)).append("\n");
    EXPECT_EQ(read(text).leaves.size(), kMaxNetworkHosts / 32);
    EXPECT_EQ(refusal(text + "one more\n"), "net:1048577: more than 1048576 hosts");
}

// What the real ibnetdiscover has printed of fat trees that ibsim simulated and opensm ran (tests/topology/fabric_test.py).
TEST(Fabric, AsIbnetdiscoverPrintsIt) {
    struct Kept {
        const char* name;
        std::size_t hosts, leaves, pods;
    };
    for (const Kept& kept : {Kept{"fattree-k8.ibnet", 128, 32, 8}, Kept{"fattree-k8-2-levels.ibnet", 32, 8, 1},
                             Kept{"fattree-k8-leaf-missing.ibnet", 124, 31, 8}}) {
        std::ifstream in(std::string(TOPOLOGY_TEST_DATA "/") + kept.name);
        ASSERT_TRUE(in) << kept.name;
        std::stringstream text;
        text << in.rdbuf();
        const NetworkFile file = read(text.str());
        EXPECT_EQ(file.hosts.size(), kept.hosts) << kept.name;
        EXPECT_EQ(file.leaves.size(), kept.leaves) << kept.name;
        EXPECT_EQ(file.pods.size(), kept.pods) << kept.name;
        EXPECT_TRUE(Placement::make(file.sites(), TreeSpec{})) << kept.name;
        EXPECT_EQ(file.adapters.size(), kept.hosts) << kept.name;
        const auto found = find_host(file, "elsewhere", std::vector<std::uint64_t>{file.adapters.back().guid});
        ASSERT_TRUE(found) << kept.name;
        EXPECT_EQ(find_host(file, file.hosts[found->host].name, {})->host, found->host) << kept.name;
    }
}

}  // namespace
}  // namespace coppice::topology
