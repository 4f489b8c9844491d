// What ranks cost that stay outside of the library: how often the progress thread wakes, and works, while nothing happens.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "integration/job.hpp"
#include "support/shortage.hpp"

namespace coppice::testing {
namespace {

// How long a rank stays outside, in which its thread wakes 5 times: once in a second.
constexpr time_t kSeconds = 5;
// Twenty times what was counted; a thread that looks every millisecond wakes 5,000 times, and makes twice as many rounds. A machine that
// is slow wakes it less often.
constexpr std::uint64_t kMostRounds = 20 * 28;
constexpr std::uint64_t kMostSleeps = 20 * 10;

// How often the progress thread has slept, and woken.
std::uint64_t wakes() {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream comm(task.path() / "comm");
        std::string name;
        std::getline(comm, name);
        if (name != "coppice-progr") continue;
        std::ifstream status(task.path() / "status");
        std::uint64_t switches = 0;
        while (status >> name)
            if (name == "voluntary_ctxt_switches:" && status >> switches) return switches;
    }
    throw CheckFailed("there is no progress thread");
}

// How often it has made progress.
std::uint64_t rounds_outside(const Member& member) {
    const std::uint64_t before = member.counts().thread_rounds;
    timespec left{.tv_sec = kSeconds, .tv_nsec = 0};
    while (nanosleep(&left, &left) != 0) {
    }
    return member.counts().thread_rounds - before;
}

void check(bool is_cheap, std::uint64_t woken, std::uint64_t rounds) {
    if (is_cheap) return;
    throw CheckFailed("outside for " + std::to_string(kSeconds) + " s: the progress thread slept " +
                      std::to_string(woken) + " times, and made " + std::to_string(rounds) + " rounds");
}

void stay_outside(const Member& member) {
    const std::uint64_t wakes_before = wakes();
    const std::uint64_t rounds = rounds_outside(member);
    const std::uint64_t woken = wakes() - wakes_before;
    // One that makes no rounds at all has not taken over.
    check(rounds > 0 && rounds <= kMostRounds && woken <= kMostSleeps, woken, rounds);
}

// All have met, and nobody has a question any more.
void meet(Member& member) {
    COPPICE_CHECK(member.join() == COPPICE_OK);
    std::uint64_t value = member.rank;
    for (std::uint32_t root = 0; root < member.ranks; ++root)
        COPPICE_CHECK(coppice_broadcast(member.group, &value, sizeof value, root, nullptr, kDeadlineNs) == COPPICE_OK);
    COPPICE_CHECK(coppice_agree(member.group, &value, sizeof value, nullptr, kDeadlineNs) == COPPICE_OK);
}

TEST(Idle, ARankThatIsAloneInItsGroup) {
    Job job({.ranks = 1}, [](Member& member) {
        meet(member);
        stay_outside(member);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Idle, EightRanksOfAHost) {
    Job job({.ranks = 8}, [](Member& member) {
        meet(member);
        member.notes[0].fetch_add(1);
        member.await_note(0, member.ranks);
        stay_outside(member);
        member.notes[1].fetch_add(1);
        member.await_note(1, member.ranks);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

class EveryLayout : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Idle, EveryLayout,
                         ::testing::Values(Layout{"one_host", 2, 1, {}}, Layout{"two_hosts", 2, 2, {}},
                                           Layout{"tcp", 2, 1, {{"COPPICE_TRANSPORT", "tcp"}}},
                                           Layout{"ucx", 2, 1, {{"COPPICE_TRANSPORT", "ucx"}}}),
                         [](const auto& layout) { return std::string(layout.param.name); });

TEST_P(EveryLayout, ARankWhoseOtherIsDead) {
    Job job(GetParam().job(), [](Member& member) {
        meet(member);
        member.notes[0].fetch_add(1);
        if (member.rank == 1)
            for (;;)
                pause();
        member.await_failed(1);
        stay_outside(member);
        member.leave();
    });
    ASSERT_TRUE(job.await_note(0, 2));
    job.kill(1, true);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "");
}

TEST_P(EveryLayout, ARankWhoseOtherWasDeadBeforeTheyMet) {
    Job job(GetParam().job(), [](Member& member) {
        if (member.rank == 1)
            for (;;)
                pause();
        COPPICE_CHECK(member.join() == COPPICE_OK);
        stay_outside(member);
        member.leave();
    });
    job.kill(1, true);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "");
}

// The other one wants to know which rank it waits for, again and again.
TEST_P(EveryLayout, ARankWhoseOtherWaitsForItToLeave) {
    Job job(GetParam().job(), [](Member& member) {
        meet(member);
        if (member.rank == 0) {
            member.await_note(0, 1);
            stay_outside(member);
        } else {
            member.notes[0] = 1;
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// Where this process's transport between hosts listens, in one word.
std::uint64_t listening_at() {
    for (int one = 0; one < 1024; ++one) {
        int listens = 0;
        socklen_t length = sizeof listens;
        sockaddr_in address{};
        if (getsockopt(one, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) continue;
        length = sizeof address;
        if (getsockname(one, reinterpret_cast<sockaddr*>(&address), &length) == 0 && address.sin_family == AF_INET)
            return std::uint64_t{address.sin_addr.s_addr} << 16 | address.sin_port;
    }
    throw CheckFailed("this process listens nowhere");
}

// One that connects to it waits, and its listener stays readable. It sleeps all the same, and takes the connection once it can.
TEST(Idle, ARankThatHasNoDescriptorLeftForOneThatConnects) {
    JobOptions options{.ranks = 2};
    options.environment["COPPICE_TRANSPORT"] = "tcp";
    Job job(options, [](Member& member) {
        meet(member);
        if (member.rank == 0) {
            auto shortage = std::make_unique<Shortage>();
            member.notes[0] = listening_at();
            member.await_note(1, 1);
            const std::uint64_t rounds = rounds_outside(member);
            // Nothing in /proc can be read now, so its sleeps are not counted.
            if (rounds > kMostRounds)
                throw CheckFailed("the progress thread made " + std::to_string(rounds) + " rounds");
            member.notes[2] = 1;
            shortage.reset();
            member.await_note(3, 1);
        } else {
            // A stranger: what it says is nothing that a rank says, so it is turned away once it is heard.
            member.await_note(0, 1);
            sockaddr_in there{};
            there.sin_family = AF_INET;
            there.sin_port = static_cast<std::uint16_t>(member.notes[0].load());
            there.sin_addr.s_addr = static_cast<std::uint32_t>(member.notes[0].load() >> 16);
            const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            COPPICE_CHECK(::connect(socket, reinterpret_cast<sockaddr*>(&there), sizeof there) == 0);
            const std::string nonsense(100, 'x');
            COPPICE_CHECK(::send(socket, nonsense.data(), nonsense.size(), MSG_NOSIGNAL) == 100);
            member.notes[1] = 1;
            pollfd ended{.fd = socket, .events = POLLRDHUP, .revents = 0};
            COPPICE_CHECK(::poll(&ended, 1, static_cast<int>(kDeadlineNs / 1'000'000)) == 1);
            COPPICE_CHECK(member.notes[2].load() == 1);
            member.notes[3] = 1;
            ::close(socket);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
