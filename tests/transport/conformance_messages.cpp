// What every transport does with messages while everybody lives.
#include <sched.h>

#include <algorithm>
#include <deque>

#include "transport/conformance.hpp"

namespace coppice::testing {

namespace {

using transport::Counters;
using transport::kMaxHeader;
using transport::kMaxPayload;
using transport::SendStatus;

std::uint64_t seed_of(Seat from, Seat to, std::uint64_t number) {
    return (std::uint64_t{from.value} << 40) + (std::uint64_t{to.value} << 20) + number;
}

// Sizes on both sides of every bound there might be, in an order that is the same everywhere.
std::size_t some_size(std::uint64_t number) {
    static constexpr std::size_t kSizes[] = {0,   1,   7,   8,    40,   64,   127,        128,
                                             129, 200, 256, 1000, 4096, 8191, kMaxPayload};
    return kSizes[number * 7 % std::size(kSizes)];
}

// Checks order and bytes of what arrives, and counts it per sender.
struct Checker {
    explicit Checker(Member& member) : received(member.size(), 0) {
        member.recorder.on_message = [this, to = member.self()](const Recorder::Received& message) {
            const std::uint64_t number = received[message.from.value]++;
            COPPICE_CHECK(header_word(message.header, 0) == number);
            COPPICE_CHECK(header_word(message.header, 1) == message.payload.size());
            COPPICE_CHECK(message.payload.size() == some_size(number));
            COPPICE_CHECK(is_pattern(message.payload, seed_of(message.from, to, number)));
        };
    }
    std::vector<std::uint64_t> received;
};

SendStatus try_numbered(Member& member, Seat to, std::uint64_t number, std::uint32_t& in_flight, Bytes& payload) {
    payload = pattern(seed_of(member.self(), to, number), some_size(number));
    return member.wire().send(to, header_of(number, payload.size()), payload, &in_flight);
}

void send_numbered(Member& member, Seat to, std::uint64_t number) {
    const Bytes payload = pattern(seed_of(member.self(), to, number), some_size(number));
    COPPICE_CHECK(member.send(to, header_of(number, payload.size()), payload) == SendStatus::sent);
}

void all_to_all(Member& member, std::uint64_t messages) {
    Checker checker(member);
    for (std::uint64_t number = 0; number < messages; ++number)
        for (std::uint32_t step = 1; step < member.size(); ++step)
            send_numbered(member, Seat{(member.self().value + step) % member.size()}, number);
    for (std::uint32_t peer = 0; peer < member.size(); ++peer)
        if (peer != member.self().value)
            member.poll_until([&] { return checker.received[peer] == messages; }, "all messages");
    member.leave();
    COPPICE_CHECK(member.recorder.failures.empty());
}

}  // namespace

TEST_P(Conformance, DeliversEverySizeInOrderWithEveryByte) {
    start(2, [](Member& member) {
        if (member.self() == Seat{0}) {
            for (std::size_t size = 0; size <= kMaxPayload; ++size) {
                const Bytes payload = pattern(size, size);
                COPPICE_CHECK(member.send(Seat{1}, header_of(size), payload) == SendStatus::sent);
            }
        } else {
            std::size_t next = 0;
            member.recorder.on_message = [&](const Recorder::Received& message) {
                COPPICE_CHECK(message.from == Seat{0} && message.header.size() == 16);
                COPPICE_CHECK(header_word(message.header, 0) == next && message.payload.size() == next);
                COPPICE_CHECK(is_pattern(message.payload, next));
                ++next;
            };
            member.poll_until([&] { return next == kMaxPayload + 1; }, "all sizes");
        }
        member.leave();
        COPPICE_CHECK(member.recorder.failures.empty());
    });
    expect_all_well();
}

TEST_P(Conformance, DeliversHeadersOfEverySizeByWriteAsBySend) {
    start(2, [](Member& member) {
        constexpr std::size_t kPayloads[] = {0, 1, 128, 129, 5000};
        if (member.self() == Seat{0}) {
            for (std::size_t header = 0; header <= kMaxHeader; ++header)
                for (const std::size_t payload : kPayloads) {
                    std::uint32_t in_flight = 0;
                    const Bytes head = pattern(header, header);
                    const Bytes body = pattern(payload, payload);
                    SendStatus status = SendStatus::again;
                    member.poll_until(
                        [&] {
                            status = header % 2 == 0 ? member.wire().write(Seat{1}, head, body, &in_flight)
                                                     : member.wire().send(Seat{1}, head, body, &in_flight);
                            return status != SendStatus::again;
                        },
                        "room");
                    member.poll_until([&] { return in_flight == 0; }, "a payload to leave");
                    COPPICE_CHECK(status == SendStatus::sent);
                }
        } else {
            const std::size_t expected = (kMaxHeader + 1) * std::size(kPayloads);
            member.poll_until([&] { return member.recorder.messages.size() == expected; }, "all headers");
            // Writes and sends may pass each other on a wire with native writes, so compare as sets.
            std::vector<std::pair<std::size_t, std::size_t>> seen;
            for (const auto& message : member.recorder.messages) {
                COPPICE_CHECK(is_pattern(message.header, message.header.size()));
                COPPICE_CHECK(is_pattern(message.payload, message.payload.size()));
                seen.emplace_back(message.header.size(), message.payload.size());
            }
            std::sort(seen.begin(), seen.end());
            COPPICE_CHECK(std::unique(seen.begin(), seen.end()) == seen.end() && seen.size() == expected);
        }
        member.leave();
    });
    expect_all_well();
}

TEST_P(Conformance, EightRanksSendToEachOther) {
    start(8, [](Member& member) { all_to_all(member, 200); });
    expect_all_well();
}

TEST_P(Conformance, SixteenRanksMakeProgressOnFewCores) {
    start(16, [](Member& member) { all_to_all(member, 20); });
    expect_all_well();
}

TEST_P(Conformance, KeptPayloadsStayGoodAndAreReleasedInAnyOrder) {
    start(2, [](Member& member) {
        constexpr std::uint64_t kKept = 6;
        constexpr std::uint64_t kAfter = 500;
        const auto seed = [](std::uint64_t number) { return 1000 + number; };
        if (member.self() == Seat{0}) {
            for (std::uint64_t number = 0; number < kKept + kAfter; ++number)
                COPPICE_CHECK(member.send(Seat{1}, header_of(number), pattern(seed(number), 5000)) == SendStatus::sent);
        } else {
            member.recorder.keep = true;
            member.poll_until(
                [&] {
                    if (member.recorder.kept.size() + member.recorder.messages.size() >= kKept)
                        member.recorder.keep = false;
                    return !member.recorder.keep;
                },
                "payloads to keep");
            auto& kept = member.recorder.kept;
            const std::size_t taken = kept.size();
            // Every second one goes back at once, newest first; the rest stays while hundreds of others pass.
            for (std::size_t at = taken; at-- > 0;) {
                COPPICE_CHECK(is_pattern(kept[at].payload, seed(header_word(kept[at].header, 0))));
                if (at % 2 == 1) {
                    member.wire().release(kept[at].buffer);
                    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(at));
                }
            }
            member.poll_until([&] { return taken + member.recorder.messages.size() == kKept + kAfter; }, "the rest");
            for (const auto& message : member.recorder.messages)
                COPPICE_CHECK(is_pattern(message.payload, seed(header_word(message.header, 0))));
            for (const auto& still : kept) {
                COPPICE_CHECK(is_pattern(still.payload, seed(header_word(still.header, 0))));
                member.wire().release(still.buffer);
            }
        }
        member.leave();
    });
    expect_all_well();
}

TEST_P(Conformance, ASlowReaderCostsTheWriterAgainAndNothingElse) {
    start(2, [](Member& member) {
        std::atomic<std::uint64_t>& stuffed = member.stage().words[0];
        std::atomic<std::uint64_t>& accepted = member.stage().words[1];
        if (member.self() == Seat{0}) {
            // Until there is no room, or the transport holds on to our memory instead of having room of its own.
            constexpr std::uint64_t kBound = 1'000'000;
            constexpr std::uint32_t kLent = 64;
            std::deque<Bytes> payloads;
            std::uint32_t in_flight = 0;
            std::uint64_t number = 0;
            while (number < kBound && in_flight < kLent) {
                Bytes payload;
                if (try_numbered(member, Seat{1}, number, in_flight, payload) != SendStatus::sent) break;
                ++number;
                if (in_flight > 0) payloads.push_back(std::move(payload));
            }
            COPPICE_CHECK(number > 0 && number < kBound);
            stuffed = 1;
            member.poll_until([&] { return in_flight == 0; }, "payloads to leave");
            for (std::uint64_t more = 0; more < 500; ++more)
                send_numbered(member, Seat{1}, number++);
            accepted = number;
        } else {
            const std::uint64_t deadline = now_ns() + kDeadlineNs;
            while (stuffed == 0 && now_ns() < deadline)
                sched_yield();  // without polling
            Checker checker(member);
            member.poll_until([&] { return accepted != 0 && checker.received[0] == accepted; }, "all messages");
        }
        member.leave();
    });
    expect_all_well();
}

TEST_P(Conformance, CountsWhatItDid) {
    start(2, [](Member& member) {
        std::uint32_t in_flight = 0;
        const Seat other{1 - member.self().value};
        for (int i = 0; i < 5; ++i)
            member.send(other, header_of(1), pattern(1, 100));
        member.poll_until([&] { return member.wire().write(other, header_of(2), {}, &in_flight) == SendStatus::sent; },
                          "room");
        member.poll_until([&] { return member.recorder.messages.size() == 6; }, "six messages");
        const Counters counters = member.wire().counters();
        COPPICE_CHECK(counters.sends == 5 && counters.writes == 1 && counters.received == 6);
        COPPICE_CHECK(counters.garbage == 0 && counters.refused == 0);
        member.leave();
    });
    expect_all_well();
}

TEST_P(Conformance, OpensConnectionsWhenTheyAreNeeded) {
    start(6, [](Member& member) {
        COPPICE_CHECK(member.wire().counters().connections == 0);
        member.barrier();
        const Seat right{(member.self().value + 1) % member.size()};
        member.send(right, header_of(0), {});
        member.send(right, header_of(1), {});
        member.poll_until([&] { return member.recorder.messages.size() == 2; }, "the left neighbour's messages");
        member.barrier();
        // One of our own; what the left neighbour opened may count too.
        COPPICE_CHECK(member.wire().counters().connections >= 1 && member.wire().counters().connections <= 2);
        member.leave();
    });
    expect_all_well();
}

TEST_P(Conformance, CannotSendToStrangers) {
    start(
        3,
        [](Member& member) {
            member.publish_address();
            std::uint32_t in_flight = 0;
            COPPICE_CHECK(member.wire().send(Seat{2}, header_of(0), {}, &in_flight) == SendStatus::failed);
            COPPICE_CHECK(member.wire().send(Seat{77}, header_of(0), {}, &in_flight) == SendStatus::failed);
            COPPICE_CHECK(member.wire().send(member.self(), header_of(0), {}, &in_flight) == SendStatus::failed);
            COPPICE_CHECK(in_flight == 0 && member.wire().counters().sends == 0);
            member.barrier();
        },
        true);
    expect_all_well();
}

TEST_P(Conformance, RefusesAddressesThatItCannotUse) {
    start(
        2,
        [this](Member& member) {
            member.publish_address();
            const Seat other{1 - member.self().value};
            const Bytes address = member.address_of(other);
            const auto status = [&](const Bytes& bytes) {
                const auto added = member.wire().add_peer(other, bytes);
                COPPICE_CHECK(!added);
                COPPICE_CHECK(added.error().message.find("rank " + std::to_string(other.value)) != std::string::npos);
                return added.error().status;
            };
            COPPICE_CHECK(status(GetParam()->of_other_version(address)) == COPPICE_ERR_MISMATCH);
            COPPICE_CHECK(status({}) == COPPICE_ERR_MISMATCH);
            for (std::size_t length = 1; length < address.size(); length += 7)
                COPPICE_CHECK(status(Bytes(address.begin(), address.begin() + static_cast<std::ptrdiff_t>(length))) ==
                              COPPICE_ERR_MISMATCH);
            for (std::uint64_t seed = 0; seed < 50; ++seed)
                COPPICE_CHECK(status(pattern(seed, address.size())) == COPPICE_ERR_MISMATCH);
            // A rank that is none of the group.
            COPPICE_CHECK(!member.wire().add_peer(Seat{member.size()}, address));
            member.barrier();
            COPPICE_CHECK(member.wire().add_peer(other, address).has_value());
            member.barrier();
            member.send(other, header_of(1), {});
            member.poll_until([&] { return member.recorder.messages.size() == 1; }, "a message after all");
            member.leave();
        },
        true);
    expect_all_well();
}

TEST_P(Conformance, CountsAndIgnoresGarbage) {
    start(3, [this](Member& member) {
        Checker checker(member);
        for (std::uint32_t peer = 0; peer < 3; ++peer)
            if (peer != member.self().value) send_numbered(member, Seat{peer}, 0);
        const auto all_have = [&](std::uint64_t count) {
            for (std::uint32_t peer = 0; peer < 3; ++peer)
                if (peer != member.self().value)
                    member.poll_until([&] { return checker.received[peer] >= count; }, "messages");
        };
        all_have(1);
        member.barrier();
        if (member.self() == Seat{0} && GetParam()->send_garbage(member.wire()))
            member.poll_until([&] { return member.wire().counters().garbage > 0; }, "garbage to be counted");
        COPPICE_CHECK(member.recorder.failures.empty());
        member.barrier();
        for (std::uint64_t number = 1; number < 2000; ++number)
            for (std::uint32_t peer = 0; peer < 3; ++peer)
                if (peer != member.self().value) send_numbered(member, Seat{peer}, number);
        all_have(2000);
        member.leave();
        COPPICE_CHECK(member.recorder.failures.empty());
    });
    expect_all_well();
}

}  // namespace coppice::testing
