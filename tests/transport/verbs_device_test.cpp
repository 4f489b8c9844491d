// The verbs transport on a device: which peers it accepts, what it costs, and what it leaves behind.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "transport/landing.hpp"
#include "transport/verbs_support.hpp"

namespace coppice::testing {

namespace {

using namespace transport;
using verbs::Link;
using verbs::Refusal;

// What the kernel holds for RDMA in all ("rdma resource show" counts queue pairs, keys and the like by device).
std::string kernel_resources() {
    std::string text;
    FILE* const pipe = popen("rdma resource show", "r");
    COPPICE_CHECK(pipe != nullptr);
    std::array<char, 256> line{};
    while (fgets(line.data(), line.size(), pipe) != nullptr)
        text += line.data();
    COPPICE_CHECK(pclose(pipe) == 0 && !text.empty());
    return text;
}

// Whether the kernel has ever warned of itself; it does where a dead process leaves things in an order that it does not
// like.
bool kernel_has_warned() {
    constexpr std::uint64_t kWarned = 1U << 9;
    std::uint64_t taints = 0;
    std::ifstream("/proc/sys/kernel/tainted") >> taints;
    return (taints & kWarned) != 0;
}

std::size_t resident_kilobytes() {
    std::ifstream file("/proc/self/statm");
    std::size_t all = 0, resident = 0;
    file >> all >> resident;
    return resident * 4;
}

}  // namespace

// ------------------------------------------------------------------------------------------------- connections ---

TEST(VerbsConnections, AreOneForEachPairAlsoWhenBothSidesOpenAtOnce) {
    in_process([] {
        for (int round = 0; round < 10; ++round) {
            VerbsGroup group(4);
            for (std::uint32_t from = 0; from < 4; ++from)
                for (std::uint32_t to = 0; to < 4; ++to)
                    if (from != to) group.wires[from]->watch(Seat(to));
            for (std::uint32_t from = 0; from < 4; ++from)
                for (std::uint32_t to = 0; to < 4; ++to)
                    if (from != to) COPPICE_CHECK(group.send(from, to, pattern(from, 100)) == SendStatus::sent);
            group.poll_until(
                [&] {
                    return std::ranges::all_of(group.recorders, [](const auto& r) { return r.messages.size() == 3; });
                },
                "everybody");
            for (std::uint32_t rank = 0; rank < 4; ++rank) {
                COPPICE_CHECK(group.recorders[rank].failures.empty());
                COPPICE_CHECK(group.wires[rank]->counters().garbage == 0);
            }
            group.poll_until(
                [&] {
                    bool left = true;
                    for (auto& wire : group.wires)
                        left = wire->leave() && left;
                    return left;
                },
                "leaving");
        }
    });
}

TEST(VerbsConnections, AreRefusedToStrangersAndCounted) {
    in_process([] {
        auto host = make_verbs(verbs_options(Seat{0}, 4));
        Recorder recorder;
        std::uint64_t refused = 0;
        const auto expect = [&](const Bytes& card, Refusal reason) {
            const Visitor visitor(*host, recorder, card);
            COPPICE_CHECK(!visitor.accepted() && visitor.refusal() == reason);
            COPPICE_CHECK(host->counters().garbage == ++refused);
        };
        expect({}, Refusal::garbage);
        expect(pattern(1, 1), Refusal::garbage);
        expect(pattern(2, verbs::kCardBytes), Refusal::garbage);
        Bytes other_version = encode(visiting_card(1));
        other_version[4] = std::byte{verbs::kWireVersion + 1};
        expect(other_version, Refusal::version);
        verbs::Card card = visiting_card(1);
        card.token ^= 1;
        expect(encode(card), Refusal::stranger);
        expect(encode(visiting_card(4)), Refusal::stranger);
        expect(encode(visiting_card(0)), Refusal::stranger);  // the host's own rank
        COPPICE_CHECK(recorder.messages.empty() && recorder.failures.empty());
        // And a second time by a rank that is connected already.
        const Visitor member(*host, recorder, encode(visiting_card(1)));
        COPPICE_CHECK(member.accepted());
        const Visitor again(*host, recorder, encode(visiting_card(1)));
        COPPICE_CHECK(!again.accepted() && again.refusal() == Refusal::duplicate);
        COPPICE_CHECK(host->counters().refused == 1);
    });
}

TEST(VerbsConnections, OfAPeerThatSaysNothingEndAsAFailureWhenItGoes) {
    in_process([] {
        auto host = make_verbs(verbs_options(Seat{0}, 4));
        Recorder recorder;
        { const Visitor silent(*host, recorder, encode(visiting_card(2))); }
        const std::uint64_t deadline = now_ns() + kDeadlineNs;
        while (!recorder.failed(Seat{2}) && now_ns() < deadline)
            host->poll(recorder);
        COPPICE_CHECK(recorder.failed(Seat{2}) && recorder.messages.empty());
        COPPICE_CHECK(!host->last_error().empty());
    });
}

TEST(VerbsConnections, ThatCarryGarbageDeliverNothingOfItAndGoOn) {
    in_process([] {
        auto host = make_verbs(verbs_options(Seat{0}, 4));
        Recorder recorder;
        Visitor visitor(*host, recorder, encode(visiting_card(3)));
        COPPICE_CHECK(visitor.send(pattern(5, 3)) == IBV_WC_SUCCESS);
        COPPICE_CHECK(visitor.send(pattern(6, 200)) == IBV_WC_SUCCESS);
        const verbs::Card& card = visitor.host_card();
        COPPICE_CHECK(visitor.write(pattern(7, 500), card.landing_address, card.landing_key) == IBV_WC_SUCCESS);
        for (int polls = 0; polls < 1000; ++polls)
            host->poll(recorder);
        COPPICE_CHECK(host->counters().garbage == 3 && recorder.messages.empty() && recorder.failures.empty());
        const Bytes good = sealed_write(1, 3, 0, pattern(8, 64));
        COPPICE_CHECK(visitor.write(good, card.landing_address, card.landing_key) == IBV_WC_SUCCESS);
        host->poll(recorder);
        COPPICE_CHECK(recorder.messages.size() == 1 && is_pattern(recorder.messages[0].payload, 8));
    });
}

// ------------------------------------------------------------------------------------------------------ probes ---

class VerbsProbes : public ::testing::Test, protected Ranks {
  protected:
    Factory& factory() override { return factory_; }
    VerbsFactory factory_;
};

TEST_F(VerbsProbes, AreAnsweredForAStoppedPeerAndNotForAKilledOne) {
    const bool had_warned = kernel_has_warned();
    start(
        2,
        [](Member& member) {
            auto options = verbs_options(member.self(), 2);
            options.probe_interval = Nanoseconds(5'000'000);
            auto wire = make_verbs(options);
            Stage::Address& mine = member.stage().addresses[member.self().value];
            const Bytes address = wire->address();
            std::copy(address.begin(), address.end(), mine.bytes);
            mine.length = static_cast<std::uint32_t>(address.size());
            const Seat other{1 - member.self().value};
            COPPICE_CHECK(wire->add_peer(other, member.address_of(other)).has_value());
            Recorder recorder;
            const auto poll_until = [&](const auto& condition) {
                const std::uint64_t deadline = now_ns() + kDeadlineNs;
                while (!condition()) {
                    COPPICE_CHECK(now_ns() < deadline);
                    wire->poll(recorder);
                    sched_yield();
                }
            };
            wire->watch(other);
            poll_until([&] { return wire->link(other) == Link::open; });
            ++member.stage().words[0];
            poll_until([&] { return member.stage().words[1] == 1; });  // rank 1 is stopped
            const std::uint64_t probes = wire->counters().probes;
            poll_until([&] { return wire->counters().probes >= probes + 20; });
            COPPICE_CHECK(recorder.failures.empty());
            member.stage().words[2] = 1;
            poll_until([&] { return recorder.failed(other); });
        },
        true);
    await_word(0, 2);
    processes_.signal(1, SIGSTOP);
    stage().words[1] = 1;
    await_word(2, 1);
    processes_.signal(1, SIGKILL);
    expect_killed(1);
    expect_all_well();
    EXPECT_EQ(kernel_has_warned(), had_warned);
}

// ------------------------------------------------------------------------------------------------------- costs ---

TEST(VerbsCosts, OfSmallMessagesAreOneWorkRequestEachAndACompletionForSixteen) {
    in_process([] {
        VerbsGroup group(2);
        constexpr std::uint32_t kMessages = 320;
        group.send(0, 1, {});
        group.poll_until([&] { return group.recorders[1].messages.size() == 1; }, "the first");
        const Counters before = group.wires[0]->counters();
        for (std::uint32_t number = 0; number < kMessages; ++number)
            COPPICE_CHECK(group.send(0, 1, pattern(number, 64), number % 2 == 0) == SendStatus::sent);
        group.poll_until([&] { return group.recorders[1].messages.size() == kMessages + 1; }, "all messages");
        const Counters after = group.wires[0]->counters();
        COPPICE_CHECK(after.work_requests - before.work_requests == kMessages);
        COPPICE_CHECK(after.doorbells - before.doorbells == kMessages);
        COPPICE_CHECK((after.signalled - before.signalled) * verbs::kSignalEvery <= kMessages);
        COPPICE_CHECK(after.copies == before.copies && after.registrations == before.registrations);
    });
}

TEST(VerbsCosts, OfARelayAreNoCopyOfThePayload) {
    in_process([] {
        VerbsGroup group(3);
        const Bytes payload = pattern(1, 6000);
        COPPICE_CHECK(group.wires[0]->register_memory(payload).has_value());
        group.recorders[1].keep = true;
        COPPICE_CHECK(group.send(0, 1, payload) == SendStatus::sent);
        group.poll_until([&] { return group.recorders[1].kept.size() == 1; }, "the payload");
        const auto kept = group.recorders[1].kept[0];
        COPPICE_CHECK(group.send(1, 2, kept.payload) == SendStatus::sent);
        group.poll_until([&] { return group.recorders[2].messages.size() == 1; }, "the relayed payload");
        COPPICE_CHECK(is_pattern(group.recorders[2].messages[0].payload, 1));
        group.wires[1]->release(kept.buffer);
        COPPICE_CHECK(group.wires[0]->counters().copies == 0 && group.wires[1]->counters().copies == 0);
        // Memory that the device does not know is copied, and still arrives.
        group.wires[0]->deregister_memory(payload.data());
        COPPICE_CHECK(group.send(0, 2, payload) == SendStatus::sent);
        group.poll_until([&] { return group.recorders[2].messages.size() == 2; }, "the copied payload");
        COPPICE_CHECK(is_pattern(group.recorders[2].messages[1].payload, 1));
        COPPICE_CHECK(group.wires[0]->counters().copies == 1);
    });
}

TEST(VerbsCosts, OfWaitingAreASleepThatASendEnds) {
    in_process([] {
        VerbsGroup group(2);
        COPPICE_CHECK(group.send(0, 1, pattern(1, 8)) == SendStatus::sent);
        group.poll_until([&] { return group.recorders[1].messages.size() == 1; }, "the first");
        pollfd readable{.fd = group.wires[1]->arm(), .events = POLLIN, .revents = 0};
        COPPICE_CHECK(readable.fd >= 0);
        for (int polls = 0; polls < 100; ++polls)  // what was left over before
            group.wires[1]->poll(group.recorders[1]);
        readable.fd = group.wires[1]->arm();
        COPPICE_CHECK(group.wires[1]->poll(group.recorders[1]) == 0 && ::poll(&readable, 1, 0) == 0);
        std::uint32_t in_flight = 0;
        COPPICE_CHECK(group.wires[0]->send(Seat(1), header_of(2), {}, &in_flight) == SendStatus::sent);
        COPPICE_CHECK(::poll(&readable, 1, 60'000) == 1);
        group.poll_until([&] { return group.recorders[1].messages.size() == 2; }, "what it was woken for");
    });
}

// --------------------------------------------------------------------------------------------------- left behind ---

// In several processes, as one of them has no more than a minute.
TEST(VerbsConnections, LeaveNothingBehindAfterThousands) {
    constexpr std::uint32_t kProcesses = 10;
    for (std::uint32_t process = 0; process < kProcesses; ++process)
        in_process([] {
            constexpr std::uint32_t kConnections = 200;
            constexpr std::uint32_t kFirst = 20;  // after so many everything is there that stays
            // What librdmacm opens at its first use stays open while the process lives.
            make_verbs(verbs_options(Seat{0}, 2)).reset();
            const std::string before_all = kernel_resources();
            {
                auto host = make_verbs(verbs_options(Seat{0}, kConnections + 1));
                Recorder recorder;
                std::size_t descriptors = 0, kilobytes = 0;
                std::string resources;
                for (std::uint32_t rank = 1; rank <= kConnections; ++rank) {
                    { const Visitor visitor(*host, recorder, encode(visiting_card(rank))); }
                    const std::uint64_t deadline = now_ns() + kDeadlineNs;
                    while (!recorder.failed(Seat{rank})) {
                        COPPICE_CHECK(now_ns() < deadline);
                        host->poll(recorder);
                    }
                    if (rank == kFirst) {
                        descriptors = open_descriptors();
                        kilobytes = resident_kilobytes();
                        resources = kernel_resources();
                    }
                }
                COPPICE_CHECK(open_descriptors() == descriptors);
                COPPICE_CHECK(kernel_resources() == resources);
                // What a peer is remembered by stays; its connection's 264 KiB do not.
                COPPICE_CHECK(resident_kilobytes() < kilobytes + kConnections * 16);
            }
            COPPICE_CHECK(kernel_resources() == before_all);
        });
}

}  // namespace coppice::testing
