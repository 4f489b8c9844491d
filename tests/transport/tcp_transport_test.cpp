// What is particular to the TCP transport, beyond what the conformance suite asks of every transport.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "transport/tcp_support.hpp"

namespace coppice::testing {
namespace {

using transport::SendStatus;
using transport::TcpTransport;

using Group = TcpGroup;

TEST(TcpTransport, BothMayConnectAtOnceAndNothingIsLostOrTwice) {
    for (int round = 0; round < 50; ++round) {
        Group group(4);
        for (std::uint32_t from = 0; from < 4; ++from)
            for (std::uint32_t to = 0; to < 4; ++to)
                if (from != to) {
                    for (std::uint64_t number = 0; number < 5; ++number)
                        ASSERT_EQ(group.try_send(from, to, number, pattern(number, 100)), SendStatus::sent);
                }
        group.poll_until([&] {
            return std::ranges::all_of(group.recorders, [](const auto& one) { return one.messages.size() >= 15; });
        });
        for (const Recorder& recorder : group.recorders) {
            std::uint64_t next[4] = {};
            for (const auto& message : recorder.messages)
                EXPECT_EQ(header_word(message.header, 0), next[message.from.value]++);
        }
        for (const auto& wire : group.wires)
            EXPECT_EQ(wire->counters().garbage, 0U);
        EXPECT_TRUE(group.nobody_failed());
    }
}

// Only the higher rank can reach the lower one: the lower one's attempt comes to nothing, and the other's is taken.
TEST(TcpTransport, WhereOnlyOneReachesTheOtherItsConnectionIsTaken) {
    Group group(2);
    auto lone = make_tcp(tcp_options(Seat(0), 2));
    std::swap(group.wires[0], lone);
    {
        auto nowhere = make_tcp(tcp_options(Seat(1), 2));  // a port where soon nobody listens
        ASSERT_TRUE(group.wires[0]->add_peer(Seat(1), nowhere->address()).has_value());
    }
    ASSERT_TRUE(group.wires[1]->add_peer(Seat(0), group.wires[0]->address()).has_value());
    // First the higher rank's handshake is over, as far as it goes.
    ASSERT_EQ(group.try_send(1, 0, 1, {}), SendStatus::sent);
    group.poll_until([&] { return group.recorders[0].messages.size() == 1; });
    ASSERT_EQ(group.try_send(0, 1, 2, {}), SendStatus::sent);
    group.poll_until([&] { return group.recorders[1].messages.size() == 1; });
    EXPECT_TRUE(group.nobody_failed());
}

TEST(TcpTransport, ManyWaitBeforeTheConnectionStandsAndAllArriveInOrder) {
    Group group(2);
    std::uint64_t accepted = 0;
    while (group.try_send(0, 1, accepted, {}) == SendStatus::sent)
        ++accepted;
    EXPECT_GT(accepted, 10U);
    group.poll_until([&] { return group.recorders[1].messages.size() == accepted; });
    for (std::uint64_t number = 0; number < accepted; ++number)
        EXPECT_EQ(header_word(group.recorders[1].messages[number].header, 0), number);
}

TEST(TcpTransport, ABatchLeavesAtItsEndAndWhatIsForOnePeerTogether) {
    Group group(4);
    for (const std::uint32_t to : {1U, 2U})
        group.send(0, to, 0, {});
    group.poll_until([&] { return group.recorders[1].messages.size() + group.recorders[2].messages.size() == 2; });
    group.wires[0]->begin_batch();
    for (std::uint64_t number = 1; number <= 5; ++number)
        for (const std::uint32_t to : {1U, 2U, 3U})  // 3 is not connected yet
            ASSERT_EQ(group.try_send(0, to, number, pattern(number, 8)), SendStatus::sent);
    for (int round = 0; round < 20; ++round)
        EXPECT_EQ(group.wires[1]->poll(group.recorders[1]), 0U);
    group.wires[0]->end_batch();
    std::size_t events = 0;
    EXPECT_TRUE(becomes([&] { return (events = group.wires[1]->poll(group.recorders[1])) > 0; }));
    EXPECT_EQ(events, 5U);
    group.poll_until(
        [&] { return group.recorders[2].messages.size() == 6 && group.recorders[3].messages.size() == 5; });
    // Behind the batch each leaves at once.
    ASSERT_EQ(group.try_send(0, 1, 6, {}), SendStatus::sent);
    EXPECT_TRUE(becomes([&] { return group.wires[1]->poll(group.recorders[1]) > 0; }));
    EXPECT_TRUE(group.nobody_failed());
}

TEST(TcpTransport, ABatchThatIsKeptLeavesWithTheNextOrWithAPoll) {
    Group group(2);
    group.send(0, 1, 0, {});
    group.poll_until([&] { return group.recorders[1].messages.size() == 1; });
    const auto keep = [&](std::uint64_t number, std::size_t bytes) {
        group.wires[0]->begin_batch();
        ASSERT_EQ(group.try_send(0, 1, number, pattern(number, bytes)), SendStatus::sent);
        EXPECT_TRUE(group.wires[0]->keep_batch());
    };
    const auto nothing_arrives = [&] {
        for (int round = 0; round < 20; ++round)
            EXPECT_EQ(group.wires[1]->poll(group.recorders[1]), 0U);
    };
    const auto arrive = [&](std::size_t number) {
        EXPECT_TRUE(becomes([&] {
            group.wires[1]->poll(group.recorders[1]);
            return group.recorders[1].messages.size() == number;
        }));
    };
    ASSERT_TRUE(group.wires[0]->capabilities().keeps_batches);
    keep(1, 8);
    keep(2, 8);
    nothing_arrives();
    group.wires[0]->begin_batch();
    group.wires[0]->end_batch();
    arrive(3);
    keep(3, 8);
    nothing_arrives();
    group.wires[0]->poll(group.recorders[0]);
    arrive(4);
    // What leaves at once takes along what stays before it.
    keep(4, 8);
    ASSERT_EQ(group.try_send(0, 1, 5, pattern(5, 8192)), SendStatus::sent);
    arrive(6);
    keep(6, 8);
    group.wires[0]->leave();
    arrive(7);
    for (std::uint64_t number = 0; number < 7; ++number)
        EXPECT_EQ(header_word(group.recorders[1].messages[number].header, 0), number);
    // Nothing was sent: nothing stays.
    group.wires[1]->begin_batch();
    EXPECT_FALSE(group.wires[1]->keep_batch());
    EXPECT_TRUE(group.nobody_failed());
}

// A large one leaves at once, but not before those that wait.
TEST(TcpTransport, ABatchKeepsTheOrderWhateverTheSizes) {
    constexpr std::array<std::size_t, 7> kSizes = {8, 8192, 0, 512, 400, 8192, 8};
    Group group(2);
    std::uint64_t number = 0;
    for (int round = 0; round < 10; ++round) {
        group.wires[0]->begin_batch();
        for (const std::size_t size : kSizes) {
            ASSERT_EQ(group.try_send(0, 1, number, pattern(number, size)), SendStatus::sent);
            ++number;
        }
        group.wires[0]->end_batch();
        group.poll_until([&] { return group.recorders[1].messages.size() == number; });
    }
    for (std::uint64_t i = 0; i < number; ++i) {
        EXPECT_EQ(header_word(group.recorders[1].messages[i].header, 0), i);
        EXPECT_EQ(group.recorders[1].messages[i].payload, pattern(i, kSizes[i % kSizes.size()]));
    }
    EXPECT_TRUE(group.nobody_failed());
}

TEST(TcpTransport, TheDescriptorShowsArrivalsRoomAndEnds) {
    Group group(2);
    const auto readable = [&](std::uint32_t rank) {
        pollfd one{.fd = group.wires[rank]->arm(), .events = POLLIN, .revents = 0};
        return ::poll(&one, 1, 0) == 1;
    };
    const auto shows = [&](std::uint32_t rank) { return becomes([&] { return readable(rank); }); };
    group.send(0, 1, 0, {});
    group.poll_until([&] { return group.recorders[1].messages.size() == 1; });
    group.poll_until([&] { return !readable(0) && !readable(1); });
    ASSERT_EQ(group.try_send(0, 1, 1, {}), SendStatus::sent);
    EXPECT_TRUE(shows(1));
    // Until there is no room any more; then the other's reading shows.
    while (group.try_send(0, 1, 2, pattern(1, 8192)) == SendStatus::sent) {
    }
    EXPECT_TRUE(becomes([&] {
        group.wires[1]->poll(group.recorders[1]);
        return readable(0);
    }));
    group.send(0, 1, 3, pattern(1, 8192));
    group.poll_until([&] { return !readable(0) && !readable(1); });
    group.wires[0].reset();
    EXPECT_TRUE(shows(1));
    group.poll_until([&] { return group.recorders[1].failed(Seat(0)); });
}

TEST(TcpTransport, ARankThatIsFencedIsToldAndOneThatConnectsLaterToo) {
    Group group(3);
    group.send(1, 0, 0, {});
    group.poll_until([&] { return group.recorders[0].messages.size() == 1; });
    group.wires[0]->fence(Seat(1));
    group.wires[0]->fence(Seat(2));
    group.poll_until([&] { return !group.recorders[1].fenced_by.empty(); });
    EXPECT_EQ(group.recorders[1].fenced_by, std::vector<Seat>{Seat(0)});
    ASSERT_EQ(group.try_send(2, 0, 1, {}), SendStatus::sent);
    group.poll_until([&] { return !group.recorders[2].fenced_by.empty(); });
    group.poll_until([&] { return group.wires[0]->counters().refused == 1; });
    EXPECT_EQ(group.recorders[0].messages.size(), 1U);
    EXPECT_TRUE(group.nobody_failed());
}

TEST(TcpTransport, APeerThatOnlyWatchedHearsTheGoodbyeToo) {
    Group group(2);
    group.wires[1]->watch(Seat(0));
    group.poll_until([&] { return group.wires[0]->connected(Seat(1)); });
    group.poll_until([&] { return group.wires[0]->leave(); });
    group.wires[0].reset();
    group.poll_until([&] { return !group.wires[1]->connected(Seat(0)); });
    EXPECT_TRUE(group.recorders[1].failures.empty());
    EXPECT_EQ(group.try_send(1, 0, 0, {}), SendStatus::failed);
}

// The peer takes no part: it may be stopped meanwhile.
TEST(TcpTransport, ARankThatSaidFarewellIsNotTakenForDeadByAPeerThatConnectsTooLate) {
    for (const bool connects_first : {true, false}) {
        Group group(3);
        for (const std::uint32_t rank : {0U, 2U}) {
            if (rank == 0) group.wires[rank]->say_farewell(Seat(1));
            const std::uint64_t deadline = now_ns() + kDeadlineNs;
            while (!group.wires[rank]->leave() && now_ns() < deadline)
                group.wires[rank]->poll(group.recorders[rank]);
            group.wires[rank].reset();
        }
        const auto connect_to = [&](std::uint32_t rank) { group.wires[1]->watch(Seat(rank)); };
        if (connects_first) connect_to(0);
        connect_to(2);  // which said nothing
        group.poll_until([&] { return group.recorders[1].failed(Seat(2)); });
        if (!connects_first) connect_to(0);
        group.poll_until([&] { return group.recorders[1].has_left(Seat(0)); });
        EXPECT_FALSE(group.recorders[1].failed(Seat(0)));
        EXPECT_EQ(group.wires[1]->counters().garbage, 0U);
        EXPECT_EQ(group.try_send(1, 0, 0, {}), SendStatus::failed);
    }
}

TEST(TcpTransport, MakingAndDestroyingLeavesNoDescriptorAndNoThread) {
    std::size_t descriptors = 0, tasks = 0;
    for (int round = 0; round < 20; ++round) {
        {
            Group group(3);
            group.send(0, 1, 0, {});
            group.send(1, 2, 0, {});
            group.wires[2]->watch(Seat(0));
            group.poll_until([&] { return group.recorders[2].count(Seat(1)) == 1; });
        }
        if (round == 1) descriptors = open_descriptors(), tasks = threads();
    }
    EXPECT_TRUE(becomes([&] { return open_descriptors() <= descriptors && threads() <= tasks; }));
}

// What a child of fork does with its copies is nothing to the parent.
TEST(TcpTransport, AForkedChildThatDestroysItsCopyDisturbsNobody) {
    Group group(2);
    group.send(0, 1, 0, {});
    group.send(1, 0, 0, {});
    group.poll_until([&] { return group.recorders[0].messages.size() + group.recorders[1].messages.size() == 2; });
    const std::size_t descriptors = open_descriptors();
    const pid_t child = fork();
    if (child == 0) {
        const bool closed = open_descriptors() < descriptors;
        const int file = ::dup(STDERR_FILENO);  // takes a number that was a socket's
        group.wires.clear();
        _exit(closed && ::close(file) == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    for (std::uint64_t number = 1; number < 100; ++number) {
        group.send(0, 1, number, pattern(1, 3000));
        group.send(1, 0, number, pattern(1, 3000));
    }
    group.poll_until([&] { return group.recorders[0].messages.size() + group.recorders[1].messages.size() == 200; });
    EXPECT_TRUE(group.nobody_failed());
}

TEST(TcpTransport, AForkedChildKeepsNoDescriptorThatAnotherThreadOpensJustThen) {
    const std::size_t before = open_descriptors();
    std::atomic<bool> over = false;
    std::thread other([&] {
        while (!over) {
            transport::tcp::Descriptor::from([] { return ::dup(STDERR_FILENO); });
            std::this_thread::sleep_for(std::chrono::microseconds(20));  // else a fork hardly gets its turn
        }
    });
    int wrong = 0;
    for (int forks = 0; forks < 500; ++forks) {
        const pid_t child = fork();
        if (child == 0) _exit(open_descriptors() == before ? 0 : 1);
        int status = -1;
        wrong += waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
    }
    over = true;
    other.join();
    EXPECT_EQ(wrong, 0);
}

TEST(TcpTransport, IPv6AloneWorks) {
    Group group(2, [](transport::TcpOptions& options) { options.interfaces = "lo"; });
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        std::vector<transport::tcp::Endpoint> six;
        for (const auto& endpoint : group.wires[rank]->endpoints())
            if (endpoint.family == 6) six.push_back(endpoint);
        if (six.empty()) GTEST_SKIP() << "no IPv6 here";
        EXPECT_EQ(transport::tcp::to_string(six.front(), false), "::1");
        ASSERT_TRUE(group.wires[1 - rank]->add_peer(Seat(rank), transport::tcp::pack_address(six, 0)).has_value());
    }
    group.send(0, 1, 0, pattern(1, 100));
    group.send(1, 0, 0, pattern(1, 100));
    group.poll_until([&] { return group.recorders[0].messages.size() + group.recorders[1].messages.size() == 2; });
    EXPECT_TRUE(group.nobody_failed());
}

// ------------------------------------------------------------------------------------------------------ addresses ---

using transport::tcp::Endpoint;

Endpoint endpoint(std::initializer_list<std::uint8_t> ip, std::uint8_t prefix) {
    Endpoint made{.port = 1, .prefix = prefix};
    std::ranges::copy(ip, made.ip.begin());
    return made;
}

TEST(TcpAddress, ThoseOfACommonNetworkComeFirst) {
    const Endpoint docker = endpoint({172, 17, 0, 1}, 16), near = endpoint({10, 0, 1, 7}, 24),
                   far = endpoint({10, 0, 2, 7}, 24);
    std::vector<Endpoint> theirs{docker, far, near};
    transport::tcp::sort_by_reach(theirs, std::vector{endpoint({10, 0, 1, 9}, 24)});
    EXPECT_EQ(theirs, (std::vector{near, docker, far}));
}

Error error_of(const transport::TcpOptions& options) {
    auto made = TcpTransport::create(options);
    COPPICE_CHECK(!made);
    return made.error();
}

bool mentions(const Error& error, const char* word) {
    return error.message.find(word) != std::string::npos;
}

TEST(TcpTransport, WhatItLacksIsNamedWithTheRemedy) {
    auto options = tcp_options(Seat(0), 2);
    options.interfaces = "nonesuch0";
    Error error = error_of(options);
    EXPECT_EQ(error.status, COPPICE_ERR_NO_TRANSPORT);
    EXPECT_TRUE(mentions(error, "nonesuch0") && mentions(error, "COPPICE_TCP_INTERFACE") && mentions(error, "lo"));
    options = tcp_options(Seat(1), 2);
    options.port = 65535;
    error = error_of(options);
    EXPECT_TRUE(mentions(error, "COPPICE_TCP_PORT"));
    options = tcp_options(Seat(0), 2);
    options.buffer = 2000;
    error = error_of(options);
    EXPECT_EQ(error.status, COPPICE_ERR_NO_RESOURCES);
    EXPECT_TRUE(mentions(error, "net.core.rmem_max"));
}

}  // namespace
}  // namespace coppice::testing
