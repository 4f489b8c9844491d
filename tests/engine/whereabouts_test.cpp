// Which switches are above a host: which source is asked, and how a host finds itself in a file.
#include "engine/whereabouts.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/host.hpp"

namespace coppice::engine {
namespace {

class WhereaboutsTest : public ::testing::Test {
  protected:
    WhereaboutsTest() : folder_(std::filesystem::path(::testing::TempDir()) / "whereabouts-XXXXXX") {
        std::string name = folder_.string();
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    ~WhereaboutsTest() override { std::filesystem::remove_all(folder_); }

    std::string written(const std::string& name, const std::string& text) const {
        std::filesystem::create_directories((folder_ / name).parent_path());
        std::ofstream(folder_ / name) << text;
        return (folder_ / name).string();
    }
    static Whereabouts in_file(const std::string& path, const OwnNames& own) {
        Settings settings;
        settings.topology = path;
        const auto found = look_for_switches(settings, own, [](const char*) -> const char* { return nullptr; });
        EXPECT_TRUE(found);
        return found->at(1);
    }

    std::filesystem::path folder_;
};

constexpr const char* kFabric = R"(
Switch	4 "S-1"		# "leaf1"
[1]	"H-00000000000000f1"[1]
[3]	"S-9"[1]

Switch	4 "S-2"		# "leaf2"
[1]	"H-00000000000000f2"[1]
[3]	"S-9"[2]

Switch	4 "S-9"		# "spine"
[1]	"S-1"[3]
[2]	"S-2"[3]

Ca	1 "H-00000000000000f1"		# "n1 mlx5_0"
[1]	"S-1"[1]

Ca	1 "H-00000000000000f2"		# "n2 mlx5_0"
[1]	"S-2"[1]
)";

TEST_F(WhereaboutsTest, AFileKnowsAHostByItsAdaptersOrByItsName) {
    const std::string path = written("net", kFabric);
    const Whereabouts by_name = in_file(path, {"n1", {}});
    EXPECT_EQ(by_name.path, "spine/leaf1");
    EXPECT_EQ(by_name.how, "by its name, n1");
    const Whereabouts by_guid = in_file(path, {"n1", {0xf2}});
    EXPECT_EQ(by_guid.path, "spine/leaf2") << "n1 has been given n2's place, or n2 its name";
    EXPECT_EQ(by_guid.how, "by the GUID of an adapter, 00000000000000f2, of n2");
    EXPECT_EQ(in_file(path, {"n1", {0xf7}}).path, "spine/leaf1");
    const Whereabouts nowhere = in_file(path, {"n7", {0xf7}});
    EXPECT_EQ(nowhere.path, "");
    EXPECT_EQ(nowhere.why_not, path + " has no host n7, and none of its 1 RDMA devices");
    EXPECT_EQ(in_file(written("list", "n1 leaf1\n"), {"n7", {0xf7}}).why_not,
              (folder_ / "list").string() + " has no host n7");
}

TEST_F(WhereaboutsTest, SlurmSaysItToItsTasksWhereNobodyElseDoes) {
    std::string address = "spine[1-2].leaf1.n1", pattern = "switch.switch.node";
    const auto look = [&](const Settings& settings) {
        const auto found = look_for_switches(settings, {"n1"}, [&](const char* name) -> const char* {
            const std::string_view asked(name);
            return asked == "SLURM_TOPOLOGY_ADDR"           ? address.c_str()
                   : asked == "SLURM_TOPOLOGY_ADDR_PATTERN" ? pattern.c_str()
                                                            : nullptr;
        });
        EXPECT_TRUE(found);
        return *found;
    };
    Settings settings;
    EXPECT_EQ(switches_in(look(settings)), "spine[1-2]/leaf1");
    EXPECT_EQ(look(settings).at(2).source, "SLURM_TOPOLOGY_ADDR");
    settings.topology = written("list", "n1 leaf7\n");
    EXPECT_EQ(switches_in(look(settings)), "leaf7") << "what somebody has set comes first";
    EXPECT_EQ(look(settings).at(2).why_not, "not asked: another source has answered");
    settings.topology.clear();
    pattern = "node";
    EXPECT_EQ(switches_in(look(settings)), "");
    EXPECT_EQ(look(settings).at(2).why_not, "it names no switch");
    pattern = "rack.node";
    EXPECT_EQ(switches_in(look(settings)), "");
    EXPECT_NE(look(settings).at(2).why_not, "");
}

TEST_F(WhereaboutsTest, ASimulatedHostHasItsNameAlone) {
    Settings settings;
    settings.host = "n2";
    EXPECT_EQ(own_names(settings).host, "n2");
    EXPECT_TRUE(own_names(settings).guids.empty());
    settings.host.clear();
    EXPECT_NE(own_names(settings).host, "");
    EXPECT_EQ(own_names(settings).guids, rdma_node_guids());
}

TEST_F(WhereaboutsTest, GuidsAreReadAsTheKernelWritesThem) {
    written("class/mlx5_1/node_guid", "0c42:a103:00f6:b1c3\n");
    written("class/mlx5_0/node_guid", "0000:0000:0010:00f8\n");
    written("class/odd/node_guid", "no guid\n");
    written("class/none/node_guid", "0000:0000:0000:0000\n");
    written("class/empty/other", "");
    EXPECT_EQ(rdma_node_guids((folder_ / "class").string()),
              (std::vector<std::uint64_t>{0x1000f8, 0x0c42a10300f6b1c3}));
    EXPECT_TRUE(rdma_node_guids((folder_ / "elsewhere").string()).empty());
}

}  // namespace
}  // namespace coppice::engine
