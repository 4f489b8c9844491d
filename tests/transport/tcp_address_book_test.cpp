// The packed addresses of a group's ranks: what goes in comes out, whatever was removed meanwhile, and nothing grows with removals.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "transport/tcp/address_book.hpp"

namespace coppice::testing {
namespace {

using transport::tcp::AddressBook;
using transport::tcp::Endpoint;
using transport::tcp::kMaxEndpoints;

// Differs in all that an endpoint has.
Endpoint endpoint_of(std::uint32_t number) {
    Endpoint endpoint;
    endpoint.family = number % 3 == 2 ? 6 : 4;
    const std::size_t bytes = endpoint.family == 4 ? 4 : 16;
    for (std::size_t i = 0; i < bytes; ++i)
        endpoint.ip[i] = static_cast<std::uint8_t>(number * 7 + i * 31 + 1);
    endpoint.port = static_cast<std::uint16_t>(1 + number % 65535);
    endpoint.prefix = static_cast<std::uint8_t>(number % 33);
    return endpoint;
}

std::vector<Endpoint> endpoints_of(std::uint32_t rank, std::uint32_t round) {
    std::vector<Endpoint> endpoints;
    for (std::uint32_t i = 0; i <= (rank + round) % kMaxEndpoints; ++i)
        endpoints.push_back(endpoint_of(rank * 1000 + round * 20 + i));
    return endpoints;
}

TEST(AddressBook, GivesBackWhatWasAdded) {
    constexpr std::uint32_t kRanks = 100;
    AddressBook book(kRanks);
    for (std::uint32_t rank = 0; rank < kRanks; rank += 2)
        book.add(Seat(rank), endpoints_of(rank, 0));
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        ASSERT_EQ(book.has(Seat(rank)), rank % 2 == 0);
        if (rank % 2 == 0) {
            EXPECT_EQ(book.endpoints_of(Seat(rank)), endpoints_of(rank, 0));
        }
    }
    EXPECT_FALSE(book.has(Seat(kRanks)));
}

TEST(AddressBook, RanksThatAreReplacedAgainAndAgainTakeNoMoreRoom) {
    constexpr std::uint32_t kRanks = 64;
    AddressBook book(kRanks);
    std::vector<std::uint32_t> round_of(kRanks, 0);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
        book.add(Seat(rank), endpoints_of(rank, 0));
    std::mt19937 random(1);
    std::size_t most = 0;
    for (std::uint32_t round = 1; round < 20'000; ++round) {
        const std::uint32_t rank = static_cast<std::uint32_t>(random()) % kRanks;
        book.remove(Seat(rank));
        ASSERT_FALSE(book.has(Seat(rank)));
        round_of[rank] = round % 40;
        book.add(Seat(rank), endpoints_of(rank, round_of[rank]));
        most = std::max(most, book.bytes());
        const std::uint32_t other = static_cast<std::uint32_t>(random()) % kRanks;
        ASSERT_EQ(book.endpoints_of(Seat(other)), endpoints_of(other, round_of[other])) << round;
    }
    // Each has at most kMaxEndpoints of 20 bytes, as many again may be waste, and a vector doubles.
    EXPECT_LT(most, 4 * kRanks * (1 + 20 * kMaxEndpoints));
}

// What a million ranks cost is what the book is for.
TEST(AddressBook, ARankWithOneAddressTakesThirteenBytes) {
    constexpr std::uint32_t kRanks = 65'536;
    AddressBook book(kRanks);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        const std::vector<Endpoint> one = {endpoint_of(rank * 3)};
        book.add(Seat(rank), one);
    }
    EXPECT_EQ(book.bytes(), 13U * kRanks);
}

TEST(AddressBook, RemovingOneThatIsNotThereDoesNothing) {
    AddressBook book(2);
    book.remove(Seat(0));
    book.add(Seat(1), endpoints_of(1, 0));
    book.remove(Seat(0));
    EXPECT_EQ(book.endpoints_of(Seat(1)), endpoints_of(1, 0));
}

}  // namespace
}  // namespace coppice::testing
