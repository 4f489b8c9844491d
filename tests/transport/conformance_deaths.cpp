// What every transport does when somebody dies, leaves, or only seems dead.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "transport/conformance.hpp"
#include "transport/faults.hpp"

namespace coppice::testing {

namespace {

using transport::SendStatus;

// Words of the stage.
constexpr std::size_t kReady = 0;   // ranks that are where the test wants them
constexpr std::size_t kSeen = 1;    // ranks that noticed the death
constexpr std::size_t kGo = 2;      // the parent's word
constexpr std::size_t kOrphan = 3;  // a process to be ended by the test

[[noreturn]] void poll_for_ever(Member& member) {
    while (true) {
        member.poll();
        sched_yield();
    }
}

void watch_all(Member& member) {
    for (std::uint32_t peer = 0; peer < member.size(); ++peer)
        if (peer != member.self().value) member.wire().watch(Seat{peer});
}

void see_death_of(Member& member, Seat victim) {
    member.poll_until([&] { return member.recorder.failed(victim); }, "the death");
    COPPICE_CHECK(member.recorder.failures.size() == 1);
    std::uint32_t in_flight = 0;
    COPPICE_CHECK(member.wire().send(victim, header_of(0), {}, &in_flight) == SendStatus::failed);
}

// That the ranks other than `dead` still reach each other both ways.
void survivors_talk(Member& member, Seat dead) {
    const std::uint64_t kMark = 0xa11ce;
    for (std::uint32_t peer = 0; peer < member.size(); ++peer)
        if (peer != member.self().value && peer != dead.value)
            COPPICE_CHECK(member.send(Seat{peer}, header_of(kMark), pattern(peer, 3000)) == SendStatus::sent);
    const auto marks = [&] {
        std::size_t count = 0;
        for (const auto& message : member.recorder.messages)
            count += header_word(message.header, 0) == kMark;
        return count;
    };
    member.poll_until([&] { return marks() == member.size() - 2; }, "the survivors");
    member.leave();
}

char process_letter(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t paren = text.rfind(')');
    return paren == std::string::npos ? '-' : text[paren + 2];
}

void touch_a_gigabyte() {
    constexpr std::size_t kBytes = std::size_t{1} << 30;
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    COPPICE_CHECK(memory != MAP_FAILED);
    std::memset(memory, 1, kBytes);
}

}  // namespace

TEST_P(Conformance, ReportsAKilledPeerOnceReaped) {
    start(4, [](Member& member) {
        watch_all(member);
        member.barrier();
        ++member.stage().words[kReady];
        if (member.self() == Seat{2}) poll_for_ever(member);
        see_death_of(member, Seat{2});
        survivors_talk(member, Seat{2});
        COPPICE_CHECK(member.recorder.failures.size() == 1);
    });
    await_word(kReady, 4);
    processes_.signal(2, SIGKILL);
    expect_killed(2);
    expect_all_well();
}

TEST_P(Conformance, ReportsAKilledPeerThatNobodyReaps) {
    if (!GetParam()->notices_zombies()) return;
    start(3, [](Member& member) {
        watch_all(member);
        member.barrier();
        ++member.stage().words[kReady];
        if (member.self() == Seat{1}) poll_for_ever(member);
        see_death_of(member, Seat{1});
        ++member.stage().words[kSeen];
        survivors_talk(member, Seat{1});
    });
    await_word(kReady, 3);
    processes_.signal(1, SIGKILL);
    await_word(kSeen, 2);  // still a zombie here
    EXPECT_TRUE(processes_.await_zombie(1));
    expect_killed(1);
    expect_all_well();
}

TEST_P(Conformance, ReportsAKilledPeerThatHadAGigabyte) {
    start(3, [](Member& member) {
        watch_all(member);
        if (member.self() == Seat{0}) touch_a_gigabyte();
        member.barrier();
        ++member.stage().words[kReady];
        if (member.self() == Seat{0}) poll_for_ever(member);
        see_death_of(member, Seat{0});
        survivors_talk(member, Seat{0});
    });
    await_word(kReady, 3);
    processes_.signal(0, SIGKILL);
    expect_all_well_but(0);
}

TEST_P(Conformance, WhatAPeerKilledWhileSendingGotOutIsIntactAndBlocksNobody) {
    constexpr std::uint64_t kRounds = 12;
    for (std::uint64_t round = 0; round < kRounds; round += GetParam()->slow_to_start() ? 4U : 1U) {
        begin_again();
        start(3, [](Member& member) {
            if (member.self() == Seat{0}) {
                watch_all(member);
                for (std::uint64_t number = 0;; ++number)
                    for (const Seat to : {Seat{1}, Seat{2}})
                        member.send(to, header_of(number), pattern(number, number * 37 % 8193));
            }
            watch_all(member);
            std::uint64_t next = 0;
            std::size_t marks = 0;
            member.recorder.on_message = [&](const Recorder::Received& message) {
                if (message.from != Seat{0}) {
                    ++marks;
                    return;
                }
                COPPICE_CHECK(header_word(message.header, 0) == next);
                COPPICE_CHECK(message.payload.size() == next * 37 % 8193);
                COPPICE_CHECK(is_pattern(message.payload, next));
                ++next;
                ++member.stage().words[kReady];
            };
            member.poll_until([&] { return member.recorder.failed(Seat{0}); }, "the death");
            const Seat other{3 - member.self().value};
            for (int i = 0; i < 100; ++i)
                member.send(other, header_of(0), pattern(1, 500));
            member.poll_until([&] { return marks == 100; }, "the other survivor");
            member.leave();
        });
        await_word(kReady, 50 + round * 97);
        processes_.signal(0, SIGKILL);
        expect_killed(0);
        expect_all_well();
    }
}

TEST_P(Conformance, APeerThatDiesAtAnyMessageLeavesAPrefixOfItsMessages) {
    constexpr std::uint64_t kMessages = 10;
    for (const char* const when : {"kill-before:", "kill-after:"})
        for (std::uint64_t at = 1; at <= kMessages; at += GetParam()->slow_to_start() ? 3U : 1U) {
            begin_again();
            const std::string faults = when + std::to_string(at) + "@0";
            start(
                3,
                [&](Member& member) {
                    member.interpose(*transport::parse_faults(faults, member.self()));
                    member.meet();
                    watch_all(member);
                    if (member.self() == Seat{0})
                        for (std::uint64_t number = 0; number < kMessages; ++number)
                            member.send(Seat{1 + static_cast<std::uint32_t>(number % 2)}, header_of(number),
                                        pattern(number, 100 + number * 800));
                    member.poll_until([&] { return member.recorder.failed(Seat{0}); }, "the death");
                    std::uint64_t next = member.self().value - 1;
                    for (const auto& message : member.recorder.messages) {
                        if (message.from != Seat{0}) continue;
                        COPPICE_CHECK(header_word(message.header, 0) == next && is_pattern(message.payload, next));
                        next += 2;
                    }
                    // Rank 0 accepted this many in all; where a process's end cannot hold back what it had sent, all
                    // came.
                    const std::uint64_t accepted = faults.starts_with("kill-before") ? at - 1 : at;
                    const std::uint64_t mine = (accepted + 2 - member.self().value) / 2;
                    const std::uint64_t came = member.recorder.count(Seat{0});
                    COPPICE_CHECK(came <= mine);
                    if (GetParam()->sent_is_delivered()) COPPICE_CHECK(came == mine);
                    survivors_talk(member, Seat{0});
                },
                true);
            expect_killed(0);
            expect_all_well();
        }
}

TEST_P(Conformance, KeptPayloadsOutliveTheirSender) {
    start(2, [](Member& member) {
        if (member.self() == Seat{0}) {
            for (std::uint64_t number = 0; number < 4; ++number)
                member.send(Seat{1}, header_of(number), pattern(number, 8000));
            ++member.stage().words[kReady];
            poll_for_ever(member);
        }
        member.wire().watch(Seat{0});
        member.recorder.keep = true;
        member.poll_until([&] { return member.recorder.kept.size() + member.recorder.messages.size() == 4; },
                          "payloads");
        ++member.stage().words[kReady];
        member.poll_until([&] { return member.recorder.failed(Seat{0}); }, "the death");
        for (const auto& kept : member.recorder.kept) {
            COPPICE_CHECK(is_pattern(kept.payload, header_word(kept.header, 0)));
            member.wire().release(kept.buffer);
        }
    });
    await_word(kReady, 2);
    processes_.signal(0, SIGKILL);
    expect_killed(0);
    expect_all_well();
}

TEST_P(Conformance, AStoppedPeerIsNotDead) {
    start(2, [](Member& member) {
        watch_all(member);
        member.barrier();
        ++member.stage().words[kReady];
        if (member.self() == Seat{0}) {
            member.poll_until([&] { return member.stage().words[kGo] == 1; }, "the stop");
            const std::uint64_t some_time = now_ns() + 300'000'000;  // several second looks
            while (now_ns() < some_time)
                member.poll();
            COPPICE_CHECK(member.recorder.failures.empty());
            COPPICE_CHECK(member.send(Seat{1}, header_of(5), {}) == SendStatus::sent);
            ++member.stage().words[kSeen];
        } else {
            member.poll_until([&] { return member.recorder.messages.size() == 1; }, "the message");
        }
        member.leave();
        COPPICE_CHECK(member.recorder.failures.empty());
    });
    await_word(kReady, 2);
    processes_.signal(1, SIGSTOP);
    const std::uint64_t deadline = now_ns() + kDeadlineNs;
    while (process_letter(processes_.pid(1)) != 'T' && now_ns() < deadline)
        usleep(100);
    stage().words[kGo] = 1;
    await_word(kSeen, 1);
    processes_.signal(1, SIGCONT);
    expect_all_well();
}

TEST_P(Conformance, AForkedChildDoesNotKeepItsParentAlive) {
    start(2, [](Member& member) {
        watch_all(member);
        member.barrier();
        if (member.self() == Seat{0}) {
            const pid_t child = fork();
            if (child == 0)
                while (true)
                    pause();
            member.stage().words[kOrphan] = static_cast<std::uint64_t>(child);
            ++member.stage().words[kReady];
            poll_for_ever(member);
        }
        member.poll_until([&] { return member.recorder.failed(Seat{0}); }, "the death");
    });
    await_word(kReady, 1);
    processes_.signal(0, SIGKILL);
    expect_killed(0);
    const auto orphan = static_cast<pid_t>(stage().words[kOrphan].load());
    if (GetParam()->forked_children_do_not_count()) expect_well(1);
    EXPECT_EQ(kill(orphan, SIGKILL), 0);
    expect_all_well();
}

TEST_P(Conformance, LeavingInPeaceIsNoFailure) {
    start(4, [](Member& member) {
        watch_all(member);
        for (std::uint32_t peer = 0; peer < member.size(); ++peer)
            if (peer != member.self().value) member.send(Seat{peer}, header_of(1), pattern(1, 300));
        member.poll_until([&] { return member.recorder.messages.size() == 3; }, "everybody");
        member.barrier();
        if (member.self() == Seat{3}) {
            // The others go on polling long after this process has ended.
            member.poll_until([&] { return member.wire().leave(); }, "leaving");
            return;
        }
        member.poll_until([&] { return member.stage().words[kGo] == 1; }, "the end of rank 3");
        const std::uint64_t some_time = now_ns() + 200'000'000;
        while (now_ns() < some_time)
            member.poll();
        COPPICE_CHECK(member.recorder.failures.empty());
        member.poll_until([&] { return member.wire().leave(); }, "leaving");
        ++member.stage().words[kSeen];
        member.poll_until([&] { return member.stage().words[kSeen] == 3; }, "the others");
    });
    expect_well(3);
    stage().words[kGo] = 1;
    expect_all_well();
}

TEST_P(Conformance, AFencedPeerIsNeitherHeardNorReported) {
    start(3, [](Member& member) {
        watch_all(member);
        if (member.self() == Seat{0}) {
            for (std::uint64_t number = 0;; ++number) {
                std::uint32_t in_flight = 0;
                member.wire().send(Seat{1}, header_of(number), {}, &in_flight);
                member.wire().send(Seat{2}, header_of(number), {}, &in_flight);
                member.poll();
                sched_yield();
            }
        }
        member.poll_until([&] { return member.recorder.count(Seat{0}) >= 5; }, "some messages");
        if (member.self() == Seat{1}) {
            member.wire().fence(Seat{0});
            const std::size_t heard = member.recorder.messages.size();
            for (int polls = 0; polls < 2000; ++polls) {
                member.poll();
                sched_yield();
            }
            COPPICE_CHECK(member.recorder.count(Seat{0}) == heard);
            std::uint32_t in_flight = 0;
            COPPICE_CHECK(member.wire().send(Seat{0}, header_of(0), {}, &in_flight) == SendStatus::failed);
        }
        ++member.stage().words[kReady];
        if (member.self() == Seat{2}) {
            member.poll_until([&] { return member.recorder.failed(Seat{0}); }, "the death");
            ++member.stage().words[kSeen];
        }
        member.poll_until([&] { return member.stage().words[kSeen] == 1; }, "the other's notice");
        const std::uint64_t some_time = now_ns() + 200'000'000;
        while (now_ns() < some_time)
            member.poll();
        COPPICE_CHECK(member.self() == Seat{2} || member.recorder.failures.empty());
        ++member.stage().words[kSeen];
        member.poll_until([&] { return member.stage().words[kSeen] == 3; }, "the end");
    });
    await_word(kReady, 2);
    processes_.signal(0, SIGKILL);
    expect_killed(0);
    expect_all_well();
}

TEST_P(Conformance, APeerThatDiesBeforeFirstContactIsReportedOrRefused) {
    start(
        3,
        [](Member& member) {
            member.publish_address();
            if (member.self() == Seat{0}) {
                ++member.stage().words[kReady];
                poll_for_ever(member);
            }
            const Bytes address = member.address_of(Seat{0});
            // Rank 1 hears of it before the death, rank 2 after it.
            if (member.self() == Seat{1}) COPPICE_CHECK(member.wire().add_peer(Seat{0}, address).has_value());
            ++member.stage().words[kReady];
            member.poll_until([&] { return member.stage().words[kGo] == 1; }, "the death");
            if (member.self() == Seat{2}) {
                const auto added = member.wire().add_peer(Seat{0}, address);
                if (!added) {
                    COPPICE_CHECK(added.error().status == COPPICE_ERR_PEER_FAILED);
                    return;
                }
            }
            member.wire().watch(Seat{0});
            member.poll_until([&] { return member.recorder.failed(Seat{0}); }, "the report");
        },
        true);
    await_word(kReady, 3);
    processes_.signal(0, SIGKILL);
    expect_killed(0);
    stage().words[kGo] = 1;
    expect_all_well();
}

}  // namespace coppice::testing
