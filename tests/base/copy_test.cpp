// Short copies are whole copies, and touch nothing beside them.
#include "base/copy.hpp"

#include <gtest/gtest.h>

#include <array>

namespace coppice {
namespace {

TEST(CopyFew, CopiesEachLengthAndNothingBeside) {
    constexpr std::size_t kMost = 200;
    std::array<std::byte, kMost> from;
    for (std::size_t i = 0; i < kMost; ++i)
        from[i] = static_cast<std::byte>(i + 1);
    for (std::size_t bytes = 0; bytes < kMost; ++bytes) {
        std::array<std::byte, kMost> to{};
        copy_few(to.data(), from.data(), bytes);
        for (std::size_t i = 0; i < kMost; ++i)
            EXPECT_EQ(to[i], i < bytes ? from[i] : std::byte{0}) << bytes << " bytes, at " << i;
    }
    copy_few(nullptr, nullptr, 0);
}

}  // namespace
}  // namespace coppice
