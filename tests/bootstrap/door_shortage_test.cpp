// A member that has no descriptor left for those that knock at its door.
#include <gtest/gtest.h>

#include <atomic>

#include "bootstrap/door/caller.hpp"
#include "bootstrap/door/door.hpp"
#include "support/shortage.hpp"

namespace coppice::bootstrap {
namespace {

using testing::becomes;

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto raw = std::as_bytes(std::span(text));
    return {raw.begin(), raw.end()};
}

// The one member of a group.
std::unique_ptr<Door> open_door() {
    auto door = Door::open(true, {});
    COPPICE_CHECK(door.has_value());
    (*door)->belong(std::vector<unsigned char>(32, 7), {.number = 0}, 3, bytes_of("the group"));
    (*door)->tell_card(bytes_of("the group"), bytes_of("the member"));
    const auto address = (*door)->address().bytes();
    (*door)->attend({.members = {{}}, .keeper = {}, .door = {address.begin(), address.end()}});
    return std::move(*door);
}

void look(Door& door) {
    for (auto event = door.next(); event && *event; event = door.next())
        continue;
}

// Until something happens there, as its timer does.
void sleep_and_look(Door& door) {
    pollfd entry{.fd = door.descriptor(), .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, 100) == 1) look(door);
}

TEST(DoorShortage, NobodyIsWokenAgainAndAgainAndWhoHasKnockedIsLetInOnceThereIsRoom) {
    testing::SharedMemory memory(sizeof(std::atomic<int>));
    auto& may_knock = *static_cast<std::atomic<int>*>(memory.get());
    const auto door = open_door();
    look(*door);
    const auto bytes = door->invite(1, 3600 * Door::kSecond, {});
    ASSERT_TRUE(bytes.has_value());
    testing::Processes processes;
    const std::size_t newcomer = processes.start([&] {
        const auto tickets = read_tickets(*bytes);
        COPPICE_CHECK(tickets.has_value() && becomes([&] { return may_knock.load() != 0; }));
        return be_let_in(*tickets, draw_joiner(), true, {}, testing::now_ns() + testing::kDeadlineNs).has_value() ? 0
                                                                                                                  : 1;
    });
    {
        const testing::Shortage shortage;
        may_knock = 1;
        pollfd entry{.fd = door->descriptor(), .events = POLLIN, .revents = 0};
        ASSERT_EQ(::poll(&entry, 1, static_cast<int>(testing::kDeadlineNs / 1'000'000)), 1);
        EXPECT_LE(testing::count_wakes(door->descriptor(), [&] { look(*door); }), testing::kMostWakes);
        EXPECT_FALSE(processes.has_ended(newcomer));
    }
    EXPECT_TRUE(becomes([&] {
        sleep_and_look(*door);
        return processes.has_ended(newcomer);
    }));
    EXPECT_TRUE(processes.wait(newcomer).well());
}

}  // namespace
}  // namespace coppice::bootstrap
