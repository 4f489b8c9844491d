// Broadcasts that wait, nobody dying: deadlines, full windows, views that are held, threads, and ranks that are stopped.
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <memory>
#include <string>
#include <thread>

#include "integration/broadcasts.hpp"

namespace coppice::testing {
namespace {

TEST(Broadcast, ADeadlineNamesTheRanksItWaitedForAndTheGroupGoesOn) {
    Job job({.ranks = 3}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        unsigned char byte = 7;
        if (member.rank == 2) {
            member.await_note(0, 1);  // not before rank 0 has given up
            COPPICE_CHECK(coppice_broadcast(member.group, &byte, 1, 2, nullptr, kTimeout) == COPPICE_OK);
        } else if (member.rank == 0) {
            COPPICE_CHECK(coppice_broadcast(member.group, &byte, 1, 2, nullptr, 1'000'000) == COPPICE_ERR_TIMEOUT);
            COPPICE_CHECK(std::string(coppice_last_error()).find("rank 2") != std::string::npos);
            member.notes[0] = 1;
        } else {
            COPPICE_CHECK(coppice_broadcast(member.group, &byte, 1, 2, nullptr, kTimeout) == COPPICE_OK);
        }
        broadcast_and_check(member, 1, 2, 20);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Broadcast, AFullWindowNamesTheRankThatHoldsItUp) {
    for (const std::uint32_t hosts : {1U, 3U}) {
        Job job({.ranks = 3, .hosts = hosts, .environment = {{"COPPICE_WINDOW", "4"}}}, [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            if (member.rank == 0) {
                unsigned char byte = 0;
                coppice_status_t status = COPPICE_OK;
                while (status == COPPICE_OK) {
                    status = coppice_broadcast(member.group, &byte, 1, 0, nullptr, 20'000'000);
                }
                COPPICE_CHECK(status == COPPICE_ERR_BUSY);
                member.notes[1] = 1;  // how many went through is told by the note that the others follow
            } else {
                member.await_note(1, 1);
            }
            member.notes[2].fetch_add(1);
            member.await_note(2, member.ranks);
            if (member.rank == 0) {
                const std::string error = coppice_last_error();
                COPPICE_CHECK(error.find("rank 1") != std::string::npos || error.find("rank 2") != std::string::npos);
                COPPICE_CHECK(error.find("rank 0") == std::string::npos);  // the caller itself
                for (int i = 0; i < 8; ++i) {
                    unsigned char byte = 0;
                    COPPICE_CHECK(coppice_broadcast(member.group, &byte, 1, 0, nullptr, kTimeout) == COPPICE_OK);
                }
            } else {
                for (int i = 0; i < 12; ++i) {
                    unsigned char byte = 0;
                    COPPICE_CHECK(coppice_broadcast(member.group, &byte, 1, 0, nullptr, kTimeout) == COPPICE_OK);
                }
            }
            member.leave();
        });
        EXPECT_EQ(job.finish(), "") << hosts << " hosts";
    }
}

TEST(Broadcast, AStoppedRankIsWaitedForAndNotSuspected) {
    for (const std::uint32_t hosts : {1U, 2U}) {
        Job job({.ranks = 4, .hosts = hosts}, [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            for (std::uint64_t number = 0; number < 1500; ++number) {
                broadcast_and_check(member, number, static_cast<std::uint32_t>(number % member.ranks), 16);
                if (member.rank == 3) member.notes[0] = number;
                if (member.rank == 0) member.notes[1] = number;
            }
            COPPICE_CHECK(member.failed().empty());
            member.leave();
        });
        ASSERT_TRUE(job.await_note(0, 100));
        job.processes().signal(3, SIGSTOP);
        const std::uint64_t there = job.note(0);
        ASSERT_TRUE(job.await_note(1, there)) << "the others go on until they need it";
        job.processes().signal(3, SIGCONT);
        EXPECT_EQ(job.finish(), "") << hosts << " hosts";
    }
}

TEST(Broadcast, ThreadsMayShareAGroupInMultipleMode) {
    JobOptions options{.ranks = 3, .hosts = 3};
    options.context.thread_mode = COPPICE_THREAD_MULTIPLE;
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::atomic<bool> stop{false};
        std::vector<std::thread> movers;
        for (int i = 0; i < 3; ++i) {
            movers.emplace_back([&] {
                while (!stop)
                    coppice_progress(member.context);
            });
        }
        for (std::uint64_t number = 0; number < 500; ++number) {
            broadcast_and_check(member, number, static_cast<std::uint32_t>(number % member.ranks), 64);
        }
        stop = true;
        for (std::thread& mover : movers)
            mover.join();
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Broadcast, TwoThreadsMayWaitAtOnceInMultipleMode) {
    for (const std::uint32_t hosts : {1U, 2U}) {
        JobOptions options{.ranks = 4, .hosts = hosts};
        options.context.thread_mode = COPPICE_THREAD_MULTIPLE;
        Job job(options, [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            constexpr std::size_t kBytes = 96;
            constexpr std::uint64_t kPairs = 400;
            std::array<std::vector<unsigned char>, 2> buffers{std::vector<unsigned char>(kBytes),
                                                              std::vector<unsigned char>(kBytes)};
            std::array<coppice_request_t*, 2> requests{};
            std::barrier begin(3);
            std::barrier end(3);
            std::vector<std::thread> waiters;
            for (std::size_t which = 0; which < 2; ++which) {
                waiters.emplace_back([&, which] {
                    for (std::uint64_t pair = 0; pair < kPairs; ++pair) {
                        begin.arrive_and_wait();
                        COPPICE_CHECK(coppice_request_wait(requests[which], nullptr, kTimeout) == COPPICE_OK);
                        end.arrive_and_wait();
                    }
                });
            }
            for (std::uint64_t pair = 0; pair < kPairs; ++pair) {
                for (std::size_t which = 0; which < 2; ++which) {
                    const std::uint64_t number = 2 * pair + which;
                    const auto root = static_cast<std::uint32_t>(number % member.ranks);
                    if (root == member.rank) buffers[which] = payload_of(number, root, kBytes);
                    COPPICE_CHECK(coppice_broadcast_nb(member.group, buffers[which].data(), kBytes, root,
                                                       &requests[which]) == COPPICE_OK);
                }
                begin.arrive_and_wait();
                end.arrive_and_wait();
                for (std::size_t which = 0; which < 2; ++which) {
                    const std::uint64_t number = 2 * pair + which;
                    const auto root = static_cast<std::uint32_t>(number % member.ranks);
                    COPPICE_CHECK(buffers[which] == payload_of(number, root, kBytes));
                    coppice_request_free(requests[which]);
                }
            }
            for (std::thread& waiter : waiters)
                waiter.join();
            member.leave();
        });
        EXPECT_EQ(job.finish(), "") << hosts << " hosts";
    }
}

// A rank that is taken for dead although it lives gets an error from its next call, never a payload that the others do
// not vouch for; they go on without it.
TEST(Broadcast, ARankTakenForDeadIsToldSoAndTheOthersGoOn) {
    JobOptions options{.ranks = 4};
    options.environment = {{"COPPICE_FAULTS", "suspect:2:50@1"}};
    Job job(options, [](Member& member) {
        constexpr std::uint64_t kBroadcasts = 3000;
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t number = 0;
        const auto broadcast = [&] {
            std::vector<unsigned char> buffer(32);
            if (member.rank == 0) buffer = payload_of(number, 0, buffer.size());
            const coppice_status_t status =
                coppice_broadcast(member.group, buffer.data(), buffer.size(), 0, nullptr, kTimeout);
            if (status == COPPICE_OK) COPPICE_CHECK(buffer == payload_of(number, 0, buffer.size()));
            ++number;
            return status;
        };
        if (member.rank != 2) {
            while (number < kBroadcasts)
                COPPICE_CHECK(broadcast() == COPPICE_OK);
            COPPICE_CHECK(member.failed() == std::vector<std::uint32_t>{2});
            member.leave();
            return;
        }
        coppice_status_t status = COPPICE_OK;
        while (status == COPPICE_OK && number < kBroadcasts)
            status = broadcast();
        COPPICE_CHECK(status == COPPICE_ERR_FENCED);
        COPPICE_CHECK(std::string(coppice_last_error()).find("rank 2") != std::string::npos);
        COPPICE_CHECK(broadcast() == COPPICE_ERR_FENCED);
        coppice_group_destroy(member.group, 0);
        coppice_context_destroy(member.context);
    });
    EXPECT_EQ(job.finish(), "");
}

// After broadcasts up to `first`, and as round number `round`: the last rank holds the view of broadcast number `held`. All go on for as
// many as coppice.h promises, and are then told which rank it is. Returns how many broadcasts there were by then.
std::uint64_t hold_a_view(Member& member, bool by_messages, std::uint64_t window, std::uint64_t first,
                          std::uint64_t held, std::uint64_t round) {
    const std::uint32_t holder = member.ranks - 1;
    struct Open {
        coppice_request_t* request;
        std::unique_ptr<std::uint64_t> value;
        std::uint64_t number;
    };
    std::vector<Open> open;
    coppice_request_t* view = nullptr;
    const auto free_ended = [&] {
        std::erase_if(open, [](Open& one) {
            const coppice_status_t status = coppice_request_test(one.request, nullptr);
            if (status == COPPICE_IN_PROGRESS) return false;
            COPPICE_CHECK(status == COPPICE_OK && *one.value == one.number);
            COPPICE_CHECK(coppice_request_free(one.request) == COPPICE_OK);
            return true;
        });
    };
    const auto start = [&](std::uint64_t number) {
        if (member.rank == holder && number == held) {
            return coppice_broadcast_view_nb(member.group, nullptr, 0, 0, &view);
        }
        Open one{nullptr, std::make_unique<std::uint64_t>(member.rank == 0 ? number : 0), number};
        const coppice_status_t status =
            coppice_broadcast_nb(member.group, one.value.get(), sizeof number, 0, &one.request);
        if (status == COPPICE_OK) open.push_back(std::move(one));
        return status;
    };
    const auto start_all = [&](std::uint64_t from, std::uint64_t to) {
        for (std::uint64_t number = from; number < to; ++number) {
            const std::string what = "room for broadcast " + std::to_string(number);
            member.await(what.c_str(), [&] {
                free_ended();
                const coppice_status_t status = start(number);
                COPPICE_CHECK(status == COPPICE_OK || status == COPPICE_ERR_BUSY);
                return status == COPPICE_OK;
            });
        }
    };
    start_all(first, held + window);
    const std::string name = "rank " + std::to_string(holder) + " has not consumed broadcast " + std::to_string(held);
    // On one host a rank that only receives may be a window beyond its own broadcasts.
    const bool waits = by_messages || member.rank == 0 || member.rank == holder;
    member.await("the name of the rank that holds all up", [&] {
        free_ended();
        if (!waits) return true;
        COPPICE_CHECK(start(held + window) == COPPICE_ERR_BUSY);
        return std::string(coppice_last_error()).find(name) != std::string::npos;
    });
    member.notes[0].fetch_add(1);
    member.await_note(0, (round + 1) * member.ranks);
    if (view != nullptr) {
        COPPICE_CHECK(coppice_request_wait(view, nullptr, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(coppice_request_free(view) == COPPICE_OK);
    }
    start_all(held + window, held + 3 * window);
    member.await("all to end", [&] {
        free_ended();
        return open.empty();
    });
    return held + 3 * window;
}

TEST(Window, AHeldViewHoldsUpNobodyBeforeAWholeWindowAndIsNamed) {
    for (const auto& [ranks, hosts] : {std::pair{2U, 2U}, {3U, 3U}, {5U, 2U}, {4U, 1U}}) {
        for (const auto& [window, helds] :
             {std::pair<std::uint64_t, std::vector<std::uint64_t>>{32, {0, 1, 3, 15, 16, 17, 31, 33}},
              {2, {0, 1, 3}}}) {
            for (const std::uint64_t held : helds) {
                SCOPED_TRACE(std::to_string(ranks) + " ranks on " + std::to_string(hosts) + " hosts, view " +
                             std::to_string(held) + ", window " + std::to_string(window));
                JobOptions options{.ranks = ranks, .hosts = hosts};
                options.environment["COPPICE_WINDOW"] = std::to_string(window);
                Job job(options, [&, hosts = hosts, window = window](Member& member) {
                    COPPICE_CHECK(member.join() == COPPICE_OK);
                    hold_a_view(member, hosts > 1, window, 0, held, 0);
                    member.leave();
                });
                EXPECT_EQ(job.finish(), "");
            }
        }
    }
}

// One view after the other in one group, each one broadcast further from a multiple of the window.
TEST(Window, AViewThatIsHeldAnywhereInAWindowOfAnySizeHoldsUpNobodyBefore) {
    struct Way {
        std::uint32_t ranks;
        std::uint32_t hosts;
        const char* hierarchy;
    };
    for (const Way& way :
         {Way{2, 2, "host"}, Way{5, 2, "host"}, Way{4, 4, "host"}, Way{5, 2, "flat"}, Way{3, 1, "flat"}}) {
        for (const std::uint64_t window : {2, 4, 8, 32}) {
            SCOPED_TRACE(std::to_string(way.ranks) + " ranks on " + std::to_string(way.hosts) + " hosts, " +
                         way.hierarchy + ", window " + std::to_string(window));
            JobOptions options{.ranks = way.ranks, .hosts = way.hosts};
            options.environment["COPPICE_WINDOW"] = std::to_string(window);
            options.environment["COPPICE_HIERARCHY"] = way.hierarchy;
            Job job(options, [window](Member& member) {
                COPPICE_CHECK(member.join() == COPPICE_OK);
                std::uint64_t first = 0;
                for (std::uint64_t behind = 1; behind < window; ++behind) {
                    const std::uint64_t whole_windows = (first + window - 1) / window * window;
                    first = hold_a_view(member, true, window, first, whole_windows + behind, behind - 1);
                }
                member.leave();
            });
            ASSERT_EQ(job.finish(), "");
        }
    }
}

}  // namespace
}  // namespace coppice::testing
