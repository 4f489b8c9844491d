// C9 of Varma et al., ICS'06, §5: "the tree has a space complexity of O(N)", less than a MB of 1,024 nodes, a few kilobytes of less than 64.
// Ours finds parent and children from the digits, and keeps what is not as it was at first.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "protocol/membership/membership.hpp"

namespace {
std::size_t held = 0;  // by operator new, in bytes

void give_back(void* memory) {
    if (memory != nullptr) held -= malloc_usable_size(memory);
    std::free(memory);
}
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
    void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
    if (memory == nullptr) throw std::bad_alloc();
    held += malloc_usable_size(memory);
    return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    give_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    give_back(memory);
}

namespace coppice::protocol {
namespace {

std::size_t bytes_of(std::uint32_t members, std::uint32_t dead) {
    const std::size_t before = held;
    const MembershipPlan plan{.first = View(members), .radix_bits = 2};
    const auto machine = std::make_unique<Membership>(plan, Process(0));
    const LastVote nothing;
    for (std::uint32_t i = 1; i <= dead; ++i)
        machine->peer_failed(Process(members - 2 * i), &nothing);
    machine->renew();
    while (machine->next_send()) {
    }
    return held - before;
}

TEST(MembershipMemory, C9AMemberKeepsAsMuchInALargeGroupAsInASmallOne) {
    const std::size_t small = bytes_of(63, 1);
    EXPECT_LT(small, 8 * 1024U);
    for (const std::uint32_t members : {1024U, 1U << 20})
        EXPECT_EQ(bytes_of(members, 1), small) << members;
}

TEST(MembershipMemory, C9WhatItKeepsGrowsWithTheDead) {
    const std::size_t few = bytes_of(1024, 1);
    const std::size_t many = bytes_of(1024, 400);
    EXPECT_GT(many, few);
    EXPECT_LT(many, 1024 * 1024U) << "the paper: less than one MB of 1,024 nodes";
    EXPECT_EQ(bytes_of(1U << 20, 400), many);
}

}  // namespace
}  // namespace coppice::protocol
