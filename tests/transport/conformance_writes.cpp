// What every transport does with writes, one-sided or not: they come whole, in their order, and not from the fenced.
#include <signal.h>

#include "transport/conformance.hpp"

namespace coppice::testing {

namespace {

using transport::SendStatus;

// Words of the stage.
constexpr std::size_t kReceived = 0;
constexpr std::size_t kFenced = 1;

// Sizes on both sides of every bound there might be.
std::size_t some_size(std::uint64_t number) {
    static constexpr std::size_t kSizes[] = {0,   1,   64,  200,  255,  256,
                                             257, 448, 449, 1000, 5000, transport::kMaxPayload};
    return kSizes[number * 5 % std::size(kSizes)];
}

SendStatus try_write(Member& member, Seat to, std::uint64_t number, const Bytes& payload, std::uint32_t& in_flight) {
    return member.wire().write(to, header_of(number, payload.size()), payload, &in_flight);
}

void write_numbered(Member& member, Seat to, std::uint64_t number) {
    const Bytes payload = pattern(number, some_size(number));
    std::uint32_t in_flight = 0;
    SendStatus status = SendStatus::again;
    member.poll_until(
        [&] {
            status = try_write(member, to, number, payload, in_flight);
            return status != SendStatus::again;
        },
        "room to write");
    COPPICE_CHECK(status == SendStatus::sent);
    member.poll_until([&] { return in_flight == 0; }, "a payload to leave");
}

// Checks number, size and bytes of what arrives, and counts it per writer.
struct Checker {
    explicit Checker(Member& member) : received(member.size(), 0) {
        member.recorder.on_message = [this](const Recorder::Received& message) {
            const std::uint64_t number = received[message.from.value]++;
            COPPICE_CHECK(header_word(message.header, 0) == number);
            COPPICE_CHECK(message.payload.size() == some_size(number) && is_pattern(message.payload, number));
        };
    }
    std::vector<std::uint64_t> received;
};

}  // namespace

// The reader says nothing, so what it has consumed must become known by itself.
TEST_P(Conformance, WritesOfEverySizeComeInOrderOverManyLaps) {
    start(2, [](Member& member) {
        constexpr std::uint64_t kWrites = 500;
        if (member.self() == Seat{0}) {
            for (std::uint64_t number = 0; number < kWrites; ++number)
                write_numbered(member, Seat{1}, number);
        } else {
            Checker checker(member);
            member.poll_until([&] { return checker.received[0] == kWrites; }, "all writes");
        }
        member.leave();
        COPPICE_CHECK(member.recorder.failures.empty());
    });
    expect_all_well();
}

TEST_P(Conformance, SixRanksWriteToEachOther) {
    start(6, [](Member& member) {
        constexpr std::uint64_t kWrites = 60;
        Checker checker(member);
        for (std::uint64_t number = 0; number < kWrites; ++number)
            for (std::uint32_t step = 1; step < member.size(); ++step)
                write_numbered(member, Seat{(member.self().value + step) % member.size()}, number);
        for (std::uint32_t peer = 0; peer < member.size(); ++peer)
            if (peer != member.self().value)
                member.poll_until([&] { return checker.received[peer] == kWrites; }, "all writes");
        member.leave();
        COPPICE_CHECK(member.recorder.failures.empty());
    });
    expect_all_well();
}

TEST_P(Conformance, WritesThatWereAcceptedArriveAlthoughTheWriterLeaves) {
    start(2, [](Member& member) {
        constexpr std::uint64_t kWrites = 20;
        if (member.self() == Seat{0}) {
            for (std::uint64_t number = 0; number < kWrites; ++number)
                write_numbered(member, Seat{1}, number);
            member.poll_until([&] { return member.wire().leave(); }, "leaving");
            return;
        }
        Checker checker(member);
        member.poll_until([&] { return checker.received[0] == kWrites; }, "all writes");
        COPPICE_CHECK(member.recorder.failures.empty());
    });
    expect_all_well();
}

TEST_P(Conformance, WritesOfAPeerThatIsKilledAreAPrefixAndBlockNobody) {
    constexpr std::uint64_t kRounds = 6;
    for (std::uint64_t round = 0; round < kRounds; round += GetParam()->slow_to_start() ? 3U : 1U) {
        begin_again();
        start(3, [](Member& member) {
            if (member.self() == Seat{0})
                for (std::uint64_t number = 0;; ++number)
                    for (const Seat to : {Seat{1}, Seat{2}})
                        write_numbered(member, to, number);
            member.wire().watch(Seat{0});
            Checker checker(member);
            const auto next = member.recorder.on_message;
            member.recorder.on_message = [&](const Recorder::Received& message) {
                next(message);
                if (message.from == Seat{0}) ++member.stage().words[kReceived];
            };
            member.poll_until([&] { return member.recorder.failed(Seat{0}); }, "the death");
            const Seat other{3 - member.self().value};
            for (std::uint64_t number = 0; number < 50; ++number)
                write_numbered(member, other, number);
            member.poll_until([&] { return checker.received[other.value] == 50; }, "the other survivor");
            member.leave();
        });
        await_word(kReceived, 20 + round * 31);
        processes_.signal(0, SIGKILL);
        expect_killed(0);
        expect_all_well();
    }
}

TEST_P(Conformance, WritesOfAFencedPeerAreNotDelivered) {
    start(2, [](Member& member) {
        if (member.self() == Seat{0}) {
            std::uint32_t in_flight = 0;
            const Bytes payload = pattern(1, 1000);
            const std::uint64_t deadline = now_ns() + kDeadlineNs;
            for (std::uint64_t number = 0; member.stage().words[kFenced] == 0; ++number) {
                try_write(member, Seat{1}, number, payload, in_flight);
                member.poll();
                sched_yield();
                COPPICE_CHECK(now_ns() < deadline);
            }
            return;
        }
        member.poll_until([&] { return member.recorder.count(Seat{0}) >= 40; }, "some writes");
        member.wire().fence(Seat{0});
        const std::size_t heard = member.recorder.messages.size();
        for (int polls = 0; polls < 2000; ++polls) {
            member.poll();
            sched_yield();
        }
        COPPICE_CHECK(member.recorder.count(Seat{0}) == heard && member.recorder.failures.empty());
        member.stage().words[kFenced] = 1;
    });
    expect_all_well();
}

}  // namespace coppice::testing
