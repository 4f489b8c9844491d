#include "transport/lost_hosts.hpp"

#include <poll.h>

#include <cstdio>
#include <fstream>

#include "base/clock.hpp"
#include "base/mix.hpp"

namespace coppice::testing {
namespace {

using transport::SendStatus;

// As the kernel counts it.
std::uint64_t waited_for_a_core_ns() {
    std::uint64_t ran = 0, waited = 0;
    std::ifstream("/proc/self/schedstat") >> ran >> waited;
    return waited;
}

}  // namespace

void LostHosts::cut_and_expect(void (TestNetwork::*how)(std::uint32_t) const, const std::string& what,
                               const Body& body) {
    constexpr double kPromised = 4;
    bool in_time = false;
    for (int tries = 0; tries < 3 && !in_time && !HasFailure(); ++tries) {
        begin_again();
        wire(2);
        start(2, body);
        const Urgent urgent;
        await_word(kReady, 2);
        (network_.get()->*how)(1);
        stage().words[kCutAt] = now_ns();
        expect_all_well();
        const double waited = seconds(kWaited) + seconds(kWaited + 1);
        in_time = true;
        for (std::size_t rank = 0; rank < 2; ++rank) {
            std::printf("%s: rank %zu noticed after %.2f s, %.2f of which it had no core\n", what.c_str(), rank,
                        seconds(kSeenAfter + rank), seconds(kWaited + rank));
            in_time = in_time && seconds(kSeenAfter + rank) <= kPromised + waited;
        }
    }
    EXPECT_TRUE(in_time) << what;
}

// Several cuts, as the kernel remembers the first one.
void LostHosts::cut_for_seconds() {
    constexpr std::uint64_t kSecond = 1'000'000'000;
    const Urgent urgent;
    std::uint64_t longest = 0;
    for (int tries = 0; tries < 5; ++tries) {
        begin_again();
        wire(2);
        start(4, endure_cuts);
        await_word(kReady, 4);
        longest = network_->cut_for(1, kSecond, 3, 9 * kSecond / 2);  // a pause for longer than a loss is noticed after
        stage().words[kOver] = 1;
        if (longest < kSecond * 3 / 2) return expect_all_well();
    }
    GTEST_SKIP() << "a cut of a second takes longer here: " << longest << " ns";
}

void LostHosts::greet(Member& member) {
    for (std::uint32_t peer = 0; peer < member.size(); ++peer)
        if (peer != member.self().value) member.send(Seat(peer), header_of(0), {});
    member.poll_until([&] { return member.recorder.messages.size() == member.size() - 1; }, "everybody's first word");
    member.barrier();
    ++member.stage().words[kReady];
}

void LostHosts::note_death(Member& member, std::uint64_t waited_before, const Because& because) {
    member.stage().words[kWaited + member.self().value] = waited_for_a_core_ns() - waited_before;
    member.stage().words[kSeenAfter + member.self().value] = now_ns() - member.stage().words[kCutAt];
    COPPICE_CHECK(member.recorder.failures.size() == 1);
    because(member.wire().last_error());
}

void LostHosts::notice_asleep(Member& member, const Because& because) {
    const std::uint64_t waited_before = waited_for_a_core_ns();
    greet(member);
    const std::uint64_t deadline = now_ns() + kDeadlineNs;
    while (member.recorder.failures.empty()) {
        const int descriptor = member.wire().arm();
        if (descriptor >= 0) {
            pollfd readable{.fd = descriptor, .events = POLLIN, .revents = 0};
            COPPICE_CHECK(::poll(&readable, 1, static_cast<int>(kDeadlineNs / 1'000'000)) == 1);
        }
        member.poll();
        COPPICE_CHECK(now_ns() < deadline);
    }
    note_death(member, waited_before, because);
}

void LostHosts::notice_busy(Member& member, bool talks, const Because& because) {
    const std::uint64_t waited_before = waited_for_a_core_ns();
    greet(member);
    const Seat other(1 - member.self().value);
    const Bytes payload = pattern(1, 500);
    std::uint32_t in_flight = 0;
    member.recorder.on_message = [](const Recorder::Received&) {};
    member.poll_until(
        [&] {
            if (talks) member.wire().send(other, header_of(1), payload, &in_flight);
            return !member.recorder.failures.empty();
        },
        "the loss");
    note_death(member, waited_before, because);
}

void LostHosts::endure_cuts(Member& member) {
    greet(member);
    const Seat other(member.self().value ^ 1);
    const std::uint64_t pause_ns = member.self().value < 2 ? 0 : 20'000'000;
    std::uint64_t sent = 0, next = 0, next_word_ns = 0;
    std::uint32_t in_flight = 0;
    const Bytes payload = pattern(1, 500);
    member.recorder.on_message = [&](const Recorder::Received& message) {
        COPPICE_CHECK(header_word(message.header, 0) == next++);
    };
    member.poll_until(
        [&] {
            COPPICE_CHECK(member.recorder.failures.empty());
            const bool over = member.stage().words[kOver] == 1;
            // Keeps the core, or on a busy machine it would speak more seldom than the kernel tries again.
            while (now_ns() < next_word_ns)
                member.poll();
            sent += member.wire().send(other, header_of(sent), payload, &in_flight) == SendStatus::sent;
            next_word_ns = now_ns() + pause_ns;
            return over && sent > 10;
        },
        "the last repair of the cable");
    member.stage().words[kRounds + member.self().value] = sent;
    member.barrier();
    member.poll_until([&] { return next == member.stage().words[kRounds + other.value]; }, "what was sent");
    COPPICE_CHECK(member.recorder.failures.empty());
    member.leave();
}

void LostHosts::flood(Member& member, std::size_t most) {
    greet(member);
    std::vector<std::uint64_t> sent(3, 0), next(3, 0);
    std::uint32_t in_flight = 0;
    const Bytes bytes = pattern(1, 8192);
    member.recorder.on_message = [&](const Recorder::Received& message) {
        COPPICE_CHECK(header_word(message.header, 0) == next[message.from.value]++);
        ++member.stage().words[kRounds + member.self().value];
    };
    member.poll_until(
        [&] {
            for (std::uint32_t to = 0; to < 3; ++to) {
                if (to == member.self().value) continue;
                const std::size_t size = mix(sent[to]) % (most + 1);
                const auto status =
                    member.wire().send(Seat(to), header_of(sent[to]), std::span(bytes).first(size), &in_flight);
                COPPICE_CHECK(status != SendStatus::failed);
                sent[to] += status == SendStatus::sent;
            }
            return member.stage().words[kOver] == 1;
        },
        "the end");
    for (std::uint32_t to = 0; to < 3; ++to)
        member.stage().words[kSent + 3 * member.self().value + to] = sent[to];
    member.barrier();
    for (std::uint32_t from = 0; from < 3; ++from)
        if (from != member.self().value)
            member.poll_until(
                [&] { return next[from] == member.stage().words[kSent + 3 * from + member.self().value]; },
                "all of it");
    COPPICE_CHECK(member.recorder.failures.empty());
    member.leave();
}

}  // namespace coppice::testing
