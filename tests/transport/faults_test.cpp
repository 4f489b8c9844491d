// The fault interceptor, around a transport that only notes what it is asked for.
#include "transport/faults.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <bit>
#include <deque>

#include "support/processes.hpp"
#include "transport/idle.hpp"

namespace coppice::testing {

namespace {

using namespace transport;

struct Event {
    Seat from;
    int text = 0;  // -1: the failure
};

// Delivers the events that the test put there, one each poll.
class FakeTransport final : public Transport {
  public:
    explicit FakeTransport(std::vector<int>& sent) : sent_(sent) {}
    std::deque<Event> events;
    std::vector<std::vector<std::byte>> payloads;  // of what was sent
    bool refuses = false;

    const Capabilities& capabilities() const override { return capabilities_; }
    Counters counters() const override { return {}; }
    std::vector<std::byte> address() const override { return {}; }
    Result<void> add_peer(Seat, std::span<const std::byte>) override { return {}; }
    void watch(Seat) override {}
    SendStatus send(Seat, std::span<const std::byte> header, std::span<const std::byte> payload,
                    std::uint32_t*) override {
        if (refuses) return SendStatus::again;
        sent_.push_back(static_cast<int>(header[0]));
        payloads.emplace_back(payload.begin(), payload.end());
        return SendStatus::sent;
    }
    SendStatus write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                     std::uint32_t* in_flight) override {
        return send(to, header, payload, in_flight);
    }
    std::size_t poll(Receiver& receiver) override {
        if (events.empty()) return 0;
        const Event event = events.front();
        events.pop_front();
        const std::byte header[1] = {static_cast<std::byte>(event.text)};
        if (event.text < 0)
            receiver.peer_failed(event.from, FailureCause::obituary);
        else
            receiver.message(event.from, header, {}, 0);
        return 1;
    }
    void release(Buffer) override {}
    void fence(Seat) override {}
    void forget(Seat) override {}
    bool leave() override { return true; }

  private:
    Capabilities capabilities_;
    std::vector<int>& sent_;
};

struct Log final : Receiver {
    bool message(Seat from, std::span<const std::byte> header, std::span<const std::byte>, Buffer) override {
        events.push_back({from, static_cast<int>(header[0])});
        return false;
    }
    void peer_failed(Seat peer, FailureCause) override { events.push_back({peer, -1}); }
    std::string text() const {
        std::string all;
        for (const Event& event : events)
            all += std::to_string(event.from.value) + ":" + std::to_string(event.text) + " ";
        return all;
    }
    std::vector<Event> events;
};

struct Rig {
    explicit Rig(const char* faults) : plan(*parse_faults(faults, Seat{0})) {
        auto made = std::make_unique<FakeTransport>(sent);
        fake = made.get();
        wire = std::make_unique<FaultyTransport>(std::move(made), plan, std::make_shared<MessageCount>(plan));
    }
    SendStatus send(std::uint32_t to, int text, std::span<const std::byte> payload = {}) {
        const std::byte header[1] = {static_cast<std::byte>(text)};
        return wire->send(Seat{to}, header, payload, nullptr);
    }
    FaultPlan plan;
    std::vector<int> sent;
    FakeTransport* fake = nullptr;
    std::unique_ptr<FaultyTransport> wire;
    Log log;
};

}  // namespace

TEST(Faults, AreReadStrictly) {
    const auto plan = parse_faults("kill-after:12,delay:3:100,hold:5@2,kill-before:7@1,delay:4:1@2", Seat{2});
    ASSERT_TRUE(plan.has_value());
    EXPECT_EQ(plan->kill_after, 12U);
    EXPECT_EQ(plan->kill_before, 0U);  // that is rank 1's
    ASSERT_EQ(plan->delays.size(), 2U);
    EXPECT_EQ(plan->delays[0].from, Seat{3});
    EXPECT_EQ(plan->delays[0].polls, 100U);
    EXPECT_EQ(plan->delays[1].polls, 1U);
    ASSERT_EQ(plan->held.size(), 1U);
    EXPECT_EQ(plan->held[0], Seat{5});
    EXPECT_TRUE(parse_faults("", Seat{0})->empty());
    for (const char* const bad : {",",
                                  "kill",
                                  "kill-after",
                                  "kill-after:",
                                  "kill-after:0",
                                  "kill-after:x",
                                  "kill-after:1 ",
                                  "kill-at-chunk:0",
                                  "kill-at-fill:0",
                                  "kill-at-fill",
                                  "kill-after:-1",
                                  "kill-after:1@",
                                  "kill-after:1@x",
                                  "kill-after:1@1@2",
                                  "kill-after:1,",
                                  "delay:1",
                                  "delay:1:",
                                  "delay::1",
                                  "suspect:1",
                                  "suspect:1:0",
                                  "hold",
                                  "damage",
                                  "damage:0",
                                  "damage:1:2",
                                  "hold:4294967296",
                                  "KILL-AFTER:1",
                                  "kill-after:99999999999999999999",
                                  "kill-before:x@9"}) {
        const auto refused = parse_faults(bad, Seat{0});
        ASSERT_FALSE(refused.has_value()) << bad;
        EXPECT_EQ(refused.error().status, COPPICE_ERR_CONFIG);
        EXPECT_NE(refused.error().message.find("known are"), std::string::npos);
    }
}

TEST(Faults, DelayedMessagesComeThatManyPollsLaterInTheirOrder) {
    Rig rig("delay:1:3");
    rig.fake->events = {{Seat{1}, 1}, {Seat{2}, 2}, {Seat{1}, 3}, {Seat{1}, -1}};
    std::vector<std::size_t> after_poll;
    for (int polls = 0; polls < 8; ++polls) {
        rig.wire->poll(rig.log);
        after_poll.push_back(rig.log.events.size());
    }
    EXPECT_EQ(rig.log.text(), "2:2 1:1 1:3 1:-1 ");
    EXPECT_EQ(after_poll, (std::vector<std::size_t>{0, 1, 1, 2, 2, 3, 4, 4}));
}

TEST(Faults, HeldMessagesWaitInBothDirectionsUntilTheyAreLetGo) {
    Rig rig("hold:1");
    EXPECT_EQ(rig.send(1, 10), SendStatus::sent);
    EXPECT_EQ(rig.send(2, 20), SendStatus::sent);
    EXPECT_EQ(rig.send(1, 11), SendStatus::sent);
    rig.fake->events = {{Seat{1}, 1}, {Seat{1}, -1}, {Seat{2}, 2}};
    for (int polls = 0; polls < 5; ++polls)
        rig.wire->poll(rig.log);
    EXPECT_EQ(rig.log.text(), "2:2 ");
    EXPECT_EQ(rig.sent, (std::vector<int>{20}));
    rig.wire->let_go(Seat{1});
    EXPECT_EQ(rig.send(1, 12), SendStatus::sent);  // does not overtake
    rig.wire->poll(rig.log);
    EXPECT_EQ(rig.log.text(), "2:2 1:1 1:-1 ");
    EXPECT_EQ(rig.sent, (std::vector<int>{20, 10, 11, 12}));
    EXPECT_TRUE(rig.wire->leave());
}

TEST(Faults, HoldingHasABound) {
    Rig rig("hold:1");
    for (std::size_t number = 0; number < FaultyTransport::kMaxHeld; ++number)
        ASSERT_EQ(rig.send(1, 1), SendStatus::sent);
    EXPECT_EQ(rig.send(1, 1), SendStatus::again);
}

TEST(Faults, DamageAnswersForOneBitOfOneLargeMessageAndKeepsTheOrder) {
    Rig rig("damage:2,damage:3@1");
    const std::vector<std::byte> large(FaultyTransport::kLarge);
    const std::vector<std::byte> small(FaultyTransport::kLarge - 1);
    rig.send(1, 0, small);
    rig.send(1, 1, large);
    rig.fake->refuses = true;
    EXPECT_EQ(rig.send(2, 2, small), SendStatus::again);
    rig.fake->refuses = false;
    rig.send(2, 2, large);
    rig.send(2, 3, large);  // does not overtake
    rig.wire->poll(rig.log);
    rig.send(2, 4, large);
    ASSERT_EQ(rig.sent, (std::vector<int>{0, 1, 2, 3, 4}));
    for (std::size_t i = 0; i < rig.sent.size(); ++i) {
        int bits = 0;
        for (const std::byte byte : rig.fake->payloads[i])
            bits += std::popcount(static_cast<unsigned>(byte));
        EXPECT_EQ(bits, i == 2 ? 1 : 0) << "message " << i;
    }
}

TEST(Faults, KillsAtExactlyTheMessageThatItWasTold) {
    for (const bool before : {false, true}) {
        SharedMemory memory(sizeof(std::uint32_t));
        auto& passed = *static_cast<std::atomic<std::uint32_t>*>(memory.get());
        Processes processes;
        const std::size_t child = processes.start([&] {
            Rig rig(before ? "kill-before:4" : "kill-after:4");
            for (int number = 0; number < 10; ++number) {
                rig.send(1, number);
                ++passed;
            }
            return 0;
        });
        EXPECT_TRUE(processes.wait(child).killed_by(SIGKILL));
        EXPECT_EQ(passed.load(), 3U);
    }
}

// Several may come at once.
void expect_to_be_killed_at_eleven(const char* faults, void (MessageCount::*count_chunks)(std::uint32_t)) {
    for (const std::uint32_t at_once : {1U, 4U}) {
        SharedMemory memory(sizeof(std::uint32_t));
        auto& passed = *static_cast<std::atomic<std::uint32_t>*>(memory.get());
        Processes processes;
        const std::size_t child = processes.start([&] {
            MessageCount count(*parse_faults(faults, Seat{0}));
            (count.*count_chunks)(0);
            for (int number = 0; number < 20; ++number) {
                (count.*count_chunks)(at_once);
                ++passed;
            }
            return 0;
        });
        EXPECT_TRUE(processes.wait(child).killed_by(SIGKILL)) << faults;
        EXPECT_EQ(passed.load(), at_once == 1 ? 10U : 2U) << faults;
    }
}

TEST(Faults, KillsWithTheChunkThatMakesThemAsManyAsItWasTold) {
    expect_to_be_killed_at_eleven("kill-at-chunk:11,kill-at-chunk:1@1", &MessageCount::chunks_taken);
}
TEST(Faults, KillsARootWithTheChunkThatItFills) {
    expect_to_be_killed_at_eleven("kill-at-fill:11,kill-at-fill:1@1,kill-at-chunk:1@1", &MessageCount::chunks_filled);
}

}  // namespace coppice::testing
