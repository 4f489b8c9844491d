// Newcomers that are made known to a rank's transports, one of whom the seat is not free yet.
#include "engine/newcomers/introductions.hpp"

#include <gtest/gtest.h>

#include <deque>

#include "engine/wire/address_list.hpp"
#include "some_transport_set.hpp"

namespace coppice::engine {
namespace {

// Says what the test has it say.
class SomeAdmission final : public bootstrap::Admission {
  public:
    explicit SomeAdmission(std::vector<std::uint32_t>& wired) : wired_(wired) {}

    void introduce(const bootstrap::PersonBody& who, std::string_view transport = "wire") {
        Card card{.host = "elsewhere", .switches = "", .addresses = {}};
        append_address(card.addresses, transport, {});
        events_.push_back({.kind = Event::Kind::introduced, .who = who, .body = card.bytes()});
    }
    void say_ready(const bootstrap::PersonBody& who) { events_.push_back({.kind = Event::Kind::ready, .who = who}); }
    void end(coppice_status_t status) { end_ = Error{status, "it has ended"}; }
    int descriptor() const override { return -1; }
    Result<std::optional<Event>> next() override {
        ++looks;
        if (events_.empty() && end_) return tl::unexpected(*end_);
        if (events_.empty()) return std::optional<Event>();
        Event event = std::move(events_.front());
        events_.pop_front();
        return std::optional<Event>(std::move(event));
    }
    void tell_card(std::span<const std::byte>, std::span<const std::byte>) override {}
    void tell_wired(std::uint32_t serial) override {
        wired_.push_back(serial);
        if (when_wired) when_wired();
    }
    void tell_unwired(std::uint32_t serial, std::string_view why) override { unwired.emplace_back(serial, why); }
    void tell_formed(std::span<const bootstrap::PersonBody>, std::span<const bootstrap::PersonBody>,
                     std::span<const std::byte>) override {}
    bool is_witness() const override { return false; }

    std::uint32_t looks = 0;
    std::function<void()> when_wired;
    std::vector<std::pair<std::uint32_t, std::string>> unwired;

  private:
    std::vector<std::uint32_t>& wired_;
    std::deque<Event> events_;
    std::optional<Error> end_;
};

struct SomeClock final : Clock {
    std::uint64_t now_ns() const override { return now; }
    std::uint64_t now = 1'000'000;
};

class Newcomers : public ::testing::Test {
  protected:
    Newcomers() {
        auto made = std::make_unique<SomeAdmission>(wired);
        admission = made.get();
        introductions = std::make_unique<Introductions>(set.groups, settings, "here", std::move(made), real_clock());
    }

    Set set;
    Settings settings;
    std::vector<std::uint32_t> wired;  // serials
    SomeAdmission* admission = nullptr;
    std::unique_ptr<Introductions> introductions;
};

TEST_F(Newcomers, AreNotHeldUpByOneWhoseSeatIsNotFree) {
    set.first.dead = {Seat(3)};
    admission->introduce({.number = 2, .incarnation = 1, .serial = 10});
    admission->introduce({.number = 3, .incarnation = 1, .serial = 11});
    introductions->poll();
    EXPECT_EQ(wired, std::vector<std::uint32_t>({11}));
    set.first.dead.insert(Seat(2));
    introductions->poll();
    EXPECT_EQ(wired, std::vector<std::uint32_t>({11, 10}));
}

// It becomes free after the first one has been tried in vain.
TEST_F(Newcomers, ComeToASeatInTheirOrder) {
    set.first.dead = {Seat(3)};
    admission->introduce({.number = 2, .incarnation = 1, .serial = 10});
    admission->introduce({.number = 3, .incarnation = 1, .serial = 11});
    admission->introduce({.number = 2, .incarnation = 2, .serial = 12});
    admission->when_wired = [this] { set.first.dead.insert(Seat(2)); };
    introductions->poll();
    introductions->poll();
    EXPECT_EQ(wired, std::vector<std::uint32_t>({11, 10, 12}));
}

TEST_F(Newcomers, AreTurnedAwayWhereTheyWaitAndNowhereElse) {
    admission->say_ready({.number = 2, .incarnation = 1, .serial = 10});
    admission->say_ready({.number = 3, .incarnation = 1, .serial = 11});
    introductions->poll();
    introductions->turn_away(3, 1, "there is no room");
    introductions->turn_away(2, 0, "there is no room");  // an earlier one of that number
    const std::vector<std::pair<std::uint32_t, std::string>> told{{11, "there is no room"}};
    EXPECT_EQ(admission->unwired, told);
}

// Why a newcomer is refused: what it could not do itself, where that is why. It begins again where a door is lost, whatever was before.
TEST_F(Newcomers, WhatEndedLastIsWhyWhereADoorIsLost) {
    set.first.dead = {Seat(2)};
    admission->introduce({.number = 2, .incarnation = 1, .serial = 10}, "another wire");
    introductions->poll();
    ASSERT_EQ(admission->unwired.size(), 1U);
    ASSERT_TRUE(introductions->error());
    const coppice_status_t before = introductions->error()->status;
    EXPECT_NE(before, COPPICE_ERR_PEER_FAILED);
    admission->end(COPPICE_ERR_PEER_FAILED);
    introductions->poll();
    EXPECT_EQ(introductions->error()->status, COPPICE_ERR_PEER_FAILED);
}

TEST_F(Newcomers, WhatTheyCouldNotDoIsWhyTheyAreRefused) {
    set.first.dead = {Seat(2)};
    admission->introduce({.number = 2, .incarnation = 1, .serial = 10}, "another wire");
    introductions->poll();
    const std::string before = introductions->error()->message;
    admission->end(COPPICE_ERR_BOOTSTRAP);
    introductions->poll();
    EXPECT_EQ(introductions->error()->message, before);
}

// Among ranks that give their cores away to each other it takes milliseconds to poll as often as a rank does in 0.1 ms that has its own.
TEST(Introductions, AreLookedAtByTheClockToo) {
    Set set;
    const Settings settings;
    std::vector<std::uint32_t> wired;
    SomeClock clock;
    auto made = std::make_unique<SomeAdmission>(wired);
    const SomeAdmission& admission = *made;
    set.groups.introduce_by(std::make_unique<Introductions>(set.groups, settings, "here", std::move(made), clock));
    const auto poll = [&set](int times) {
        for (int i = 0; i < times; ++i)
            set.groups.poll();
    };
    poll(64);
    EXPECT_EQ(admission.looks, 1U);
    poll(1024);
    EXPECT_EQ(admission.looks, 1U) << "each is a system call";
    clock.now += 1'000'000;
    poll(64);
    EXPECT_EQ(admission.looks, 2U);
}

}  // namespace
}  // namespace coppice::engine
