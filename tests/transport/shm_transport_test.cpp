// What is particular to the shm transport: limits, leftovers, strangers, and what counts as a death.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include "base/host.hpp"
#include "transport/shm/bell.hpp"
#include "transport/shm/segment.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/shm_factory.hpp"

namespace coppice::testing {

namespace {

using namespace transport;

class ShmTransportTest : public ::testing::Test, protected Ranks {
  protected:
    Factory& factory() override { return factory_; }

    // Runs `body` in a process of its own, whose limits it may change.
    void in_a_child(const std::function<void()>& body) {
        const std::size_t child = processes_.start([&] {
            body();
            return 0;
        });
        const Ending ending = processes_.wait(child);
        EXPECT_TRUE(ending.well()) << ending.text();
    }

    ShmFactory factory_;
};

Result<std::unique_ptr<ShmTransport>> make(std::uint32_t self, std::uint32_t size, std::uint32_t window = kWindow,
                                           std::string host = {}, std::uint32_t max_local = 0) {
    return ShmTransport::create({Seat{self}, size, window, std::move(host), max_local});
}

std::unique_ptr<ShmTransport> made(std::uint32_t self, std::uint32_t size, std::uint32_t window = kWindow,
                                   std::string host = {}, std::uint32_t max_local = 0) {
    auto result = make(self, size, window, std::move(host), max_local);
    if (!result) throw CheckFailed(result.error().message);
    return std::move(*result);
}

void limit(int what, rlim_t to) {
    const rlimit limits{to, to};
    COPPICE_CHECK(setrlimit(static_cast<__rlimit_resource_t>(what), &limits) == 0);
}

bool says(const Error& error, const std::string& text) {
    return error.message.find(text) != std::string::npos;
}

std::size_t maps(const char* of) {
    std::ifstream file("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(file, line);)
        count += line.find(of) != std::string::npos;
    return count;
}

// Puts this process into a mount namespace of its own. False where that is not permitted.
bool own_mounts() {
    const auto put = [](const char* path, const std::string& text) { std::ofstream(path) << text; };
    const uid_t user = geteuid();
    if (unshare(CLONE_NEWNS) != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
        put("/proc/self/uid_map", "0 " + std::to_string(user) + " 1");
    }
    return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

}  // namespace

TEST_F(ShmTransportTest, NamesTheLimitWhenFilesMayNotBeLargeEnough) {
    in_a_child([] {
        limit(RLIMIT_FSIZE, 64 * 1024);
        const auto result = make(0, 4);
        COPPICE_CHECK(!result && result.error().status == COPPICE_ERR_NO_RESOURCES);
        COPPICE_CHECK(says(result.error(), "RLIMIT_FSIZE") && says(result.error(), "65536"));
    });
}

TEST_F(ShmTransportTest, NamesTheLimitWhenThereAreTooFewDescriptors) {
    in_a_child([] {
        limit(RLIMIT_NOFILE, 64);
        int last = -1;
        for (int fd = dup(0); fd >= 0; fd = dup(0))
            last = fd;
        for (int left = 0; left < 2; ++left) {  // with none left, and with one
            const auto result = make(0, 4);
            COPPICE_CHECK(!result && result.error().status == COPPICE_ERR_NO_RESOURCES);
            COPPICE_CHECK(says(result.error(), "RLIMIT_NOFILE") && says(result.error(), "ulimit -n"));
            if (left == 0) close(last);
        }
        COPPICE_CHECK(dup(0) == last && dup(0) == -1);  // and none was lost
        closefrom(3);                                   // sanitizers want some at the end
    });
}

TEST_F(ShmTransportTest, SaysWhenThereIsNoMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    // Sanitizers reserve terabytes of address space of their own, so that limit can't be set under them.
    in_a_child([] {
        const auto result = make(0, 1024, 1024);
        COPPICE_CHECK(result || result.error().status == COPPICE_ERR_NO_MEMORY);
    });
#else
    in_a_child([] {
        limit(RLIMIT_AS, std::size_t{512} << 20);
        const auto result = make(0, 1024, 1024);
        COPPICE_CHECK(!result && result.error().status == COPPICE_ERR_NO_MEMORY);
        COPPICE_CHECK(says(result.error(), "ulimit -v"));
    });
#endif
}

TEST_F(ShmTransportTest, MapsPeersThoughTheApplicationHasUsedUpAllDescriptors) {
    start(2, [](Member& member) {
        while (dup(0) >= 0) {
        }
        const Seat other{1 - member.self().value};
        COPPICE_CHECK(member.send(other, header_of(1), pattern(1, 5000)) == SendStatus::sent);
        member.poll_until([&] { return member.recorder.messages.size() == 1; }, "the message");
        member.leave();
        COPPICE_CHECK(member.recorder.failures.empty());
    });
    expect_all_well();
}

TEST_F(ShmTransportTest, NeedsNothingOfDevShm) {
    in_a_child([] {
        // A /dev/shm of one page that is full, where mount namespaces may be made.
        if (own_mounts() && mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=4096") == 0) {
            const int fd = open("/dev/shm/full", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
            const Bytes page = pattern(0, 4096);
            COPPICE_CHECK(fd >= 0 && write(fd, page.data(), page.size()) == 4096);
            COPPICE_CHECK(write(fd, page.data(), page.size()) < 0 && errno == ENOSPC);
        }
        const auto transport = made(0, 4);
        COPPICE_CHECK(maps("memfd:coppice") > 0 && maps("/dev/shm") == 0);
    });
}

TEST_F(ShmTransportTest, LeavesNothingBehind) {
    in_a_child([] {
        made(0, 2).reset();  // the thread that holds obituaries comes with the first and stays
        const std::size_t descriptors = open_descriptors();
        const std::size_t all_threads = threads();
        for (int round = 0; round < 300; ++round) {
            const auto first = made(0, 2);
            const auto second = made(1, 2);
            COPPICE_CHECK(first->add_peer(Seat{1}, second->address()).has_value());
            COPPICE_CHECK(second->add_peer(Seat{0}, first->address()).has_value());
            std::uint32_t in_flight = 0;
            COPPICE_CHECK(first->send(Seat{1}, header_of(1), pattern(1, 4000), &in_flight) == SendStatus::sent);
            Recorder recorder;
            second->poll(recorder);
            COPPICE_CHECK(recorder.messages.size() == 1 && is_pattern(recorder.messages[0].payload, 1));
        }
        COPPICE_CHECK(open_descriptors() == descriptors && threads() == all_threads && maps("memfd:coppice") == 0);
    });
}

TEST_F(ShmTransportTest, AFencedRankIsTold) {
    in_a_child([] {
        const auto first = made(0, 2);
        const auto second = made(1, 2);
        COPPICE_CHECK(first->add_peer(Seat{1}, second->address()).has_value());
        COPPICE_CHECK(second->add_peer(Seat{0}, first->address()).has_value());
        COPPICE_CHECK(first->seal_board({Seat{0}, Seat{1}}).has_value());
        COPPICE_CHECK(second->seal_board({Seat{0}, Seat{1}}).has_value());
        Recorder recorder;
        second->poll(recorder);
        COPPICE_CHECK(!second->board(0).fenced() && recorder.fenced_by.empty());
        first->fence(Seat{1});
        COPPICE_CHECK(second->board(0).fenced() && !first->board(0).fenced());
        second->poll(recorder);
        second->poll(recorder);
        COPPICE_CHECK(recorder.fenced_by == std::vector<Seat>{Seat{0}});
    });
}

// A group of that rank may have the second of them as a member, and not the first.
TEST_F(ShmTransportTest, AFencedRankIsToldOfAllThatFenceIt) {
    in_a_child([] {
        const auto first = made(0, 3);
        const auto second = made(1, 3);
        const auto third = made(2, 3);
        for (const auto* fencer : {&first, &third}) {
            COPPICE_CHECK((*fencer)->add_peer(Seat{1}, second->address()).has_value());
            (*fencer)->watch(Seat{1});
        }
        Recorder recorder;
        first->fence(Seat{1});
        third->fence(Seat{1});
        // One that was stopped while the others took it for dead: it makes its peers known first.
        second->poll(recorder);
        COPPICE_CHECK(recorder.fenced_by.empty());
        COPPICE_CHECK(second->add_peer(Seat{0}, first->address()).has_value());
        COPPICE_CHECK(second->add_peer(Seat{2}, third->address()).has_value());
        second->poll(recorder);
        second->poll(recorder);
        COPPICE_CHECK((recorder.fenced_by == std::vector<Seat>{Seat{0}, Seat{2}}));
        COPPICE_CHECK(second->poll(recorder) == 0);
    });
}

TEST_F(ShmTransportTest, ExecIsADeath) {
    start(2, [](Member& member) {
        member.wire().watch(Seat{0});
        member.barrier();
        if (member.self() == Seat{0}) {
            execl("/bin/sleep", "sleep", "1000", nullptr);
            throw CheckFailed("exec");
        }
        member.poll_until([&] { return member.recorder.failed(Seat{0}); }, "the death");
        COPPICE_CHECK(member.recorder.failures[0].cause == FailureCause::obituary);
    });
    expect_well(1);
    processes_.signal(0, SIGKILL);
    expect_killed(0);
}

TEST_F(ShmTransportTest, DestroyingATransportWithoutLeavingIsAFailureToOthers) {
    start(2, [](Member& member) {
        member.wire().watch(Seat{1 - member.self().value});
        member.barrier();
        if (member.self() == Seat{0}) {
            member.discard();
            while (member.stage().words[0] == 0)
                sched_yield();
            return;
        }
        member.poll_until([&] { return member.recorder.failed(Seat{0}); }, "the failure");
        member.stage().words[0] = 1;
    });
    expect_all_well();
}

TEST_F(ShmTransportTest, AForkedChildThatDestroysItsCopyDoesNotHarmItsParent) {
    start(2, [](Member& member) {
        const Seat other{1 - member.self().value};
        member.wire().watch(other);
        member.barrier();
        if (member.self() == Seat{0}) {
            Processes children;
            const std::size_t child = children.start([&] {
                member.wire().leave();
                member.discard();
                return 0;
            });
            COPPICE_CHECK(children.wait(child).well());
        }
        member.barrier();
        for (int polls = 0; polls < 1000; ++polls)
            member.poll();
        COPPICE_CHECK(member.send(other, header_of(1), {}) == SendStatus::sent);
        member.poll_until([&] { return member.recorder.messages.size() == 1; }, "a message");
        member.barrier();
        COPPICE_CHECK(member.recorder.failures.empty());
    });
    expect_all_well();
}

TEST_F(ShmTransportTest, AddressesTellHostsApart) {
    in_a_child([] {
        const auto here = made(0, 4, kWindow, "left");
        const auto also_here = made(1, 4, kWindow, "left");
        const auto there = made(2, 4, kWindow, "right");
        COPPICE_CHECK(ShmTransport::host_of(here->address()) == host_identity("left"));
        COPPICE_CHECK(ShmTransport::host_of(there->address()) == host_identity("right"));
        COPPICE_CHECK(ShmTransport::host_of(pattern(1, 100)).empty());
        COPPICE_CHECK(here->add_peer(Seat{1}, also_here->address()).has_value());
        const auto refused = here->add_peer(Seat{2}, there->address());
        COPPICE_CHECK(!refused && refused.error().status == COPPICE_ERR_NO_TRANSPORT);
        COPPICE_CHECK(says(refused.error(), "rank 2") && says(refused.error(), "COPPICE_TRANSPORT"));
    });
}

TEST_F(ShmTransportTest, RefusesPeersWithOtherSettings) {
    in_a_child([] {
        const auto mine = made(0, 4);
        const auto status = [&](std::uint32_t rank, const ShmTransport& peer) {
            const auto added = mine->add_peer(Seat{rank}, peer.address());
            return added ? COPPICE_OK : added.error().status;
        };
        COPPICE_CHECK(status(1, *made(1, 4, kWindow * 2)) == COPPICE_ERR_MISMATCH);
        COPPICE_CHECK(status(1, *made(1, 5)) == COPPICE_ERR_MISMATCH);
        COPPICE_CHECK(status(1, *made(2, 4)) == COPPICE_ERR_MISMATCH);
        COPPICE_CHECK(status(4, *made(1, 4)) == COPPICE_ERR_OUT_OF_RANGE);
        const auto peer = made(1, 4);
        COPPICE_CHECK(status(1, *peer) == COPPICE_OK);
        COPPICE_CHECK(status(1, *peer) == COPPICE_ERR_INVALID_ARGUMENT);
        const auto few = made(0, 4, kWindow, {}, 2);
        COPPICE_CHECK(few->add_peer(Seat{1}, made(1, 4, kWindow, {}, 2)->address()).has_value());
        const auto third = few->add_peer(Seat{2}, made(2, 4, kWindow, {}, 2)->address());
        COPPICE_CHECK(!third && third.error().status == COPPICE_ERR_NO_RESOURCES && says(third.error(), "rank 2"));
        COPPICE_CHECK(!make(4, 4) && !make(0, 0) && !make(0, 4, 0) && !make(0, 4, 1025) && !make(0, 4, 8, {}, 2000));
        COPPICE_CHECK(!make(0, 4, 8, std::string(200, 'x')));
    });
}

TEST_F(ShmTransportTest, AnotherUserCannotMapASegment) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    const auto owner = made(0, 2);
    const auto address = shm::decode(Seat(0), owner->address());  // no secret
    ASSERT_TRUE(address.has_value());
    const std::string segment = fmt::format("/proc/{}/fd/{}", address->pid, address->fd);
    in_a_child([&] {
        const int own_users = open(segment.c_str(), O_RDWR);
        COPPICE_CHECK(own_users >= 0 && close(own_users) == 0);
        COPPICE_CHECK(setgid(65534) == 0 && setuid(65534) == 0);
        for (const int how : {O_RDONLY, O_RDWR, O_PATH})
            COPPICE_CHECK(open(segment.c_str(), how) < 0 && errno == EACCES);
    });
}

TEST_F(ShmTransportTest, AClaimThatAStrangerMadeIsGarbage) {
    in_a_child([] {
        const auto mine = made(0, 3);
        const auto peer = made(1, 3);
        const auto stranger = made(2, 3);
        COPPICE_CHECK(mine->add_peer(Seat{1}, peer->address()).has_value());
        // It has our address, but is another process's rank 1.
        const auto other = made(1, 3);
        COPPICE_CHECK(other->add_peer(Seat{0}, mine->address()).has_value());
        std::uint32_t in_flight = 0;
        COPPICE_CHECK(other->send(Seat{0}, header_of(666), {}, &in_flight) == SendStatus::sent);
        Recorder recorder;
        mine->poll(recorder);
        COPPICE_CHECK(recorder.messages.empty() && mine->counters().garbage == 1);
        COPPICE_CHECK(peer->add_peer(Seat{0}, mine->address()).has_value());
        COPPICE_CHECK(peer->send(Seat{0}, header_of(1), {}, &in_flight) == SendStatus::sent);
        // One that is not known yet is heard as soon as it is.
        COPPICE_CHECK(stranger->add_peer(Seat{0}, mine->address()).has_value());
        COPPICE_CHECK(stranger->send(Seat{0}, header_of(2), {}, &in_flight) == SendStatus::sent);
        mine->poll(recorder);
        COPPICE_CHECK(recorder.messages.size() == 1 && recorder.messages[0].from == Seat{1});
        COPPICE_CHECK(mine->add_peer(Seat{2}, stranger->address()).has_value());
        mine->poll(recorder);
        COPPICE_CHECK(recorder.messages.size() == 2 && recorder.messages[1].from == Seat{2});
    });
}

// A bell has a name that every process of the host may guess or list (/proc/net/unix).
TEST_F(ShmTransportTest, AStrangersDatagramRingsNoBell) {
    constexpr std::uint64_t kKey = 0x0123456789abcdef;
    const shm::Bell bell = shm::Bell::make(kKey);
    ASSERT_TRUE(bell);
    const auto is_rung = [&] {
        pollfd readable{bell.descriptor(), POLLIN, 0};
        return poll(&readable, 1, 0) == 1;
    };
    const auto send = [](const shm::Bell& to, const std::string& bytes) {
        sockaddr_un own{};
        socklen_t length = sizeof own;
        const int stranger = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        COPPICE_CHECK(stranger >= 0 && getsockname(to.descriptor(), reinterpret_cast<sockaddr*>(&own), &length) == 0);
        (void)sendto(stranger, bytes.data(), bytes.size(), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&own), length);
        close(stranger);
    };
    std::string key(sizeof kKey, '\0');
    std::memcpy(key.data(), &kKey, sizeof kKey);
    for (const std::size_t bytes :
         std::initializer_list<std::size_t>{0, 1, 4, 7, 9, 64, 4096}) {  // the wrong length, or the key and more
        std::string text = key + std::string(4096, '\0');
        text.resize(bytes);
        send(bell, text);
        ASSERT_FALSE(is_rung()) << bytes << " bytes";
    }
    for (std::size_t bit = 0; bit < 8 * sizeof kKey; ++bit) {
        std::string text = key;
        text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
        send(bell, text);
        ASSERT_FALSE(is_rung()) << "bit " << bit;
    }
    // However many a stranger sends, a datagram with the key still rings.
    const shm::Bell other = shm::Bell::make(kKey + 1);
    for (int time = 0; time < 5000; ++time)
        other.ring(bell.name(), kKey + 1);
    ASSERT_FALSE(is_rung());
    other.ring(bell.name(), kKey);
    EXPECT_TRUE(is_rung());
    bell.silence();
    EXPECT_FALSE(is_rung());
}

TEST_F(ShmTransportTest, AProcessIsNamedByItsPidAndItsStart) {
    const std::uint64_t started = process_start_time(getpid());
    EXPECT_NE(started, 0U);
    EXPECT_EQ(process_state(getpid(), started), ProcessState::alive);
    EXPECT_EQ(process_state(getpid(), started + 1), ProcessState::gone);
    const std::size_t child = processes_.start([] { return 0; });
    const std::uint64_t childs = process_start_time(processes_.pid(child));
    ASSERT_TRUE(processes_.await_zombie(child));
    EXPECT_EQ(process_state(processes_.pid(child), childs), ProcessState::gone);
    EXPECT_TRUE(processes_.wait(child).well());
    EXPECT_EQ(process_state(processes_.pid(child), childs), ProcessState::gone);
}

}  // namespace coppice::testing
