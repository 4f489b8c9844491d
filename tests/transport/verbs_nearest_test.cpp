// Which device is near to which cores, on a machine that is read from a file: two packages with two shared caches of two cores each;
// mlx5_0 hangs on the first package, mlx5_1 on the last cache, mlx5_2 on the second package, mlx5_3 on the machine.
#include "transport/verbs/nearest.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace coppice::transport::verbs {
namespace {

class Nearest : public ::testing::Test {
  protected:
    Nearest() {
        const std::filesystem::path file = std::filesystem::path(TEST_DATA) / "two-packages.xml";
        hwloc_topology_init(&topology_);
        EXPECT_EQ(hwloc_topology_set_xml(topology_, file.c_str()), 0);
        hwloc_topology_set_io_types_filter(topology_, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
        EXPECT_EQ(hwloc_topology_load(topology_), 0);
    }
    ~Nearest() override { hwloc_topology_destroy(topology_); }

    // Of a process that is bound to these cores, as "0-3,6".
    std::vector<std::string> order(const char* cores,
                                   std::vector<std::string> names = {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"}) {
        hwloc_bitmap_t own = hwloc_bitmap_alloc();
        hwloc_bitmap_list_sscanf(own, cores);
        auto sorted = by_nearness(topology_, own, std::move(names));
        hwloc_bitmap_free(own);
        return sorted;
    }

    using Names = std::vector<std::string>;
    hwloc_topology_t topology_ = nullptr;
};

TEST_F(Nearest, ThatOfTheOwnPackageComesFirst) {
    EXPECT_EQ(order("1"), (Names{"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"}));
    EXPECT_EQ(order("4"), (Names{"mlx5_1", "mlx5_2", "mlx5_0", "mlx5_3"}));
    EXPECT_EQ(order("4-7"), (Names{"mlx5_1", "mlx5_2", "mlx5_0", "mlx5_3"}));
}

TEST_F(Nearest, ThatOfTheOwnCacheComesBeforeThatOfThePackage) {
    EXPECT_EQ(order("7", {"mlx5_2", "mlx5_1"}), (Names{"mlx5_1", "mlx5_2"}));
    EXPECT_EQ(order("4", {"mlx5_2", "mlx5_1"}), (Names{"mlx5_2", "mlx5_1"}));
}

TEST_F(Nearest, AProcessOnAllCoresTakesThemAsTheyCome) {
    EXPECT_EQ(order("0-7", {"mlx5_2", "mlx5_0", "mlx5_3"}), (Names{"mlx5_2", "mlx5_0", "mlx5_3"}));
    EXPECT_EQ(order("3,4", {"mlx5_2", "mlx5_0"}), (Names{"mlx5_2", "mlx5_0"}));
}

TEST_F(Nearest, DevicesThatTheTopologyDoesNotHaveComeLast) {
    EXPECT_EQ(order("4", {"rxe0", "mlx5_3", "mlx5_2"}), (Names{"mlx5_2", "mlx5_3", "rxe0"}));
    EXPECT_EQ(order("4", {}), Names{});
}

// Whatever the machine is: none is lost.
TEST(NearestHere, EveryNameIsThereAgain) {
    EXPECT_EQ(by_nearness_here({"no_such_device", "nor_this"}),
              (std::vector<std::string>{"no_such_device", "nor_this"}));
}

}  // namespace
}  // namespace coppice::transport::verbs
