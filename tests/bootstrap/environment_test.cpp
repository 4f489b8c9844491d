// What the launcher's environment may and may not look like.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/clock.hpp"
#include "bootstrap/choose.hpp"
#include "bootstrap/launcher.hpp"

namespace coppice::bootstrap {
namespace {

class environment : public ::testing::Test {
  protected:
    void SetUp() override { clear(); }
    void TearDown() override { clear(); }

    static void clear() {
        for (const char* name : {"COPPICE_RANK", "COPPICE_SIZE", "COPPICE_LAUNCHER"})
            ::unsetenv(name);
    }
    static void set(const char* rank, const char* size, const char* path) {
        clear();
        if (rank != nullptr) ::setenv("COPPICE_RANK", rank, 1);
        if (size != nullptr) ::setenv("COPPICE_SIZE", size, 1);
        if (path != nullptr) ::setenv("COPPICE_LAUNCHER", path, 1);
    }
    static void expect_blamed(const char* variable) {
        const auto result = read_launcher_environment();
        ASSERT_FALSE(result);
        EXPECT_EQ(result.error().status, COPPICE_ERR_CONFIG);
        EXPECT_NE(result.error().message.find(variable), std::string::npos) << result.error().message;
    }
};

TEST_F(environment, is_read) {
    set("3", "8", "/proc/1/fd/3");
    const auto result = read_launcher_environment();
    ASSERT_TRUE(result && *result);
    EXPECT_EQ((*result)->rank, Rank(3));
    EXPECT_EQ((*result)->size, 8U);
    EXPECT_EQ((*result)->socket_path, "/proc/1/fd/3");
}

TEST_F(environment, that_is_not_there_is_no_error_by_itself) {
    const auto result = read_launcher_environment();
    ASSERT_TRUE(result);
    EXPECT_FALSE(result->has_value());
}

TEST_F(environment, errors_name_the_variable) {
    for (const char* bad : {"", "x", "-1", "3x", " 3", "3.0", "99999999999999999999", "16384"}) {
        set(bad, "8", "/s");
        expect_blamed("COPPICE_RANK");
    }
    for (const char* bad : {"", "eight", "-8", "16385"}) {
        set("0", bad, "/s");
        expect_blamed("COPPICE_SIZE");
    }
    set(nullptr, "8", "/s");
    expect_blamed("COPPICE_RANK");
    set("3", nullptr, "/s");
    expect_blamed("COPPICE_SIZE");
    set("3", "8", nullptr);
    expect_blamed("COPPICE_LAUNCHER");
    set("8", "8", "/s");
    expect_blamed("COPPICE_RANK");
    set("0", "0", "/s");
    expect_blamed("COPPICE_RANK");
}

TEST_F(environment, neither_launcher_nor_callback_says_how_to_get_one) {
    const auto result = choose(nullptr, nullptr, Rank(0), 4, "auto", now_ns());
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().status, COPPICE_ERR_BOOTSTRAP);
    EXPECT_NE(result.error().message.find("coppice-run -n"), std::string::npos);
    EXPECT_NE(result.error().message.find("exchange"), std::string::npos);
}

TEST_F(environment, a_callback_wins_over_the_launcher) {
    set("3", "8", "/nowhere");
    const auto exchange = [](void*, const void*, std::size_t, void*) { return 0; };
    const auto result = choose(exchange, nullptr, Rank(1), 2, "auto", now_ns());
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_STREQ((*result)->name(), "callback");
    EXPECT_EQ((*result)->rank(), Rank(1));
    EXPECT_EQ((*result)->size(), 2U);
}

TEST_F(environment, a_launcher_that_is_gone_is_said_to_be_gone) {
    set("0", "2", "/proc/self/fd/12345");
    const auto result = choose(nullptr, nullptr, Rank(0), 0, "auto", now_ns() + 60'000'000'000);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().status, COPPICE_ERR_BOOTSTRAP);
    EXPECT_NE(result.error().message.find("launcher is gone"), std::string::npos) << result.error().message;
}

TEST_F(environment, a_path_too_long_for_a_socket_is_refused) {
    const std::string path(200, 'x');
    set("0", "2", path.c_str());
    const auto result = choose(nullptr, nullptr, Rank(0), 0, "auto", now_ns());
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().status, COPPICE_ERR_CONFIG);
    EXPECT_NE(result.error().message.find("COPPICE_LAUNCHER"), std::string::npos);
}

}  // namespace
}  // namespace coppice::bootstrap
