// Broadcasts among hosts with RDMA devices of their own, some of which die, or lose their network. In the guest.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <numeric>

#include "hosts.hpp"

namespace coppice::testing {
namespace {

// What the ranks and the test tell each other.
constexpr std::size_t kStarted = 0;  // ranks that have had the first broadcasts
constexpr std::size_t kLost = 1;     // set when the victims are no more
constexpr std::size_t kMeant = 2;    // bit r: rank r is one of them

struct Way {
    const char* name;
    std::map<std::string, std::string> environment;
    const char* cut;  // takes the last host off the network; the next test wants it back
    const char* mend;
    friend void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
};

// Rank 0 broadcasts until it knows of all deaths; then every live rank has 100 more, and no broadcast was lost,
// doubled or damaged. A rank that loses its root instead is one that was meant to be lost.
void broadcast_beyond(Member& member, std::size_t deaths) {
    const std::uint64_t mine = std::uint64_t{1} << member.rank;
    std::uint64_t more = 100;
    bool last = false;
    for (std::uint64_t number = 0; !last; ++number) {
        std::uint64_t payload[2] = {number, 0};
        if (member.rank == 0 && member.notes[kLost] != 0 && member.failed().size() == deaths)
            payload[1] = more-- == 0 ? 1 : 0;
        const coppice_status_t status =
            coppice_broadcast(member.group, payload, sizeof payload, 0, nullptr, kDeadlineNs);
        if (status != COPPICE_OK && (member.notes[kMeant] & mine) != 0) return;
        if (status != COPPICE_OK) throw CheckFailed(coppice_last_error());
        COPPICE_CHECK(payload[0] == number);
        if (number == 20) member.notes[kStarted].fetch_add(1);
        last = payload[1] != 0;
    }
    member.await_note(kLost, 1);
    member.await_failed(deaths);
    std::uint64_t failed = 0;
    for (const std::uint32_t rank : member.failed())
        failed |= std::uint64_t{1} << rank;
    COPPICE_CHECK(failed == member.notes[kMeant]);
    member.leave();
}

std::uint64_t bits_of(const std::vector<std::uint32_t>& ranks) {
    return std::accumulate(ranks.begin(), ranks.end(), std::uint64_t{0},
                           [](std::uint64_t bits, std::uint32_t rank) { return bits | std::uint64_t{1} << rank; });
}

class Hosts : public ::testing::TestWithParam<Way> {
  protected:
    // Runs the job; `lose` makes an end of the victims once everybody is busy.
    void run_without(const std::vector<std::uint32_t>& victims, const std::function<void(Job&)>& lose) {
        Job job(job_on_devices(GetParam().environment), [&](Member& member) {
            if (member.join() != COPPICE_OK) throw CheckFailed(coppice_last_error());
            broadcast_beyond(member, victims.size());
        });
        ASSERT_TRUE(job.await_note(kStarted, kRanks));
        job.note(kMeant) = bits_of(victims);
        lose(job);
        job.note(kLost) = 1;
        const std::string wrong = job.finish();
        for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
            const Ending& ending = job.ending(rank);
            const bool victim = std::ranges::count(victims, rank) > 0;
            const bool well = ending.well() || (victim && (ending.killed_by(SIGKILL) || ending.killed_by(lost_by_)));
            EXPECT_TRUE(well) << wrong;
        }
    }

    int lost_by_ = 0;  // a signal that may end victims, too
};

TEST_P(Hosts, BroadcastGoesOnWhenRanksOfTwoHostsAreKilled) {
    const std::vector<std::uint32_t> victims{3, 6};
    run_without(victims, [&](Job& job) {
        for (const std::uint32_t victim : victims)
            job.kill(victim, true);
    });
}

TEST_P(Hosts, BroadcastGoesOnWhenAllRanksOfAHostAreKilled) {
    const std::vector<std::uint32_t> victims{2, 3};
    run_without(victims, [&](Job& job) {
        for (const std::uint32_t victim : victims)
            job.kill(victim, false);
    });
}

// Nobody dies: the last host is cut off. For all others that host is lost, and for it all others are. (When the device
// itself is taken down, UCX ends the processes that use it: a fatal error of its own, on UD.)
TEST_P(Hosts, ADeviceThatGoesDownIsAHostLost) {
    lost_by_ = SIGABRT;
    run_without({6, 7}, [&](Job&) { ASSERT_EQ(std::system(GetParam().cut), 0); });
    ASSERT_EQ(std::system(GetParam().mend), 0);
}

// What the kernel forgets of an interface that is taken down. And the RDMA device is made again: whatever its
// connection manager wanted to send while the interface was down leaves that queue pair (the GSI) in error for good,
// and then nobody connects to this device any more.
constexpr const char* kDeviceUp =
    "ip link set roce3 up && rdma link delete rxe3 && rdma link add rxe3 type rxe netdev roce3 && "
    "ip route replace local 10.99.0.4 dev roce3 table 1003 && "
    "ip route replace 10.99.0.0/24 dev roce3 table 1003 && for host in 1 2 3; do "
    "ip neigh replace 10.99.0.$host lladdr 02:00:0a:63:00:0$host dev roce3 nud permanent || exit; done";

INSTANTIATE_TEST_SUITE_P(
    Ways, Hosts,
    // The cable is pulled from the switch, or the device itself is taken down.
    ::testing::Values(
        Way{"shm_and_ucx", {{"COPPICE_TRANSPORT", "shm,ucx"}}, "ip link set port3 down", "ip link set port3 up"},
        Way{"shm_and_verbs", {{"COPPICE_TRANSPORT", "shm,verbs"}}, "ip link set roce3 down", kDeviceUp},
        Way{"ucx_everywhere",
            {{"COPPICE_TRANSPORT", "ucx"}, {"COPPICE_HIERARCHY", "flat"}, {"COPPICE_TREE", "binomial"}},
            "ip link set roce3 down",
            kDeviceUp}),
    [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace coppice::testing
