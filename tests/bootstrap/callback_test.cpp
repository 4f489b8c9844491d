// Bootstrap over the caller's exchange function.
#include "bootstrap/callback.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "bootstrap/launcher_protocol.hpp"

namespace coppice::bootstrap {
namespace {

constexpr std::uint64_t kNoDeadline = UINT64_MAX;

// An allgather among threads, as a user would give one.
class Exchange {
  public:
    explicit Exchange(std::uint32_t size) : size_(size), barrier_(static_cast<std::ptrdiff_t>(size)) {}

    struct Port {
        Exchange* exchange;
        std::uint32_t place;
        int calls = 0;
    };

    static int call(void* argument, const void* mine, std::size_t bytes, void* all) {
        auto* port = static_cast<Port*>(argument);
        ++port->calls;
        return port->exchange->gather(port->place, mine, bytes, all);
    }

  private:
    int gather(std::uint32_t place, const void* mine, std::size_t bytes, void* all) {
        if (place == 0) memory_.assign(bytes * size_, std::byte{});
        barrier_.arrive_and_wait();
        std::memcpy(memory_.data() + bytes * place, mine, bytes);
        barrier_.arrive_and_wait();
        std::memcpy(all, memory_.data(), bytes * size_);
        barrier_.arrive_and_wait();
        return 0;
    }

    std::uint32_t size_;
    std::barrier<> barrier_;
    std::vector<std::byte> memory_;
};

// Runs `body` for each rank in a thread of its own.
void in_threads(std::uint32_t size, const std::function<void(std::uint32_t)>& body) {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < size; ++rank)
        threads.emplace_back([&body, rank] { body(rank); });
}

std::vector<std::byte> blob_of(std::uint32_t rank, std::uint32_t round) {
    return std::vector<std::byte>((rank * 7 + round) % 50, std::byte{static_cast<unsigned char>(rank + round)});
}

TEST(callback_bootstrap, gives_every_rank_the_bytes_of_all_whatever_their_lengths) {
    constexpr std::uint32_t kSize = 8;
    Exchange exchange(kSize);
    in_threads(kSize, [&](std::uint32_t rank) {
        Exchange::Port port{&exchange, rank};
        auto bootstrap = CallbackBootstrap::create(&Exchange::call, &port, Rank(rank), kSize);
        ASSERT_TRUE(bootstrap) << bootstrap.error().message;
        for (std::uint32_t round = 0; round < 5; ++round) {
            const auto all = (*bootstrap)->allgather(blob_of(rank, round), kNoDeadline);
            ASSERT_TRUE(all) << all.error().message;
            ASSERT_EQ(all->size(), kSize);
            for (std::uint32_t other = 0; other < kSize; ++other)
                EXPECT_EQ((*all)[other], blob_of(other, round));
        }
    });
}

TEST(callback_bootstrap, calls_once_for_short_pieces_and_twice_where_one_is_long) {
    constexpr std::uint32_t kSize = 3;
    for (const std::size_t longest : {479U, 480U, 481U, 5000U}) {
        Exchange exchange(kSize);
        in_threads(kSize, [&](std::uint32_t rank) {
            Exchange::Port port{&exchange, rank};
            auto bootstrap = CallbackBootstrap::create(&Exchange::call, &port, Rank(rank), kSize);
            const auto blob = [&](std::uint32_t of) {
                return std::vector<std::byte>(of == 1 ? longest : of * 240, std::byte(of + 1));
            };
            const auto all = (*bootstrap)->allgather(blob(rank), kNoDeadline);
            ASSERT_TRUE(all) << all.error().message;
            for (std::uint32_t other = 0; other < kSize; ++other)
                EXPECT_EQ((*all)[other], blob(other));
            EXPECT_EQ(port.calls, longest > 480 ? 2 : 1);
        });
    }
}

TEST(callback_bootstrap, takes_a_piece_that_ends_in_zeros_for_what_it_is) {
    constexpr std::uint32_t kSize = 2;
    Exchange exchange(kSize);
    in_threads(kSize, [&](std::uint32_t rank) {
        Exchange::Port port{&exchange, rank};
        auto bootstrap = CallbackBootstrap::create(&Exchange::call, &port, Rank(rank), kSize);
        for (const std::size_t bytes : {481U, 1000U}) {
            const auto all = (*bootstrap)->allgather(std::vector<std::byte>(bytes), kNoDeadline);
            ASSERT_TRUE(all) << all.error().message;
            for (std::uint32_t other = 0; other < kSize; ++other)
                EXPECT_EQ((*all)[other].size(), bytes);
        }
    });
}

TEST(callback_bootstrap, works_alone_and_with_nothing_to_say) {
    Exchange exchange(1);
    Exchange::Port port{&exchange, 0};
    auto bootstrap = CallbackBootstrap::create(&Exchange::call, &port, Rank(0), 1);
    ASSERT_TRUE(bootstrap);
    const auto all = (*bootstrap)->allgather({}, kNoDeadline);
    ASSERT_TRUE(all);
    EXPECT_EQ(*all, std::vector<std::vector<std::byte>>(1));
}

TEST(callback_bootstrap, refuses_ranks_and_sizes_out_of_range) {
    const auto make = [](std::uint32_t rank, std::uint32_t size) {
        return CallbackBootstrap::create(&Exchange::call, nullptr, Rank(rank), size).error();
    };
    EXPECT_EQ(make(0, 0).status, COPPICE_ERR_OUT_OF_RANGE);
    EXPECT_EQ(make(4, 4).status, COPPICE_ERR_OUT_OF_RANGE);
    EXPECT_NE(make(4, 4).message.find("rank 4"), std::string::npos);
    EXPECT_EQ(make(0, UINT32_MAX).status, COPPICE_ERR_OUT_OF_RANGE);
    EXPECT_EQ(CallbackBootstrap::create(nullptr, nullptr, Rank(0), 1).error().status, COPPICE_ERR_INVALID_ARGUMENT);
}

TEST(callback_bootstrap, reports_a_callback_that_fails_in_its_first_or_second_call) {
    for (const int fails_at : {1, 2}) {
        struct Argument {
            int calls = 0;
            int fails_at;
        } argument{0, fails_at};
        const auto exchange = [](void* pointer, const void* mine, std::size_t bytes, void* all) {
            auto* state = static_cast<Argument*>(pointer);
            if (++state->calls == state->fails_at) return 17;
            std::memcpy(all, mine, bytes);
            return 0;
        };
        auto bootstrap = CallbackBootstrap::create(exchange, &argument, Rank(0), 1);
        const auto all = (*bootstrap)->allgather(std::vector<std::byte>(600), kNoDeadline);
        ASSERT_FALSE(all);
        EXPECT_EQ(all.error().status, COPPICE_ERR_BOOTSTRAP);
        EXPECT_NE(all.error().message.find("17"), std::string::npos) << all.error().message;
    }
}

TEST(callback_bootstrap, notices_a_callback_that_gathers_garbage) {
    const auto exchange = [](void*, const void*, std::size_t bytes, void* all) {
        std::memset(all, 0x5a, 2 * bytes);
        return 0;
    };
    auto bootstrap = CallbackBootstrap::create(exchange, nullptr, Rank(0), 2);
    const auto all = (*bootstrap)->allgather(std::vector<std::byte>(3), kNoDeadline);
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().status, COPPICE_ERR_BOOTSTRAP);
    EXPECT_NE(all.error().message.find("garbage"), std::string::npos) << all.error().message;
}

TEST(callback_bootstrap, notices_a_callback_that_gathers_nothing_not_even_of_its_own_rank) {
    const auto exchange = [](void*, const void*, std::size_t, void*) { return 0; };
    auto bootstrap = CallbackBootstrap::create(exchange, nullptr, Rank(0), 2);
    const auto all = (*bootstrap)->allgather(std::vector<std::byte>(3), kNoDeadline);
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().status, COPPICE_ERR_BOOTSTRAP);
}

TEST(callback_bootstrap, notices_a_callback_that_gathers_nothing_in_its_second_call) {
    const auto exchange = [](void*, const void* mine, std::size_t bytes, void* all) {
        if (bytes == 512) std::memcpy(all, mine, bytes);
        return 0;
    };
    auto bootstrap = CallbackBootstrap::create(exchange, nullptr, Rank(0), 1);
    const auto all = (*bootstrap)->allgather(std::vector<std::byte>(600), kNoDeadline);
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().status, COPPICE_ERR_BOOTSTRAP);
    EXPECT_NE(all.error().message.find("second call"), std::string::npos) << all.error().message;
}

TEST(callback_bootstrap, takes_a_place_of_zeros_for_a_dead_rank) {
    const auto exchange = [](void*, const void* mine, std::size_t bytes, void* all) {
        std::memset(all, 0, 2 * bytes);
        std::memcpy(all, mine, bytes);
        return 0;
    };
    auto bootstrap = CallbackBootstrap::create(exchange, nullptr, Rank(0), 2);
    const auto all = (*bootstrap)->allgather(std::vector<std::byte>(3, std::byte{7}), kNoDeadline);
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_EQ((*all)[0].size(), 3U);
    EXPECT_TRUE((*all)[1].empty());
}

TEST(callback_bootstrap, takes_zeros_in_the_second_call_for_a_death_between_the_two) {
    const auto exchange = [](void*, const void* mine, std::size_t bytes, void* all) {
        std::memset(all, 0, 2 * bytes);
        std::memcpy(all, mine, bytes);
        if (bytes != 512) return 0;
        auto* const other = static_cast<std::byte*>(all) + bytes;
        std::memcpy(other, mine, bytes);
        const std::uint32_t rank = 1;
        std::memcpy(other + offsetof(PieceHeader, rank), &rank, sizeof rank);
        return 0;
    };
    auto bootstrap = CallbackBootstrap::create(exchange, nullptr, Rank(0), 2);
    const auto all = (*bootstrap)->allgather(std::vector<std::byte>(600, std::byte{7}), kNoDeadline);
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_EQ((*all)[0].size(), 600U);
    EXPECT_TRUE((*all)[1].empty());
}

TEST(callback_bootstrap, notices_ranks_that_disagree_about_the_size) {
    Exchange exchange(2);
    in_threads(2, [&](std::uint32_t rank) {
        Exchange::Port port{&exchange, rank};
        // Rank 1 believes in three ranks; its buffer is large enough for the two that are gathered.
        auto bootstrap = CallbackBootstrap::create(&Exchange::call, &port, Rank(rank), 2 + rank);
        const auto all = (*bootstrap)->allgather(std::vector<std::byte>(3), kNoDeadline);
        ASSERT_FALSE(all);
        EXPECT_EQ(all.error().status, COPPICE_ERR_MISMATCH) << all.error().message;
    });
}

TEST(callback_bootstrap, notices_two_ranks_that_claim_the_same_number) {
    Exchange exchange(2);
    in_threads(2, [&](std::uint32_t place) {
        Exchange::Port port{&exchange, place};
        auto bootstrap = CallbackBootstrap::create(&Exchange::call, &port, Rank(0), 2);
        const auto all = (*bootstrap)->allgather(std::vector<std::byte>(3), kNoDeadline);
        ASSERT_FALSE(all);
        EXPECT_NE(all.error().message.find("rank 0's bytes in the place of rank 1"), std::string::npos)
            << all.error().message;
    });
}

TEST(callback_bootstrap, refuses_a_blob_above_the_bound_without_calling_anybody) {
    const auto exchange = [](void*, const void*, std::size_t, void*) -> int {
        ADD_FAILURE() << "called";
        return 0;
    };
    auto bootstrap = CallbackBootstrap::create(exchange, nullptr, Rank(0), 1);
    const auto all = (*bootstrap)->allgather(std::vector<std::byte>(kMaxBlob + 1), kNoDeadline);
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().status, COPPICE_ERR_TOO_LARGE);
}

}  // namespace
}  // namespace coppice::bootstrap
