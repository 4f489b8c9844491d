// A CPU quota, in control groups that the test makes up; and in one of the kernel's, where it lets us make one.
#include "transport/cpu_quota.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace coppice::testing {
namespace {

namespace fs = std::filesystem;
using transport::CpuQuota;

constexpr double kCores = 4;

class CpuQuotaTest : public ::testing::Test {
  protected:
    CpuQuotaTest() {
        std::string name = fs::temp_directory_path() / "coppice-quota-XXXXXX";
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
        root_ = name;
        membership_ = root_ + "/membership";
        mount_ = root_ + "/mount";
    }
    ~CpuQuotaTest() override { fs::remove_all(root_); }

    static void write(const fs::path& file, const std::string& text) {
        fs::create_directories(file.parent_path());
        std::ofstream(file) << text;
    }
    void belongs_to(const std::string& lines) { write(membership_, lines); }
    void file(const std::string& place, const std::string& text) { write(mount_ + place, text); }
    CpuQuota quota() const { return {membership_, mount_}; }

    std::string root_, membership_, mount_;
};

TEST_F(CpuQuotaTest, NoneWhereNothingIsKnownOrNothingIsBounded) {
    EXPECT_FALSE(quota().bound()) << "no such files";
    belongs_to("0::/job\n");
    EXPECT_FALSE(quota().bound()) << "no such group";
    file("/job/cpu.max", "max 100000\n");
    EXPECT_FALSE(quota().bound());
    belongs_to("3:cpuset:/job\n1:cpu,cpuacct:/job\n");
    file("/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    file("/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    EXPECT_FALSE(quota().bound());
    for (const char* const garbage : {"", "\n", "50000", "50000 ", "50000 0", "fast 100000", "::::", "0::/\n0::/"}) {
        belongs_to(std::string("0::/job\n") + garbage + "\n");
        file("/job/cpu.max", garbage);
        EXPECT_FALSE(quota().bound()) << garbage;
        EXPECT_FALSE(quota().look(kCores)) << garbage;
    }
}

TEST_F(CpuQuotaTest, IsThatOfTheGroupOrOfOneAboveItWhicheverIsLess) {
    belongs_to("0::/a/b/c\n");
    file("/a/cpu.max", "50000 100000\n");
    file("/a/cpu.stat", "usage_usec 17\nnr_periods 9\nnr_throttled 5\nthrottled_usec 3\n");
    file("/a/b/c/cpu.max", "300000 100000\n");
    file("/a/b/c/cpu.stat", "nr_throttled 1\n");
    ASSERT_TRUE(quota().bound());
    EXPECT_DOUBLE_EQ(quota().bound()->cores, 0.5);
    EXPECT_EQ(quota().bound()->stops, 5U);
    file("/a/b/c/cpu.max", "20000 100000\n");
    EXPECT_DOUBLE_EQ(quota().bound()->cores, 0.2);
    EXPECT_EQ(quota().bound()->stops, 1U);
}

TEST_F(CpuQuotaTest, OfVersion1AndInAMountOfBoth) {
    belongs_to("9:name=systemd:/\n5:cpu,cpuacct:/docker/0123\n0::/\n");
    file("/cpu,cpuacct/docker/0123/cpu.cfs_quota_us", "150000\n");
    file("/cpu,cpuacct/docker/0123/cpu.cfs_period_us", "100000\n");
    file("/cpu,cpuacct/docker/0123/cpu.stat", "nr_periods 2\nnr_throttled 2\nthrottled_time 9\n");
    ASSERT_TRUE(quota().bound());
    EXPECT_DOUBLE_EQ(quota().bound()->cores, 1.5);
    EXPECT_EQ(quota().bound()->stops, 2U);
    belongs_to("0::/job\n");
    file("/unified/job/cpu.max", "100000 100000\n");
    EXPECT_DOUBLE_EQ(quota().bound()->cores, 1);
}

// It names places that it cannot see, and its own group is what it finds at the top.
TEST_F(CpuQuotaTest, OfAContainer) {
    file("/cpu.max", "50000 100000\n");
    for (const char* const place : {"0::/\n", "0::/../../other\n", "0::/docker/0123\n"}) {
        belongs_to(place);
        ASSERT_TRUE(quota().bound()) << place;
        EXPECT_DOUBLE_EQ(quota().bound()->cores, 0.5) << place;
    }
    belongs_to("4:cpu,cpuacct:/docker/0123\n");
    file("/cpu,cpuacct/cpu.cfs_quota_us", "25000\n");
    file("/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    EXPECT_DOUBLE_EQ(quota().bound()->cores, 0.25);
}

TEST_F(CpuQuotaTest, LimitsWhileTheGroupIsStoppedNowAndThen) {
    belongs_to("0::/job\n");
    const auto stopped = [this](int times) { file("/job/cpu.stat", "nr_throttled " + std::to_string(times) + "\n"); };
    file("/job/cpu.max", "200000 100000\n");
    stopped(7);
    CpuQuota watched = quota();
    EXPECT_TRUE(watched.look(kCores)) << "fewer than the cores, and nothing else is known";
    for (std::uint32_t look = 1; look < CpuQuota::kRemembered; ++look)
        EXPECT_TRUE(watched.look(kCores)) << look;
    EXPECT_FALSE(watched.look(kCores)) << "it was not stopped";
    stopped(8);
    EXPECT_TRUE(watched.look(kCores));
    file("/job/cpu.max", "max 100000\n");
    EXPECT_FALSE(watched.look(kCores)) << "the quota is gone";
    CpuQuota wide = quota();
    file("/job/cpu.max", "400000 100000\n");
    EXPECT_FALSE(wide.look(kCores)) << "as many as there are cores";
    stopped(9);
    EXPECT_TRUE(wide.look(kCores));
}

TEST_F(CpuQuotaTest, APathThatIsTooLongIsNone) {
    belongs_to("0::/" + std::string(3000, 'x') + "\n");
    EXPECT_FALSE(quota().bound());
}

// A group of the kernel's with half a core, and a process in it that computes for a while.
TEST(CpuQuotaOfTheKernel, StopsThatAreCounted) {
    const std::string name = "coppice-quota-" + std::to_string(getpid());
    const bool second = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
    const fs::path group = fs::path(second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu") / name;
    std::error_code error;
    if (!fs::create_directory(group, error)) GTEST_SKIP() << "no right to make a control group";
    const pid_t child = fork();
    if (child == 0) {
        if (second) {
            std::ofstream(group / "cpu.max") << "2000 100000";
        } else {
            std::ofstream(group / "cpu.cfs_quota_us") << 2000;
        }
        std::ofstream(group / "cgroup.procs") << getpid();
        CpuQuota quota("/proc/self/cgroup", "/sys/fs/cgroup");
        const auto bound = quota.bound();
        if (!bound) _exit(fs::exists(group / (second ? "cpu.max" : "cpu.cfs_quota_us")) ? 1 : 2);
        if (bound->cores != 0.02 || !quota.look(1)) _exit(3);
        const std::uint64_t before = bound->stops;
        alarm(300);
        while (quota.bound()->stops == before)
            continue;
        _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    fs::remove(group, error);
    ASSERT_TRUE(WIFEXITED(status)) << status;
    if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "the group has no CPU controller";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace coppice::testing
