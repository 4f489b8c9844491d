// What a rank copies of addresses for others, and what it makes of others' copies.
#include "engine/addresses/address_book.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>

namespace coppice::engine {
namespace {

constexpr std::uint32_t kSeats = 100;

std::vector<std::byte> bytes(std::string_view text) {
    std::vector<std::byte> bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
}

std::vector<std::byte> address(std::uint32_t seat) {
    return bytes("rank " + std::to_string(seat) + std::string(seat % 7, '.'));
}

AddressBook book(std::uint32_t self, std::initializer_list<std::uint32_t> known) {
    AddressBook book(kSeats, Seat(self), address(self));
    for (const std::uint32_t seat : known)
        book.note(Seat(seat), address(seat));
    return book;
}

// How many entries were new.
std::uint32_t copy(AddressBook& to, const AddressBook& from, std::size_t most_bytes, std::size_t most_pages) {
    const auto wanted = to.wanted(most_bytes);
    std::uint32_t copied = 0;
    const auto pages = from.pages(wanted.first, wanted.seats, most_bytes, most_pages);
    EXPECT_LE(pages.size(), most_pages);
    for (const auto& page : pages) {
        EXPECT_LE(page.size(), most_bytes);
        const auto entries = AddressBook::read(page, kSeats);
        EXPECT_TRUE(entries);
        for (const auto& entry : *entries) {
            EXPECT_TRUE(to.lacks(entry.seat)) << "it was not wanted";
            ++copied;
            if (entry.addresses.empty())
                to.note_end(entry.seat);
            else
                to.note(entry.seat, entry.addresses);
        }
    }
    return copied;
}

TEST(address_book, lacks_all_but_its_own_at_first) {
    const AddressBook empty = book(3, {});
    EXPECT_FALSE(empty.is_complete());
    EXPECT_EQ(empty.lacking().size(), kSeats - 1);
    EXPECT_FALSE(empty.lacks(Seat(3)));
    EXPECT_EQ(*empty.find(Seat(3)), address(3));
    EXPECT_EQ(empty.find(Seat(4)), nullptr);
}

TEST(address_book, a_copy_brings_what_lacks_and_nothing_else) {
    AddressBook to = book(0, {1, 2, 50});
    const AddressBook from = book(2, {0, 1, 3, 50, 99});
    EXPECT_EQ(copy(to, from, 8192, 16), 2U);
    EXPECT_EQ(*to.find(Seat(3)), address(3));
    EXPECT_EQ(*to.find(Seat(99)), address(99));
    EXPECT_EQ(copy(to, from, 8192, 16), 0U);
}

TEST(address_book, what_does_not_fit_is_copied_the_next_time) {
    AddressBook to = book(0, {});
    AddressBook from = book(99, {});
    for (std::uint32_t seat = 0; seat < kSeats; ++seat)
        from.note(Seat(seat), address(seat));
    ASSERT_TRUE(from.is_complete());
    int times = 0;
    while (!to.is_complete()) {
        ASSERT_GT(copy(to, from, 64, 3), 0U);
        ++times;
    }
    EXPECT_GT(times, 5);
    for (std::uint32_t seat = 0; seat < kSeats; ++seat)
        EXPECT_EQ(*to.find(Seat(seat)), address(seat));
}

TEST(address_book, nobody_asks_for_those_that_have_ended) {
    AddressBook from = book(1, {});
    from.note_end(Seat(7));
    AddressBook to = book(0, {});
    EXPECT_EQ(copy(to, from, 8192, 16), 2U);  // 1 and 7
    EXPECT_FALSE(to.lacks(Seat(7)));
    EXPECT_EQ(to.find(Seat(7)), nullptr);
    to.note(Seat(7), address(7));  // another one has it all the same
    EXPECT_NE(to.find(Seat(7)), nullptr);
    EXPECT_EQ(to.lacking().size(), kSeats - 3);
}

TEST(address_book, what_was_noted_first_stays) {
    AddressBook one = book(0, {5});
    one.note(Seat(5), address(6));
    one.note(Seat(5), {});
    EXPECT_EQ(*one.find(Seat(5)), address(5));
    one.note_end(Seat(5));
    EXPECT_EQ(one.lacking().size(), kSeats - 2);
}

TEST(address_book, an_address_that_fits_no_page_is_left_out) {
    AddressBook from = book(1, {2});
    from.note(Seat(3), std::vector<std::byte>(100, std::byte{1}));
    AddressBook to = book(0, {});
    EXPECT_EQ(copy(to, from, 64, 16), 2U);
    EXPECT_TRUE(to.lacks(Seat(3)));
}

TEST(address_book, garbage_is_no_page) {
    AddressBook from = book(1, {2, 3});
    const auto wanted = book(0, {}).wanted(8192);
    const auto page = from.pages(wanted.first, wanted.seats, 8192, 1).at(0);
    ASSERT_TRUE(AddressBook::read(page, kSeats));
    EXPECT_TRUE(AddressBook::read({}, kSeats)->empty());
    for (std::size_t cut = 1; cut < page.size(); ++cut) {
        const auto read = AddressBook::read(std::span(page).first(cut), kSeats);
        if (read) {
            EXPECT_LT(read->size(), 3U) << cut;
        }
    }
    EXPECT_FALSE(AddressBook::read(page, 3)) << "seat 3 of 3";
    auto longer = page;
    const std::uint32_t length = UINT32_MAX;
    std::memcpy(longer.data() + 4, &length, sizeof length);
    EXPECT_FALSE(AddressBook::read(longer, kSeats));
}

TEST(address_book, a_question_beyond_the_last_seat_gets_what_there_is) {
    const AddressBook from = book(1, {98});
    const std::vector<std::byte> all(1000, std::byte{0xff});
    EXPECT_EQ(from.pages(Seat(98), all, 8192, 16).size(), 1U);
    EXPECT_TRUE(from.pages(Seat(99), all, 8192, 16).empty());
}

}  // namespace
}  // namespace coppice::engine
