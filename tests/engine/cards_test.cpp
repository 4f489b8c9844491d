// What newcomers and members tell each other by way of the launcher, as bytes.
#include "engine/newcomers/cards.hpp"

#include <gtest/gtest.h>

#include "bootstrap/admission.hpp"
#include "topology/switch_path.hpp"

namespace coppice::engine {
namespace {

template <class Told>
void expect_no_part_of(const Bytes& whole) {
    for (std::size_t length = 0; length < whole.size(); ++length)
        EXPECT_FALSE(Told::parse(std::span(whole).first(length))) << length;
}

Birth a_birth() {
    Birth birth{.id = {.token = 17, .epoch = Epoch(3)}, .panel = 5, .most = 9, .members = {}};
    for (std::uint32_t rank = 0; rank < 4; ++rank)
        birth.members.push_back(
            {.origin = {.seat = Seat(rank + 2), .incarnation = rank, .before = 3 - rank, .since = 1},
             .node = rank / 2});
    birth.switches = {"pod1/leaf1", ""};
    return birth;
}

TEST(Cards, ACardSaysHowAProcessCanBeReached) {
    const Card card{.host = "a host", .switches = "leaf4", .addresses = {std::byte{1}, std::byte{0}, std::byte{255}}};
    const auto read = Card::parse(card.bytes());
    ASSERT_TRUE(read);
    EXPECT_EQ(read->host, card.host);
    EXPECT_EQ(read->switches, card.switches);
    EXPECT_EQ(read->addresses, card.addresses);
}

// The addresses are what is left: they have a form of their own.
TEST(Cards, ACardWhoseHostOrSwitchesAreCutShortIsNone) {
    const Bytes whole = Card{.host = "a host", .switches = "leaf4", .addresses = {}}.bytes();
    expect_no_part_of<Card>(whole);
}

// Of members that the launcher has started, each on a host of its own below switches with long names, all of which come in place of others.
TEST(Cards, WhatIsSaidOfTheLargestGroupHasRoom) {
    Birth birth{.id = {.token = 17, .epoch = Epoch(3)}, .panel = 5, .most = 9, .members = {}};
    std::vector<bootstrap::PersonBody> all;
    for (std::uint32_t rank = 0; rank < bootstrap::kMaxLauncherRanks; ++rank) {
        birth.members.push_back({.origin = {.seat = Seat(rank)}, .node = rank});
        all.push_back({.number = rank});
    }
    birth.switches.assign(2 * std::size_t{bootstrap::kMaxLauncherRanks}, std::string(topology::kMaxSwitchPath, 's'));
    const Bytes bytes = birth.bytes();
    ASSERT_TRUE(Birth::parse(bytes));
    const Bytes frame = bootstrap::Admission::formed_frame(all, all, bytes);
    EXPECT_LE(frame.size(), sizeof(bootstrap::FrameHeader) + bootstrap::max_formed_bytes(bootstrap::kMaxLauncherRanks));
}

TEST(Cards, AnInvitationSaysWhatAllHaveInCommon) {
    Invitation told{.protocol = "p", .library = "1.2", .agreement = "", .transports = "shm", .token = 99, .secret = {}};
    told.agreement = "window 32";
    told.secret.bytes[3] = std::uint8_t{7};
    told.capacity = 12;
    const auto read = Invitation::parse(told.bytes());
    ASSERT_TRUE(read);
    EXPECT_EQ(read->protocol, told.protocol);
    EXPECT_EQ(read->library, told.library);
    EXPECT_EQ(read->agreement, told.agreement);
    EXPECT_EQ(read->transports, told.transports);
    EXPECT_EQ(read->token, told.token);
    EXPECT_EQ(read->secret.bytes, told.secret.bytes);
    EXPECT_EQ(read->capacity, told.capacity);
}

// Then a newcomer can say what differs; it compares the rest with its own, which is never empty.
TEST(Cards, OfAnotherVersionsInvitationTheVersionIsRead) {
    Bytes bytes =
        Invitation{.protocol = "another", .library = "9", .agreement = "a", .transports = "t", .token = 1, .secret = {}}
            .bytes();
    bytes.push_back(std::byte{1});
    const auto read = Invitation::parse(bytes);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->protocol, "another");
    EXPECT_EQ(read->library, "9");
    EXPECT_EQ(read->agreement, "");
    EXPECT_FALSE(Invitation::parse(std::span(bytes).first(8)));
}

TEST(Cards, ABirthSaysWhichGroupHasANewcomer) {
    const Birth birth = a_birth();
    const auto read = Birth::parse(birth.bytes());
    ASSERT_TRUE(read);
    EXPECT_EQ(read->id, birth.id);
    EXPECT_EQ(read->panel, birth.panel);
    EXPECT_EQ(read->most, birth.most);
    EXPECT_EQ(read->members, birth.members);
    EXPECT_EQ(read->switches, birth.switches);
}

TEST(Cards, ABirthThatIsTooShortOrTooLongIsNone) {
    Bytes whole = a_birth().bytes();
    expect_no_part_of<Birth>(whole);
    whole.push_back({});
    EXPECT_FALSE(Birth::parse(whole));
}

TEST(Cards, NothingIsMadeForMembersThatAreNotThere) {
    Bytes bytes = Birth{}.bytes();
    std::fill(bytes.end() - 8, bytes.end() - 4, std::byte{255});  // the count
    EXPECT_FALSE(Birth::parse(bytes));
}

TEST(Cards, NothingIsMadeForSwitchesThatAreNotThere) {
    Bytes bytes = Birth{}.bytes();
    std::fill(bytes.end() - 4, bytes.end(), std::byte{255});  // their count
    EXPECT_FALSE(Birth::parse(bytes));
}

TEST(Cards, ABirthWithAMemberOfNoNodeOrAPathThatIsNoneIsNone) {
    Birth birth = a_birth();
    birth.members.back().node = 2;
    EXPECT_FALSE(Birth::parse(birth.bytes()));
    birth.switches.emplace_back("leaf 3");
    EXPECT_FALSE(Birth::parse(birth.bytes())) << "a blank";
    birth.switches.back() = "leaf3";
    EXPECT_TRUE(Birth::parse(birth.bytes()));
}

}  // namespace
}  // namespace coppice::engine
