// UCX over TCP: cables that are cut, and ranks that are stopped, once connections stand.
#include <linux/filter.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <iterator>
#include <regex>
#include <string>

#include "transport/lost_hosts.hpp"
#include "transport/silence.hpp"
#include "transport/ucx_network.hpp"

namespace coppice::testing {

// The suite comes along with what these tests borrow from it, but runs elsewhere.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);

namespace {

using Case = CaseOver<UcxHostFactory>;

void tells_of_the_peer(std::string_view error) {
    COPPICE_CHECK(error.find("the connection to rank") != std::string_view::npos);
}

// Ended by the library's looks: the kernel goes on for a quarter of an hour.
void names_the_host(std::string_view error) {
    const std::string text(error);
    std::smatch words;
    COPPICE_CHECK(
        std::regex_search(text, words, std::regex("nothing was heard of 10\\.98\\.0\\.[12]:[0-9]+ for ([0-9]+) ms")));
    COPPICE_CHECK(std::stoi(words[1]) < 60'000);
}

// Whether the kernel asks after all peers that this process is connected to, of which there are some.
bool asks_after_all() {
    std::size_t connections = 0;
    for (int socket = 0; socket < 256; ++socket) {
        int asks = 0;
        socklen_t length = sizeof asks;
        if (!transport::health_of(socket).stands) continue;
        ++connections;
        if (::getsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &asks, &length) != 0 || asks == 0) return false;
    }
    return connections > 0;
}

// What comes to this process over its connections and has data is dropped without a word, as Linux before 6.6 does where there is no
// room for it.
void drop_data(bool drops) {
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 12),  // where TCP's header says how long it is
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
        BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 2),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_X, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
    };
    const sock_fprog filter{.len = std::size(program), .filter = program};
    std::size_t connections = 0;
    for (int socket = 0; socket < 256; ++socket) {
        if (!transport::health_of(socket).stands) continue;
        ++connections;
        COPPICE_CHECK(
            ::setsockopt(socket, SOL_SOCKET, drops ? SO_ATTACH_FILTER : SO_DETACH_FILTER, &filter, sizeof filter) == 0);
    }
    COPPICE_CHECK(connections > 0);
}

class UcxSilence : public LostHostsOver<UcxHostFactory> {
  protected:
    // A rank's kernel drops what comes, for longer than a lost host is waited for, and not as long as the kernel repeats itself.
    // Whichever rank has connected.
    void drop_for_seconds_and_expect_nothing() {
        constexpr std::uint64_t kSome = 1000;
        for (const std::uint32_t deaf : {0U, 1U}) {
            begin_again();
            wire(2);
            start(2, [deaf](Member& member) {
                greet(member);
                const Seat other(1 - member.self().value);
                std::uint64_t next = 0;
                std::uint32_t in_flight = 0;
                member.recorder.on_message = [&](const Recorder::Received& message) {
                    COPPICE_CHECK(header_word(message.header, 0) == next++);
                };
                if (member.self().value == deaf) {
                    const std::uint64_t looked_at_ns =
                        now_ns() + transport::Silence::kIdleLookNs + transport::Silence::kLookNs;
                    member.poll_until([&] { return now_ns() > looked_at_ns && asks_after_all(); },
                                      "a look at its connections");
                    drop_data(true);
                    member.stage().words[kOver] = 1;
                    usleep(8'000'000);
                    drop_data(false);
                    member.poll_until([&] { return next == kSome; }, "all of it");
                } else {
                    member.poll_until([&] { return member.stage().words[kOver] == 1; }, "the other one's filter");
                    std::uint64_t sent = 0;
                    member.poll_until(
                        [&] {
                            if (sent < kSome)
                                sent += member.wire().send(other, header_of(sent), {}, &in_flight) ==
                                        transport::SendStatus::sent;
                            COPPICE_CHECK(member.recorder.failures.empty());
                            return sent == kSome;
                        },
                        "the end");
                }
                member.barrier();
                COPPICE_CHECK(member.recorder.failures.empty());
                member.leave();
            });
            expect_all_well();
        }
    }
};

TEST_F(UcxSilence, ACutCableIsNoticedAtBothEndsOfAnIdleConnection) {
    cut_and_expect(&TestNetwork::cut, "idle", [](Member& member) { notice_asleep(member, tells_of_the_peer); });
}

// The kernel of one end would go on for 20 s.
TEST_F(UcxSilence, ACutCableIsNoticedAtBothEndsOfAnIdleConnectionWithoutTheKernel) {
    factory_.questions = "20";
    cut_and_expect(&TestNetwork::cut, "idle, without the kernel",
                   [](Member& member) { notice_asleep(member, tells_of_the_peer); });
}

TEST_F(UcxSilence, ACutCableIsNoticedAtBothEndsOfABusyConnection) {
    cut_and_expect(&TestNetwork::cut, "busy", [](Member& member) { notice_busy(member, true, names_the_host); });
}

// The end that hears learns by the other one's reset.
TEST_F(UcxSilence, OneDirectionAloneIsNoticedAtBothEnds) {
    for (const int talkers : {0, 1, 2, 3}) {  // as bits, by rank
        cut_and_expect(&TestNetwork::cut_outgoing, "one direction, talkers " + std::to_string(talkers),
                       [talkers](Member& member) {
                           if (talkers == 0) return notice_asleep(member, tells_of_the_peer);
                           notice_busy(member, (talkers >> member.self().value & 1) != 0, tells_of_the_peer);
                       });
    }
}

TEST_F(UcxSilence, CutsOfASecondHarmNobody) {
    cut_for_seconds();
}

// Its window closes, or its kernel drops what it has no room for: messages of every size, and small ones alone, in buffers
// as the kernel sees fit, and small ones.
TEST_F(UcxSilence, ARankThatIsStoppedForHalfAMinuteUnderFullLoadIsNotDead) {
    struct Load {
        const char* buffer;
        std::size_t most;
    };
    constexpr Load kLoads[] = {{"", 40}, {"", 8192}, {"208k", 40}, {"16k", 8192}};
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

// Its kernel asks as seldom as UCX's user wants, if it may.
TEST_F(UcxSilence, ACutCableIsNoticedAtBothEndsWhereUcxAsksSeldom) {
    factory_.idle = "60s";
    cut_and_expect(&TestNetwork::cut, "idle, asked seldom",
                   [](Member& member) { notice_asleep(member, tells_of_the_peer); });
}

// Within a moment after a host was lost a rank of another host is killed.
TEST_F(UcxSilence, AnErrorTellsOfItsOwnHostAlone) {
    wire(3);
    start(3, [](Member& member) {
        greet(member);
        const std::uint32_t self = member.self().value;
        auto& words = member.stage().words;
        if (self == 1) {
            member.poll_until([&] { return words[kOver] == 1; }, "the end");
        } else if (self == 2) {
            member.poll_until([&] { return words[kRounds] == 1; }, "the loss");
            _exit(0);
        } else {
            std::uint32_t in_flight = 0;
            member.poll_until(
                [&] {
                    member.wire().send(Seat(1), header_of(1), {}, &in_flight);
                    return member.recorder.failed(Seat(1));
                },
                "the loss");
            names_the_host(member.wire().last_error());
            words[kRounds] = 1;
            member.poll_until([&] { return member.recorder.failed(Seat(2)); }, "the death");
            const std::string error(member.wire().last_error());
            COPPICE_CHECK(error.find("rank 2") != std::string::npos);
            if (error.find("10.98.0.2") != std::string::npos || error.find("nothing was heard") != std::string::npos)
                throw CheckFailed(error);
            words[kOver] = 1;
        }
    });
    await_word(kReady, 3);
    network_->cut(1);
    expect_all_well();
}

TEST_F(UcxSilence, ARankWhoseKernelDropsWhatComesIsNotDead) {
    drop_for_seconds_and_expect_nothing();
}

// All that is heard of it are its own kernel's questions.
TEST_F(UcxSilence, ARankWhoseKernelDropsWhatComesIsNotDeadWhereUcxAsksSeldom) {
    factory_.idle = "60s";
    drop_for_seconds_and_expect_nothing();
}

}  // namespace
}  // namespace coppice::testing
