// Cables that are cut, and ranks that are stopped, on hosts of a network of their own.
#include <signal.h>
#include <unistd.h>

#include <regex>
#include <string>

#include "transport/lost_hosts.hpp"
#include "transport/tcp_support.hpp"

namespace coppice::testing {

// The suite comes along with what these tests borrow from it, but runs elsewhere.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);

namespace {

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

using Case = CaseOver<HostFactory>;
class TcpNetwork : public LostHostsOver<HostFactory> {};

void names_the_host(std::string_view error) {
    const std::string text(error);
    COPPICE_CHECK(std::regex_search(
        text, std::regex("to rank [01] at 10\\.98\\.0\\.[12]:[0-9]+ failed: .*; if that rank is alive")));
    COPPICE_CHECK(error.find("process is gone") == std::string_view::npos);
}

// By the library's looks: the kernel would have gone on for a quarter of a minute.
void names_the_host_by_looks(std::string_view error) {
    names_the_host(error);
    COPPICE_CHECK(error.find("timed out") == std::string_view::npos);
}

TEST_F(TcpNetwork, ACutCableIsNoticedAtBothEndsOfAnIdleConnection) {
    cut_and_expect(&TestNetwork::cut, "idle", [](Member& member) { notice_asleep(member, names_the_host); });
}

TEST_F(TcpNetwork, ACutCableIsNoticedAtBothEndsOfABusyConnection) {
    cut_and_expect(&TestNetwork::cut, "busy",
                   [](Member& member) { notice_busy(member, true, names_the_host_by_looks); });
}

TEST_F(TcpNetwork, OneDirectionAloneIsNoticedAtBothEnds) {
    for (const int talkers : {0, 1, 2, 3}) {  // as bits, by rank
        cut_and_expect(&TestNetwork::cut_outgoing, "one direction, talkers " + std::to_string(talkers),
                       [talkers](Member& member) {
                           if (talkers == 0) return notice_asleep(member, names_the_host);
                           const bool talks = (talkers >> member.self().value & 1) != 0;
                           notice_busy(member, talks, talks ? names_the_host_by_looks : names_the_host);
                       });
    }
}

TEST_F(TcpNetwork, CutsOfASecondHarmNobody) {
    cut_for_seconds();
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
        one.start(3, [most = load.most](Member& member) { flood(member, most); });
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
