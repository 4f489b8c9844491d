// Short copies are whole copies, and touch nothing beside them.
#include "base/copy.hpp"
#include "base/copy_large.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

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

// Every length about lines and every alignment of both; nothing beside it is written.
TEST(CopyLarge, CopiesWhatItIsToldAndNoMore) {
    std::vector<std::byte> from(400);
    for (std::size_t i = 0; i < from.size(); ++i)
        from[i] = static_cast<std::byte>(i * 7 + 1);
    for (std::size_t bytes = 0; bytes <= 260; ++bytes) {
        for (std::size_t to_at = 0; to_at < 70; to_at += bytes % 3 + 1) {
            for (const std::size_t from_at : {0, 1, 16, 63}) {
                for (const std::size_t all : {std::size_t{0}, std::size_t{1} << 30}) {
                    std::vector<std::byte> to(400);
                    std::vector<std::byte> for_others(400);
                    copy_for_caller(to.data() + to_at, from.data() + from_at, bytes, all);
                    copy_for_others(for_others.data() + to_at, from.data() + from_at, bytes);
                    std::vector<std::byte> expected(400);
                    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(from_at), bytes,
                                expected.begin() + static_cast<std::ptrdiff_t>(to_at));
                    ASSERT_EQ(to, expected) << bytes << " to " << to_at << " from " << from_at;
                    ASSERT_EQ(for_others, expected) << bytes << " to " << to_at << " from " << from_at;
                }
            }
        }
    }
}

}  // namespace
}  // namespace coppice
