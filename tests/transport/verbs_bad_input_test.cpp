// What can be wrong with a device, its network or its limits: each is told, with the remedy, and the process goes on.
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "transport/verbs_support.hpp"

namespace coppice::testing {

namespace {

using namespace transport;

void run(const std::string& command) {
    if (std::system(command.c_str()) != 0) throw CheckFailed("failed: " + command);
}

// A device of the test's own, over an interface that leads nowhere.
class SpareDevice {
  public:
    SpareDevice() {
        run("ip link add spare type veth peer name nowhere && ip addr add 10.98.0.1/24 dev spare && "
            "ip link set nowhere up && ip link set spare up && rdma link add rxespare type rxe netdev spare");
    }
    ~SpareDevice() { static_cast<void>(std::system("rdma link delete rxespare; ip link delete spare")); }
    SpareDevice(const SpareDevice&) = delete;
    SpareDevice& operator=(const SpareDevice&) = delete;

    VerbsOptions options() const {
        auto options = verbs_options(Seat{0}, 2);
        options.device = "rxespare";
        return options;
    }
};

// This process may have so many objects (queue pairs, registrations and the like) of the device.
void limit_objects(const std::string& device, const std::string& most) {
    static const std::string kPlace = "/run/coppice-test-cgroup";
    static const std::string kGroup = kPlace + "/limited";
    if (mkdir(kPlace.c_str(), 0700) == 0) run("mount -t cgroup2 none " + kPlace);
    std::ofstream(kPlace + "/cgroup.subtree_control") << "+rdma" << std::endl;
    mkdir(kGroup.c_str(), 0700);
    std::ofstream limit(kGroup + "/rdma.max");
    limit << device << " hca_object=" << most << std::endl;
    std::ofstream members(kGroup + "/cgroup.procs");
    members << getpid() << std::endl;
    COPPICE_CHECK(limit.good() && members.good());
}

// Polls until the host has this to say of a connection that failed.
void poll_until_told(VerbsTransport& host, Recorder& recorder, const char* words) {
    const std::uint64_t deadline = now_ns() + kDeadlineNs;
    while (std::string(host.last_error()).find(words) == std::string::npos) {
        if (now_ns() > deadline) throw CheckFailed("the last error is: " + std::string(host.last_error()));
        host.poll(recorder);
        sched_yield();
    }
}

}  // namespace

TEST(VerbsBadInput, NoDeviceIsToldWithTheWayToOne) {
    in_process([] {
        // In a name space of its own, where no device can be opened.
        COPPICE_CHECK(unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
        COPPICE_CHECK(mount("none", "/dev/infiniband", "tmpfs", 0, nullptr) == 0);
        auto options = verbs_options(Seat{0}, 2);
        options.device = "";
        COPPICE_CHECK(says(error_of(options), "no RDMA device on this host"));
        COPPICE_CHECK(says(error_of(options), "rdma link add"));
    });
}

TEST(VerbsBadInput, ADeviceThatIsDownIsNamedWithTheRemedy) {
    const SpareDevice spare;
    in_process([&] {
        make_verbs(spare.options());
        run("ip link set spare down");
        const std::string message = error_of(spare.options());
        COPPICE_CHECK(says(message, "rxespare: port 1 is") && says(message, "not active"));
        COPPICE_CHECK(says(message, "ip link set … up"));
    });
}

TEST(VerbsBadInput, AnInterfaceWithoutAnAddressIsNamedWithTheRemedy) {
    const SpareDevice spare;
    in_process([&] {
        run("sysctl -q -w net.ipv6.conf.spare.disable_ipv6=1 && ip addr flush dev spare");
        COPPICE_CHECK(says(error_of(spare.options()), "ip addr add …"));
    });
}

TEST(VerbsBadInput, DevicesThatCannotBeUsedAreNamedWithTheReason) {
    in_process([] {
        auto options = verbs_options(Seat{0}, 2);
        const std::string device = options.device;
        options.device = "no_such_device";
        const std::string unknown = error_of(options);
        COPPICE_CHECK(says(unknown, "no_such_device") && says(unknown, device.c_str()));
        options.device = device + ":7";
        COPPICE_CHECK(says(error_of(options), "port 7 was asked for"));
        options.device = device + ":x";
        COPPICE_CHECK(says(error_of(options), "NAME:PORT"));
        options.device = "auto";  // soft-RoCE hangs on no part of the machine: all are equally near
        const auto nearest = make_verbs(options);
        COPPICE_CHECK(std::ranges::count(rdma_devices(), nearest->device().name) == 1);
        options.gid_index = 200;
        COPPICE_CHECK(says(error_of(options), "nothing at GID index 200") && says(error_of(options), device.c_str()));
    });
}

TEST(VerbsBadInput, APortInUseIsNamedWithTheRemedy) {
    in_process([] {
        auto options = verbs_options(Seat{0}, 2);
        options.port = 20700;
        const auto first = make_verbs(options);
        const std::string message = error_of(options);
        COPPICE_CHECK(says(message, "port 20700") && says(message, "COPPICE_VERBS_PORT"));
    });
}

TEST(VerbsBadInput, ALockedMemoryLimitThatIsTooSmallIsToldWithLimitNeedAndCommand) {
    in_process([] {
        const rlimit limit{65536, 65536};
        COPPICE_CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
        COPPICE_CHECK(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
        const std::string message = error_of(verbs_options(Seat{0}, 2));
        COPPICE_CHECK(says(message, "64 KiB in all") && says(message, "ulimit -l unlimited"));
        COPPICE_CHECK(says(message, "KiB could not be locked"));
    });
}

TEST(VerbsBadInput, APathMtuBeyondThePortsIsRefusedAndASmallerOneIsUsedByBoth) {
    in_process([] {
        auto options = verbs_options(Seat{0}, 2);
        options.mtu = 512;
        auto small = make_verbs(options);
        auto large = make_verbs(verbs_options(Seat{1}, 2));
        COPPICE_CHECK(small->device().mtu == 512 && large->device().mtu > 512);
        COPPICE_CHECK(small->add_peer(Seat{1}, large->address()) && large->add_peer(Seat{0}, small->address()));
        Recorder at_small, at_large;
        std::uint32_t in_flight = 0;
        const Bytes payload = pattern(1, 8192);
        COPPICE_CHECK(small->send(Seat{1}, header_of(1), payload, &in_flight) == SendStatus::sent);
        COPPICE_CHECK(large->send(Seat{0}, header_of(1), payload, &in_flight) == SendStatus::sent);
        const std::uint64_t deadline = now_ns() + kDeadlineNs;
        while (at_small.messages.empty() || at_large.messages.empty() || in_flight > 0) {
            COPPICE_CHECK(now_ns() < deadline);
            small->poll(at_small);
            large->poll(at_large);
        }
        COPPICE_CHECK(is_pattern(at_small.messages[0].payload, 1) && is_pattern(at_large.messages[0].payload, 1));
        options.mtu = 8192;
        COPPICE_CHECK(says(error_of(options), "8192 were asked for"));
    });
}

// ------------------------------------------------------------------------------------------------------ limits ---

// A domain, two completion queues, a receive queue, regions and a queue pair: each is refused once.
TEST(VerbsBadInput, ALimitOnQueuePairsOrRegistrationsIsNamedWhenItIsReachedAtTheStart) {
    in_process([] {
        const auto options = verbs_options(Seat{0}, 2);
        bool made = false;
        for (int most = 0; !made; ++most) {
            limit_objects(options.device, std::to_string(most));
            const auto wire = VerbsTransport::create(options);
            made = wire.has_value();
            COPPICE_CHECK(made ? most > 5 && most < 20 : says(wire.error().message, "rdma.max"));
        }
    });
}

TEST(VerbsBadInput, ALimitThatIsReachedLaterCostsOneConnectionAndNoOther) {
    in_process([] {
        VerbsGroup group(3);
        COPPICE_CHECK(group.send(0, 1, pattern(1, 100)) == SendStatus::sent);
        group.poll_until([&] { return group.recorders[1].messages.size() == 1; }, "the first message");
        limit_objects(group.wires[0]->device().name, "0");
        group.wires[0]->watch(Seat{2});
        group.poll_until([&] { return group.recorders[0].failed(Seat{2}); }, "the failure");
        COPPICE_CHECK(says(std::string(group.wires[0]->last_error()), "rdma.max"));
        COPPICE_CHECK(group.send(0, 1, pattern(2, 100), true) == SendStatus::sent);
        group.poll_until([&] { return group.recorders[1].messages.size() == 2; }, "a message after that");
        COPPICE_CHECK(!group.recorders[0].failed(Seat{1}));
    });
}

// The peer's limit is three objects: lines, slots and queue pair, so none is left for a memory window. (Rank 1 has a
// device of its own, and is asked for the connection.)
TEST(VerbsBadInput, WhereNoMemoryWindowIsLeftTheSlotsAreRegisteredInstead) {
    in_process([] {
        VerbsGroup group(2);
        COPPICE_CHECK(group.wires[0]->device().name != group.wires[1]->device().name);
        COPPICE_CHECK(group.wires[0]->memory_windows() && group.wires[1]->memory_windows());
        const std::uint64_t before[] = {group.wires[0]->counters().registrations,
                                        group.wires[1]->counters().registrations};
        limit_objects(group.wires[0]->device().name, "max");  // whatever it was in other tests
        limit_objects(group.wires[1]->device().name, "3");
        for (std::uint32_t number = 1; number <= 40; ++number)
            for (const std::uint32_t from : {0U, 1U}) {
                COPPICE_CHECK(group.send(from, 1 - from, pattern(number, 100), true) == SendStatus::sent);
                const auto& messages = group.recorders[1 - from].messages;
                group.poll_until(
                    [&] {
                        for (std::uint32_t rank = 0; rank < 2; ++rank)
                            if (!group.recorders[rank].failures.empty())
                                throw CheckFailed(std::string(group.wires[rank]->last_error()));
                        return messages.size() == number;
                    },
                    "a write");
                COPPICE_CHECK(is_pattern(messages.back().payload, number));
            }
        COPPICE_CHECK(group.wires[0]->counters().registrations == before[0] + 2);
        COPPICE_CHECK(group.wires[1]->counters().registrations == before[1] + 3);
    });
}

class VerbsLimits : public ::testing::Test, protected Ranks {
  protected:
    Factory& factory() override { return factory_; }
    VerbsFactory factory_;
};

TEST_F(VerbsLimits, OfThePeerAreToldToARankThatWantsToConnectToIt) {
    start(2, [](Member& member) {
        constexpr std::size_t kReached = 0;
        constexpr std::size_t kRefused = 1;
        auto& wire = dynamic_cast<VerbsTransport&>(member.wire());
        if (member.self() == Seat{1}) {
            limit_objects(wire.device().name, "0");
            member.stage().words[kReached] = 1;
            member.poll_until([&] { return member.stage().words[kRefused] == 1; }, "the other's end");
            COPPICE_CHECK(says(std::string(wire.last_error()), "rdma.max"));
        } else {
            member.poll_until([&] { return member.stage().words[kReached] == 1; }, "the limit");
            wire.watch(Seat{1});
            member.poll_until([&] { return member.recorder.failed(Seat{1}); }, "the refusal");
            member.stage().words[kRefused] = 1;
            COPPICE_CHECK(says(std::string(wire.last_error()), "it has no queue pair or memory left"));
        }
    });
    expect_all_well();
}

// ------------------------------------------------------------------------------------------------ peers that are
// silent

TEST(VerbsBadInput, APeerThatAsksForAConnectionAndSaysNoMoreIsGivenUp) {
    in_process([] {
        auto options = verbs_options(Seat{0}, 4);
        options.connect_timeout = Nanoseconds(200'000'000);
        auto host = make_verbs(options);
        Recorder recorder;
        const Visitor silent(*host, recorder, encode(visiting_card(1)), Visitor::Until::answered);
        poll_until_told(*host, recorder, "did not answer in time");
        Visitor other(*host, recorder, encode(visiting_card(2)));
        COPPICE_CHECK(other.accepted() && recorder.failed(Seat{1}) && !recorder.failed(Seat{2}));
    });
}

// As a rank does whose kernel has given up to repeat a request that this process was too busy for.
TEST(VerbsBadInput, APeerThatAsksAgainIsAnsweredWhateverBecameOfItsFirstRequest) {
    for (const Visitor::Until until : {Visitor::Until::asked, Visitor::Until::answered}) {
        for (const bool withdraws : {false, true}) {
            in_process([=] {
                const auto host = make_verbs(verbs_options(Seat{0}, 4));
                Recorder recorder;
                std::optional<Visitor> first(std::in_place, *host, recorder, encode(visiting_card(1)), until);
                if (withdraws) first.reset();
                std::optional<Visitor> again;
                do {  // one that comes while its first request is being answered is told to ask once more
                    again.emplace(*host, recorder, encode(visiting_card(1)));
                } while (again->refusal() == transport::verbs::Refusal::duplicate);
                if (!again->accepted() || recorder.failed(Seat{1}))
                    fprintf(stderr, "%d %d %d %s\n", again->accepted(), (int)again->refusal(), recorder.failed(Seat{1}),
                            std::string(host->last_error()).c_str());
                COPPICE_CHECK(again->accepted() && !recorder.failed(Seat{1}));
                COPPICE_CHECK(host->link(Seat{1}) == transport::verbs::Link::open);
            });
        }
    }
}

}  // namespace coppice::testing
