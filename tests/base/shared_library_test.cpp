#include "base/shared_library.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>

namespace coppice {
namespace {

constexpr SharedLibrary kHere{.soname = "libc.so.6", .package = "libc6"};
constexpr SharedLibrary kNowhere{.soname = "libcoppice-nowhere.so.7", .package = "nowhere7"};
// Nobody is linked with it, and every machine has it.
constexpr SharedLibrary kUnused{.soname = "libBrokenLocale.so.1", .package = "libc6"};

TEST(SharedLibrary, AllPointersAreSet) {
    pid_t (*own)() = nullptr;
    pid_t (*parent)() = nullptr;
    const std::array functions{LibraryFunction{"getpid", &own}, LibraryFunction{"getppid", &parent}};
    const auto loaded = load_library(kHere, functions);
    ASSERT_TRUE(loaded) << loaded.error();
    ASSERT_TRUE(own != nullptr && parent != nullptr);
    EXPECT_EQ(own(), getpid());
    EXPECT_EQ(parent(), getppid());
}

TEST(SharedLibrary, OneThatIsMissingIsNamedWithItsPackage) {
    const auto loaded = load_library(kNowhere, {});
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error(),
              "libcoppice-nowhere.so.7 can't be loaded: libcoppice-nowhere.so.7: cannot open shared object file: No "
              "such file or directory; install it (Debian: nowhere7), or set LD_LIBRARY_PATH");
}

TEST(SharedLibrary, AFunctionThatIsMissingIsNamedWithItsLibrary) {
    void (*function)() = nullptr;
    const std::array functions{LibraryFunction{"coppice_nothing", &function}};
    const auto loaded = load_library(kHere, functions);
    ASSERT_FALSE(loaded);
    EXPECT_TRUE(loaded.error().starts_with("libc.so.6 has no coppice_nothing: ")) << loaded.error();
    EXPECT_TRUE(loaded.error().ends_with("; install another release of it (Debian: libc6)")) << loaded.error();
    EXPECT_EQ(function, nullptr);
}

TEST(SharedLibrary, WhetherItIsLoadedCanBeAskedWithoutLoadingIt) {
    EXPECT_TRUE(is_loaded(kHere));
    EXPECT_FALSE(is_loaded(kNowhere));
    EXPECT_FALSE(is_loaded(kUnused));
    EXPECT_FALSE(is_loaded(kUnused));
    ASSERT_TRUE(load_library(kUnused, {}));
    EXPECT_TRUE(is_loaded(kUnused));
}

}  // namespace
}  // namespace coppice
