// A rank that has no descriptor left for those that connect to it.
#include <gtest/gtest.h>

#include <optional>

#include "support/shortage.hpp"
#include "transport/tcp_support.hpp"

namespace coppice::testing {
namespace {

using transport::SendStatus;

// Rank 0 is this process, rank 1 its child, which connects when it is told to. Beside a silent stranger the rank has something else to look
// at meanwhile, until the stranger's time is over.
void connect_in_shortage(bool beside_a_silent_one) {
    SharedMemory memory(sizeof(std::atomic<int>));
    auto& may_connect = *static_cast<std::atomic<int>*>(memory.get());
    const auto wire = make_tcp(tcp_options(Seat(0), 2));
    const Bytes address = wire->address();
    const Bytes payload = pattern(1, 100);
    Processes processes;
    const std::size_t other = processes.start([&] {
        const auto own = make_tcp(tcp_options(Seat(1), 2));
        Recorder recorder;
        std::uint32_t in_flight = 0;
        COPPICE_CHECK(own->add_peer(Seat(0), address).has_value());
        COPPICE_CHECK(becomes([&] { return may_connect.load() != 0; }));
        COPPICE_CHECK(own->send(Seat(0), header_of(1), payload, &in_flight) == SendStatus::sent);
        COPPICE_CHECK(becomes([&] {
            own->poll(recorder);
            return own->connected(Seat(0));
        }));
        COPPICE_CHECK(becomes([&] {
            own->poll(recorder);
            return own->leave();
        }));
        return recorder.failures.empty() ? 0 : 1;
    });
    Recorder recorder;
    // Asleep, as a rank is that waits: what has to be done at a time has to wake it.
    const auto sleep_until = [&](const std::function<bool()>& condition) {
        return becomes([&] {
            pollfd entry{.fd = wire->arm(), .events = POLLIN, .revents = 0};
            if (::poll(&entry, 1, 100) == 1) wire->poll(recorder);
            return condition();
        });
    };
    std::optional<RawPeer> silent;
    if (beside_a_silent_one) {
        silent.emplace(*wire);
        const std::size_t before = open_descriptors();
        ASSERT_TRUE(sleep_until([&] { return open_descriptors() > before; }));
    }
    {
        const Shortage shortage;
        may_connect = 1;
        pollfd entry{.fd = wire->arm(), .events = POLLIN, .revents = 0};
        ASSERT_EQ(::poll(&entry, 1, static_cast<int>(kDeadlineNs / 1'000'000)), 1);
        EXPECT_LE(count_wakes(wire->arm(), [&] { wire->poll(recorder); }), kMostWakes);
        EXPECT_TRUE(recorder.messages.empty() && recorder.failures.empty());
        EXPECT_TRUE(sleep_until([&] { return !silent || silent->ended(); }));
    }
    EXPECT_TRUE(sleep_until([&] { return recorder.messages.size() == 1; }));
    EXPECT_TRUE(becomes([&] {
        wire->poll(recorder);
        return processes.has_ended(other);
    }));
    EXPECT_TRUE(processes.wait(other).well());
    // From then on it listens as before.
    const RawPeer stranger(*wire);
    stranger.send(pattern(2, 100));
    EXPECT_TRUE(becomes([&] {
        wire->poll(recorder);
        return stranger.ended();
    }));
    EXPECT_TRUE(recorder.failures.empty());
}

TEST(TcpShortage, NobodyIsWokenAgainAndAgainAndWhoHasConnectedIsTakenOnceThereIsRoom) {
    connect_in_shortage(false);
}

TEST(TcpShortage, WhoHasConnectedIsTakenAlsoWhereTheRankHasLookedAtSomethingElseMeanwhile) {
    connect_in_shortage(true);
}

}  // namespace
}  // namespace coppice::testing
