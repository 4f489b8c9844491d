// What sleeping costs those that do not sleep, and how a sleeper learns of a death.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "transport/conformance.hpp"
#include "transport/shm_factory.hpp"

namespace {
std::atomic<std::uint64_t> calls_of_poll{0};
}

// In place of the C library's, for the transport, too.
extern "C" int poll(pollfd* descriptors, nfds_t count, int timeout) {
    ++calls_of_poll;
    return static_cast<int>(syscall(SYS_poll, descriptors, count, timeout));
}

namespace coppice::testing {

namespace {

class ShmSleep : public ::testing::Test, protected Ranks {
  protected:
    Factory& factory() override { return factory_; }
    ShmFactory factory_;
};

constexpr std::size_t kDone = 0;
constexpr std::size_t kAsleep = 1;

}  // namespace

// The progress thread may have armed the transport while its callers computed. They find nothing there that counts as an event, as long as all
// they wait for is published.
TEST_F(ShmSleep, ATransportThatIsArmedIsPolledWithoutSystemCalls) {
    start(2, [](Member& member) {
        if (member.self() == Seat{0})
            return member.poll_until([&] { return member.stage().words[kDone] != 0; }, "the other one");
        member.wire().watch(Seat{0});
        COPPICE_CHECK(member.wire().arm() >= 0);
        const std::uint64_t before = calls_of_poll;
        for (int polls = 0; polls < 10'000; ++polls)
            member.poll();
        COPPICE_CHECK(calls_of_poll > before && calls_of_poll - before < 1'000);
        member.stage().words[kDone] = 1;
    });
    expect_all_well();
}

TEST_F(ShmSleep, ASleeperIsWokenByADeathAndFindsItBeforeItSleepsAgain) {
    start(2, [](Member& member) {
        if (member.self() == Seat{0}) {
            ++member.stage().words[kDone];
            while (true)
                pause();
        }
        member.wire().watch(Seat{0});
        pollfd sleep{.fd = member.wire().arm(), .events = POLLIN, .revents = 0};
        member.poll();
        member.stage().words[kAsleep] = 1;
        COPPICE_CHECK(::poll(&sleep, 1, -1) == 1);
        for (int polls = 0; polls < 2 && !member.recorder.failed(Seat{0}); ++polls) {
            COPPICE_CHECK(member.wire().arm() >= 0);
            member.poll();
        }
        COPPICE_CHECK(member.recorder.failed(Seat{0}));
    });
    await_word(kDone, 1);
    await_word(kAsleep, 1);
    processes_.signal(0, SIGKILL);
    expect_killed(0);
    expect_well(1);
}

}  // namespace coppice::testing
