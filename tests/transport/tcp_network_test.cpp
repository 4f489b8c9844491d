// Cables that are cut, and ranks that are stopped, on hosts of a network of their own.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "base/mix.hpp"
#include "transport/tcp_network.hpp"
#include "transport/tcp_support.hpp"

namespace coppice::testing {

// The suite comes along with what these tests borrow from it, but runs elsewhere.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);

namespace {

using transport::SendStatus;

// Words of the stage.
constexpr std::size_t kReady = 0;
constexpr std::size_t kOver = 1;
constexpr std::size_t kCutAt = 2;
constexpr std::size_t kSeenAfter = 3;  // and the following: by rank, ns
constexpr std::size_t kWaited = 5;     // and the following: by rank, ns that it waited for a core
constexpr std::size_t kRounds = 20;    // and the following: by rank, what arrived there

// Each rank is a host, or they take turns.
class HostFactory final : public TcpFactory {
  public:
    Result<std::unique_ptr<Transport>> make(Seat self, std::uint32_t size) override {
        network->join(self.value % hosts);
        auto options = tcp_options(self, size);
        options.loopback_only = false;
        options.buffer = buffer;
        auto made = transport::TcpTransport::create(options);
        if (!made) return tl::unexpected(made.error());
        return std::unique_ptr<Transport>(std::move(*made));
    }
    const TestNetwork* network = nullptr;
    std::uint32_t hosts = kMaxRanks;
    std::uint32_t buffer = 0;
};

// One of several sets of ranks in a test: waiting takes as long for all of them as for one.
struct Case final : Ranks {
    explicit Case(const TestNetwork& network) { factory_.network = &network; }
    Factory& factory() override { return factory_; }
    using Ranks::await_word;
    using Ranks::expect_all_well;
    using Ranks::processes_;
    using Ranks::stage;
    using Ranks::start;
    HostFactory factory_;
};

class TcpNetwork : public ::testing::Test, protected Ranks {
  protected:
    void SetUp() override {
        if (const std::string missing = TestNetwork::missing(); !missing.empty()) GTEST_SKIP() << missing;
    }
    Factory& factory() override { return factory_; }
    void wire(std::uint32_t hosts) {
        network_ = std::make_unique<TestNetwork>(hosts);
        factory_.network = network_.get();
        factory_.hosts = hosts;
    }
    // Cuts with `how` while two ranks do `body`, and expects that both end well, and notice within the time that
    // docs/detection.md promises, and what they waited for a core meanwhile (each of them, as one may learn from the
    // other's reset). As the kernel may have had to wait, too, that is tried again. Prints after what time each noticed.
    template <class Body>
    void cut_and_expect(void (TestNetwork::*how)(std::uint32_t) const, const std::string& what, Body body) {
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

    double seconds(std::size_t word) { return static_cast<double>(stage().words[word].load()) / 1e9; }

    std::unique_ptr<TestNetwork> network_;
    HostFactory factory_;
};

void greet(Member& member) {
    for (std::uint32_t peer = 0; peer < member.size(); ++peer)
        if (peer != member.self().value) member.send(Seat(peer), header_of(0), {});
    member.poll_until([&] { return member.recorder.messages.size() == member.size() - 1; }, "everybody's first word");
    member.barrier();
    ++member.stage().words[kReady];
}

// As the kernel counts it.
std::uint64_t waited_for_a_core_ns() {
    std::uint64_t ran = 0, waited = 0;
    std::ifstream("/proc/self/schedstat") >> ran >> waited;
    return waited;
}

void note_death(Member& member, std::uint64_t waited_before) {
    member.stage().words[kWaited + member.self().value] = waited_for_a_core_ns() - waited_before;
    member.stage().words[kSeenAfter + member.self().value] = now_ns() - member.stage().words[kCutAt];
    COPPICE_CHECK(member.recorder.failures.size() == 1);
    COPPICE_CHECK(member.wire().last_error().find("10.98.0.") != std::string_view::npos);
    COPPICE_CHECK(member.wire().last_error().find("process is gone") == std::string_view::npos);
}

// Asleep on the descriptor: it has to show the death.
void notice_asleep(Member& member) {
    const std::uint64_t waited_before = waited_for_a_core_ns();
    greet(member);
    const std::uint64_t deadline = now_ns() + kDeadlineNs;
    while (member.recorder.failures.empty()) {
        pollfd readable{.fd = member.wire().arm(), .events = POLLIN, .revents = 0};
        COPPICE_CHECK(::poll(&readable, 1, static_cast<int>(kDeadlineNs / 1'000'000)) == 1);
        member.poll();
        COPPICE_CHECK(now_ns() < deadline);
    }
    note_death(member, waited_before);
}

void notice_busy(Member& member, bool talks) {
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
    note_death(member, waited_before);
    // By the library's looks: the kernel would have gone on for a quarter of a minute.
    COPPICE_CHECK(!talks || member.wire().last_error().find("timed out") == std::string_view::npos);
}

TEST_F(TcpNetwork, ACutCableIsNoticedAtBothEndsOfAnIdleConnection) {
    cut_and_expect(&TestNetwork::cut, "idle", [](Member& member) { notice_asleep(member); });
}

TEST_F(TcpNetwork, ACutCableIsNoticedAtBothEndsOfABusyConnection) {
    cut_and_expect(&TestNetwork::cut, "busy", [](Member& member) { notice_busy(member, true); });
}

TEST_F(TcpNetwork, OneDirectionAloneIsNoticedAtBothEnds) {
    for (const int talkers : {0, 1, 2, 3}) {  // as bits, by rank
        cut_and_expect(&TestNetwork::cut_outgoing, "one direction, talkers " + std::to_string(talkers),
                       [talkers](Member& member) {
                           if (talkers == 0) return notice_asleep(member);
                           notice_busy(member, (talkers >> member.self().value & 1) != 0);
                       });
    }
}

// Ranks 0 and 1 talk all the time, 2 and 3 now and then, so that nothing is on its way when the cable is cut; all
// others are connected and silent. Several cuts, as the kernel remembers the first one.
void endure_cuts(Member& member) {
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

TEST_F(TcpNetwork, CutsOfASecondHarmNobody) {
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

// Kernel buffers as a Debian without settings grants them, and larger ones; frames of every size, and small ones alone,
// each of which is a packet of its own.
TEST_F(TcpNetwork, ARankThatIsStoppedForHalfAMinuteUnderFullLoadIsNotDead) {
    struct Load {
        std::uint32_t buffer;
        std::size_t most;
    };
    constexpr Load kLoads[] = {{212'992, 40}, {212'992, 8192}, {4 << 20, 40}, {4 << 20, 8192}};
    wire(4);
    std::vector<std::unique_ptr<Case>> cases;
    for (const Load& load : kLoads) {
        auto& one = *cases.emplace_back(std::make_unique<Case>(*network_));
        one.factory_.buffer = load.buffer;
        one.start(3, [most = load.most](Member& member) {
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
                member.stage().words[40 + 3 * member.self().value + to] = sent[to];
            member.barrier();
            for (std::uint32_t from = 0; from < 3; ++from)
                if (from != member.self().value)
                    member.poll_until(
                        [&] { return next[from] == member.stage().words[40 + 3 * from + member.self().value]; },
                        "all of it");
            COPPICE_CHECK(member.recorder.failures.empty());
            member.leave();
        });
    }
    for (auto& one : cases) {
        one->await_word(kReady, 3);
        one->processes_.signal(1, SIGSTOP);
    }
    usleep(30'000'000);
    for (auto& one : cases) {
        one->processes_.signal(1, SIGCONT);
        const std::uint64_t before = one->stage().words[kRounds + 1];
        one->await_word(kRounds + 1, before + 1000);
        one->stage().words[kOver] = 1;
        one->expect_all_well();
    }
}

// It listens; whether the kernel holds more connections for it than those that want to, or drops some.
TEST_F(TcpNetwork, AnAcceptorThatIsStoppedForHalfAMinuteIsNotDead) {
    constexpr std::uint32_t kBacklogs[] = {1, 4096};
    wire(4);
    std::vector<std::unique_ptr<Case>> cases;
    for (const std::uint32_t backlog : kBacklogs) {
        network_->bound_backlog(0, backlog);
        auto& one = *cases.emplace_back(std::make_unique<Case>(*network_));
        one.start(4, [](Member& member) {
            ++member.stage().words[kReady];
            const bool acceptor = member.self().value == 0;
            member.poll_until([&] { return acceptor || member.stage().words[kOver] >= 1; }, "the stop");
            if (!acceptor) member.send(Seat(0), header_of(0), {});
            const auto deadline = now_ns() + 2 * kDeadlineNs;
            while (member.recorder.messages.size() < (acceptor ? 3 : 1)) {
                COPPICE_CHECK(now_ns() < deadline && member.recorder.failures.empty());
                member.poll();
                if (acceptor && member.recorder.messages.size() == 3)
                    for (std::uint32_t to = 1; to < 4; ++to)
                        member.send(Seat(to), header_of(0), {});
            }
            member.barrier();
            COPPICE_CHECK(member.recorder.failures.empty() && member.wire().counters().garbage == 0);
            member.leave();
        });
        one.await_word(kReady, 4);
        one.processes_.signal(0, SIGSTOP);
    }
    for (auto& one : cases)
        one->stage().words[kOver] = 1;
    usleep(30'000'000);
    for (auto& one : cases) {
        one->processes_.signal(0, SIGCONT);
        one->expect_all_well();
    }
}

}  // namespace
}  // namespace coppice::testing
