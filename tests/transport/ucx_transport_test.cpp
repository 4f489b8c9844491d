// What is particular to the UCX transport, beyond what the conformance suite asks of every transport.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "transport/ucx/wire.hpp"
#include "transport/ucx_support.hpp"

namespace coppice::testing {

// Its suite comes along with what these tests borrow from it, but runs elsewhere.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);

namespace {

using transport::FailureCause;
using transport::SendStatus;
using transport::UcxTransport;

// Several ranks in processes of their own, to be killed.
class UcxProcesses : public ::testing::Test {
  protected:
    void start(std::uint32_t size, const std::function<void(Member&)>& body) {
        for (std::uint32_t rank = 0; rank < size; ++rank)
            processes_.start([this, rank, size, &body] {
                Member member(factory_, stage(), Seat(rank), size);
                member.meet();
                body(member);
                return 0;
            });
    }
    void expect_well(std::size_t rank) {
        const Ending ending = processes_.wait(rank);
        EXPECT_TRUE(ending.well()) << "rank " << rank << ": " << ending.text();
    }
    void await_word(std::size_t index, std::uint64_t least) {
        const std::uint64_t deadline = now_ns() + kDeadlineNs;
        while (stage().words[index] < least && now_ns() < deadline)
            usleep(200);
        ASSERT_GE(stage().words[index].load(), least);
    }
    Stage& stage() { return *static_cast<Stage*>(memory_.get()); }

    UcxFactory factory_;
    SharedMemory memory_{sizeof(Stage)};
    Processes processes_;
};

[[noreturn]] void wait_to_be_killed(Member& member) {
    while (true) {
        member.poll();
        sched_yield();
    }
}

// ----------------------------------------------------------------------------------------------------- deaths ---

TEST_F(UcxProcesses, TheDeathOfAPeerThatOnlyEverSentIsNoticed) {
    start(2, [](Member& member) {
        if (member.self() == Seat(1)) {
            member.send(Seat(0), header_of(1), pattern(1, 64));
            wait_to_be_killed(member);
        }
        member.poll_until([&] { return member.recorder.count(Seat(1)) == 1; }, "the message");
        member.stage().words[0] = 1;
        member.poll_until([&] { return member.recorder.failed(Seat(1)); }, "the failure");
        COPPICE_CHECK(member.recorder.failures.size() == 1);
        COPPICE_CHECK(member.recorder.failures[0].cause == FailureCause::transport_error);
        COPPICE_CHECK(member.wire().counters().connections == 0);  // the way back is the peer's own connection
    });
    await_word(0, 1);
    processes_.signal(1, SIGKILL);
    expect_well(0);
}

TEST_F(UcxProcesses, ConnectingToADeadProcessIsAFailureOfThatRank) {
    start(2, [](Member& member) {
        if (member.self() == Seat(1)) {
            member.stage().words[0] = 1;
            wait_to_be_killed(member);
        }
        while (member.stage().words[1] == 0)
            sched_yield();
        std::uint32_t in_flight = 0;
        const Bytes payload = pattern(3, 100);
        (void)member.wire().send(Seat(1), header_of(1), payload, &in_flight);
        member.poll_until([&] { return member.recorder.failed(Seat(1)) && in_flight == 0; }, "the failure");
        COPPICE_CHECK(member.wire().send(Seat(1), header_of(1), payload, &in_flight) == SendStatus::failed);
        COPPICE_CHECK(in_flight == 0 && member.recorder.failures.size() == 1);
        const auto& why = static_cast<UcxTransport&>(member.wire()).last_error();
        COPPICE_CHECK(why.find("rank 1") != std::string::npos);
    });
    await_word(0, 1);
    processes_.signal(1, SIGKILL);
    processes_.wait(1);
    stage().words[1] = 1;
    expect_well(0);
}

TEST_F(UcxProcesses, AStoppedPeerFillsItsOwnQueueOnlyAndItsDeathGivesThePayloadsBack) {
    start(3, [](Member& member) {
        if (member.self() == Seat(1)) {
            member.send(Seat(0), header_of(0), {});
            wait_to_be_killed(member);
        }
        if (member.self() == Seat(2)) {
            member.wire().watch(Seat(1));
            member.poll_until([&] { return member.recorder.count(Seat(0)) == 100; }, "a hundred messages");
            member.leave();
            return;
        }
        member.poll_until([&] { return member.recorder.count(Seat(1)) == 1; }, "rank 1");
        member.stage().words[0] = 1;
        while (member.stage().words[1] == 0)
            sched_yield();  // until it is stopped
        const Bytes payload = pattern(5, transport::kMaxPayload);
        std::uint32_t in_flight = 0;
        SendStatus status = SendStatus::sent;
        while (status == SendStatus::sent || in_flight == 0) {
            status = member.wire().send(Seat(1), header_of(0), payload, &in_flight);
            member.poll();
        }
        COPPICE_CHECK(status == SendStatus::again);
        COPPICE_CHECK(in_flight > 0 && in_flight <= transport::ucx::kMaxPending);
        for (std::uint64_t i = 0; i < 100; ++i)
            member.send(Seat(2), header_of(i), payload);
        COPPICE_CHECK(member.recorder.failures.empty());
        member.stage().words[2] = 1;
        member.poll_until([&] { return member.recorder.failed(Seat(1)) && in_flight == 0; }, "the failure");
        COPPICE_CHECK(member.recorder.failures.size() == 1);
        member.leave();
    });
    await_word(0, 1);
    processes_.signal(1, SIGSTOP);
    stage().words[1] = 1;
    await_word(2, 1);
    processes_.signal(1, SIGKILL);
    expect_well(0);
    expect_well(2);
}

TEST_F(UcxProcesses, AStormOfLargeAndSmallMessagesKeepsItsOrder) {
    constexpr std::uint64_t kMessages = 3000;
    start(2, [](Member& member) {
        const Seat other(1 - member.self().value);
        std::uint64_t next = 0;
        member.recorder.on_message = [&](const Recorder::Received& message) {
            COPPICE_CHECK(header_word(message.header, 0) == next);
            COPPICE_CHECK(message.payload.size() == next * 2731 % (transport::kMaxPayload + 1));
            COPPICE_CHECK(is_pattern(message.payload, next));
            ++next;
        };
        // All payloads stay until the end, so that as many as possible are under way at once.
        std::vector<Bytes> payloads(kMessages);
        std::uint32_t in_flight = 0;
        for (std::uint64_t i = 0; i < kMessages; ++i) {
            payloads[i] = pattern(i, i * 2731 % (transport::kMaxPayload + 1));
            member.poll_until(
                [&] {
                    const auto status = i % 3 == 0 ? member.wire().write(other, header_of(i), payloads[i], &in_flight)
                                                   : member.wire().send(other, header_of(i), payloads[i], &in_flight);
                    COPPICE_CHECK(status != SendStatus::failed);
                    return status == SendStatus::sent;
                },
                "room");
        }
        member.poll_until([&] { return in_flight == 0 && next == kMessages; }, "all messages");
        const auto counters = member.wire().counters();
        COPPICE_CHECK(counters.writes == kMessages / 3 && counters.sends == kMessages - kMessages / 3);
        COPPICE_CHECK(counters.received == kMessages && counters.garbage == 0);
        member.leave();
        COPPICE_CHECK(member.recorder.failures.empty());
    });
    expect_well(0);
    expect_well(1);
}

// ---------------------------------------------------------------------------------------------------- leaving ---

TEST(UcxTransport, APeerThatOnlyWatchedHearsTheGoodbyeToo) {
    in_child([] {
        Group group(2);
        group.wires[1]->watch(Seat(0));
        group.poll_until([&] { return group.wires[0]->connected(Seat(1)); });
        group.poll_until([&] { return group.wires[0]->leave(); });
        group.wires[0].reset();
        group.poll_until([&] { return !group.wires[1]->connected(Seat(0)); });
        COPPICE_CHECK(group.recorders[1].failures.empty());
        std::uint32_t in_flight = 0;
        COPPICE_CHECK(group.wires[1]->send(Seat(0), {}, {}, &in_flight) == SendStatus::failed);
    });
}

TEST(UcxTransport, ARankThatGoesWithoutGoodbyeHasFailed) {
    in_child([] {
        Group group(2);
        group.send(1, 0, pattern(0, 10));
        group.poll_until([&] { return group.recorders[0].count(Seat(1)) == 1; });
        group.wires[0].reset();
        group.poll_until([&] { return group.recorders[1].failed(Seat(0)); });
    });
}

TEST(UcxTransport, MessagesOfAFencedRankAreRefusedAndNoFailureIsReported) {
    in_child([] {
        Group group(3);
        group.send(1, 0, pattern(0, 10));
        group.send(2, 0, pattern(0, 10));
        group.poll_until([&] { return group.recorders[0].messages.size() == 2; });
        std::uint32_t in_flight = 0;
        const Bytes late = pattern(1, 10);
        COPPICE_CHECK(group.wires[1]->send(Seat(0), header_of(1), late, &in_flight) == SendStatus::sent);
        group.wires[0]->fence(Seat(1));
        COPPICE_CHECK(group.wires[0]->send(Seat(1), header_of(1), late, &in_flight) == SendStatus::failed);
        group.send(2, 0, pattern(0, 10));
        group.poll_until([&] { return group.recorders[0].messages.size() == 3; });
        COPPICE_CHECK(group.recorders[0].count(Seat(1)) == 1 && group.recorders[0].failures.empty());
    });
}

// It would take the end of the connection for the other's death.
TEST(UcxTransport, AFencedRankIsToldBeforeItsConnectionEnds) {
    in_child([] {
        Group group(3);
        group.send(1, 0, pattern(0, 10));
        group.poll_until([&] { return group.wires[0]->connected(Seat(1)); });  // the way back
        group.wires[0]->fence(Seat(1));
        group.poll_until([&] { return !group.recorders[1].fenced_by.empty() || !group.recorders[1].failures.empty(); });
        COPPICE_CHECK(group.recorders[1].fenced_by == std::vector<Seat>{Seat(0)});
        COPPICE_CHECK(group.recorders[1].failures.empty());
        COPPICE_CHECK(group.recorders[0].fenced_by.empty() && group.recorders[2].fenced_by.empty());
    });
}

// A rank that is fenced before it has spoken may still connect, as it knows nothing of that.
TEST(UcxTransport, AFencedRankMayConnectButIsNotHeard) {
    in_child([] {
        Group group(2);
        group.wires[0]->fence(Seat(1));
        std::uint32_t in_flight = 0;
        const Bytes payload = pattern(1, 10);
        group.poll_until(
            [&] { return group.wires[1]->send(Seat(0), header_of(1), payload, &in_flight) == SendStatus::sent; });
        group.poll_until([&] { return group.wires[0]->counters().refused == 1; });
        COPPICE_CHECK(group.recorders[0].messages.empty() && group.recorders[0].failures.empty());
    });
}

// ---------------------------------------------------------------------------------------- what the host process sees

TEST(UcxTransport, MakingAndDestroyingLeavesNoDescriptorAndNoThread) {
    in_child([] {
        std::size_t descriptors = 0, tasks = 0;
        for (int round = 0; round < 20; ++round) {
            {
                Group group(3);
                group.send(0, 1, pattern(0, 10));
                group.send(1, 2, pattern(0, 10));
                group.wires[2]->watch(Seat(0));
                group.poll_until([&] { return group.recorders[2].count(Seat(1)) == 1; });
            }
            if (round == 1) descriptors = open_descriptors(), tasks = threads();
        }
        COPPICE_CHECK(becomes([&] { return open_descriptors() <= descriptors && threads() <= tasks; }));
    });
}

// ----------------------------------------------------------------------------------------------- clear errors ---

Error error_of(const transport::UcxOptions& options) {
    auto made = UcxTransport::create(options);
    COPPICE_CHECK(!made);
    return made.error();
}

bool mentions(const Error& error, const char* word) {
    return error.message.find(word) != std::string::npos;
}

TEST(UcxTransport, AnUnknownDeviceOrTransportIsAClearError) {
    in_child([] {
        std::size_t descriptors = 0;
        for (int round = 0; round < 5; ++round) {
            auto options = ucx_options(Seat(0), 2);
            options.net_devices = "nonesuch0";
            Error error = error_of(options);
            COPPICE_CHECK(error.status == COPPICE_ERR_NO_TRANSPORT && mentions(error, "nonesuch0"));
            options.net_devices.clear();
            options.tls = "posix,self";  // these do not tell of a peer's death
            error = error_of(options);
            COPPICE_CHECK(error.status == COPPICE_ERR_NO_TRANSPORT && mentions(error, "posix,self"));
            options = ucx_options(Seat(0), 2);
            options.tls = "nonesuch";
            error = error_of(options);
            COPPICE_CHECK(error.status == COPPICE_ERR_NO_TRANSPORT && mentions(error, "nonesuch"));
            if (round == 0) descriptors = open_descriptors();
            COPPICE_CHECK(open_descriptors() == descriptors);
        }
    });
}

TEST(UcxTransport, TheOptionWinsOverTheEnvironmentAndTheEnvironmentOverLoopback) {
    in_child([] {
        setenv("UCX_NET_DEVICES", "nonesuch0", 1);
        COPPICE_CHECK(error_of(ucx_options(Seat(0), 2)).status == COPPICE_ERR_NO_TRANSPORT);
        auto options = ucx_options(Seat(0), 2);
        options.net_devices = "lo";
        make_ucx(options);
    });
}

TEST(UcxTransport, TooFewDescriptorsAreNamedWithTheLimit) {
    in_child([] {
        rlimit limit{};
        COPPICE_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
        const rlimit low{open_descriptors() + 10, limit.rlim_max};
        COPPICE_CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
        const Error error = error_of(ucx_options(Seat(0), 64));
        COPPICE_CHECK(error.status == COPPICE_ERR_NO_RESOURCES && mentions(error, "ulimit -n"));
        COPPICE_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        make_ucx(ucx_options(Seat(0), 64));
    });
}

TEST(UcxTransport, ARankOutsideOfTheGroupIsRefused) {
    in_child([] {
        COPPICE_CHECK(error_of(ucx_options(Seat(2), 2)).status == COPPICE_ERR_OUT_OF_RANGE);
        COPPICE_CHECK(error_of(ucx_options(Seat(0), 0)).status == COPPICE_ERR_OUT_OF_RANGE);
        auto wire = make_ucx(ucx_options(Seat(0), 2));
        const auto added = wire->add_peer(Seat(2), wire->address());
        COPPICE_CHECK(!added && added.error().status == COPPICE_ERR_OUT_OF_RANGE);
        std::uint32_t in_flight = 0;
        COPPICE_CHECK(wire->send(Seat(7), {}, {}, &in_flight) == SendStatus::failed);
        wire->watch(Seat(7));
        wire->fence(Seat(7));
        wire->release(0);
        wire->release(12345);
    });
}

TEST(UcxAddress, ComesBackAsItWas) {
    const Bytes worker = pattern(1, 300);
    const auto packed = transport::ucx::pack_address(worker, false, 9);
    ASSERT_TRUE(packed.has_value());
    const auto unpacked = transport::ucx::unpack_address(Seat(1), *packed);
    ASSERT_TRUE(unpacked.has_value());
    EXPECT_EQ(unpacked->incarnation, 9U);
    EXPECT_EQ(unpacked->worker, worker);
}

TEST(UcxAddress, OfTooManyDevicesIsRefusedWithARemedy) {
    const auto packed = transport::ucx::pack_address(Bytes(2048));
    ASSERT_FALSE(packed.has_value());
    EXPECT_EQ(packed.error().status, COPPICE_ERR_NO_RESOURCES);
    EXPECT_TRUE(mentions(packed.error(), "UCX_NET_DEVICES"));
}

TEST(UcxAddress, OfAnotherVersionWordSizeOrderOrReleaseIsAMismatch) {
    const auto packed = *transport::ucx::pack_address(pattern(1, 300));
    // Where the version, the word size, the byte order and UCX's release stand.
    for (std::size_t place : {4U, 5U, 8U, 12U}) {
        Bytes other = packed;
        other[place] ^= std::byte{0x40};
        const auto unpacked = transport::ucx::unpack_address(Seat(9), other);
        ASSERT_FALSE(unpacked.has_value());
        EXPECT_EQ(unpacked.error().status, COPPICE_ERR_MISMATCH);
        EXPECT_TRUE(mentions(unpacked.error(), "rank 9"));
    }
}

TEST(UcxAddress, AnyDamageIsNoticed) {
    const auto packed = *transport::ucx::pack_address(pattern(1, 60));
    for (std::size_t place = 0; place < packed.size(); ++place) {
        if (place == 6 || place == 7) continue;  // reserved
        Bytes damaged = packed;
        damaged[place] ^= std::byte{1};
        EXPECT_FALSE(transport::ucx::unpack_address(Seat(0), damaged).has_value()) << place;
    }
    for (std::size_t size = 0; size < packed.size(); ++size)
        EXPECT_FALSE(transport::ucx::unpack_address(Seat(0), std::span(packed).first(size)).has_value()) << size;
}

}  // namespace
}  // namespace coppice::testing
