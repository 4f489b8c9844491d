// The exchange among real processes: what it gives, and to the ranks that are left when others die.
#include "exchange.hpp"
#include "bootstrap/admission.hpp"

namespace coppice::bootstrap {
namespace {

TEST_F(exchange, gives_sixteen_ranks_everything_round_after_round) {
    begin(16);
    for (std::uint32_t rank = 0; rank < 16; ++rank) {
        start(rank, [](const LauncherEnvironment& environment) {
            const auto bootstrap = connect(environment);
            CHECK(bootstrap != nullptr);
            for (std::uint32_t round = 0; round < 20; ++round)
                CHECK(round_holds(*bootstrap, round));
            return true;
        });
    }
    serve_until_all_ended();
    EXPECT_TRUE(server_->gathered());
    EXPECT_EQ(server_->counters().garbage, 0U);
    EXPECT_EQ(server_->counters().strangers, 0U);
}

// Looks when there is something to see, as a rank does that sleeps.
bool attend(Admission& admission, const std::atomic<int>& stage,
            const std::function<void(const Admission::Event&)>& heed) {
    for (const std::uint64_t until = generous(); stage < 1;) {
        CHECK(now_ns() < until);
        pollfd entry{admission.descriptor(), POLLIN, 0};
        if (::poll(&entry, 1, 10) == 0) continue;
        for (auto event = admission.next();; event = admission.next()) {
            CHECK(event.has_value());
            if (!*event) break;
            heed(**event);
        }
    }
    return true;
}

TEST_F(exchange, carries_what_newcomers_have_to_know_of_the_largest_group) {
    begin(2, kMaxLauncherRanks - 2);
    auto* const stage = finished_;
    constexpr std::size_t kBirth = max_formed_bytes(kMaxLauncherRanks) - 2 * sizeof(std::uint32_t) - sizeof(PersonBody);
    start(0, [stage](const LauncherEnvironment& environment) {
        const auto admission = LauncherAdmission::enter(environment, generous());
        CHECK(admission.has_value());
        (*admission)->tell_card(std::vector<std::byte>(10), std::vector<std::byte>(10));
        return attend(**admission, *stage, [&](const Admission::Event& event) {
            using Kind = Admission::Event::Kind;
            if (event.kind == Kind::introduced) (*admission)->tell_wired(event.who.serial);
            if (event.kind == Kind::ready)
                (*admission)->tell_formed({&event.who, 1}, {}, std::vector<std::byte>(kBirth, std::byte{9}));
        });
    });
    // The process of the last number: that of rank 1 has ended.
    const pid_t pid = start(1, [stage](const LauncherEnvironment& rank) {
        LauncherEnvironment environment = rank;
        environment.rank = Rank(kMaxLauncherRanks - 1);
        environment.incarnation = 0;
        const auto admission = LauncherAdmission::enter(environment, generous());
        CHECK(admission.has_value());
        return attend(**admission, *stage, [&](const Admission::Event& event) {
            using Kind = Admission::Event::Kind;
            if (event.kind == Kind::invited) (*admission)->tell_card({}, std::vector<std::byte>(10));
            if (event.kind == Kind::introduced) (*admission)->tell_wired(event.who.serial);
            if (event.kind == Kind::formed && event.body.size() == kBirth) *stage = 1;
        });
    });
    server_->rank_ended(1);
    server_->late_started(kMaxLauncherRanks - 1, pid);
    serve_until_all_ended();
    EXPECT_EQ(server_->counters().garbage, 0U);
    EXPECT_EQ(server_->counters().strangers, 0U);
}

TEST_F(exchange, serves_groups_made_one_after_the_other_and_inside_each_other) {
    begin(4);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
        start(rank, [](const LauncherEnvironment& environment) {
            for (std::uint32_t turn = 0; turn < 50; ++turn) {
                const auto outer = connect(environment);
                CHECK(outer && round_holds(*outer, turn));
                const auto inner = connect(environment);
                CHECK(inner && round_holds(*inner, 100 + turn));
                CHECK(round_holds(*outer, 200 + turn));
                CHECK(round_holds(*inner, 300 + turn));
            }
            return true;
        });
    }
    serve_until_all_ended();
}

TEST_F(exchange, carries_the_largest_blob_and_refuses_one_byte_more) {
    begin(3);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        start(rank, [](const LauncherEnvironment& environment) {
            const auto bootstrap = connect(environment);
            const std::vector<std::byte> largest(kMaxBlob, std::byte{7});
            const auto refused = bootstrap->allgather(std::vector<std::byte>(kMaxBlob + 1), generous());
            CHECK(!refused && refused.error().status == COPPICE_ERR_TOO_LARGE);
            const auto all = bootstrap->allgather(largest, generous());
            CHECK(all && (*all)[0] == largest && (*all)[2] == largest);
            return true;
        });
    }
    serve_until_all_ended();
}

// Rank 0's process has ended, the kernel has given its number to rank 1's, and then rank 0 is started again.
TEST_F(exchange, knows_a_process_by_a_number_that_another_had_before) {
    begin(2, 0);
    const pid_t pid = start(1, [](const LauncherEnvironment& environment) {
        const auto admission = LauncherAdmission::enter(environment, generous());
        CHECK(admission.has_value());
        const auto bootstrap = connect(environment);
        CHECK(bootstrap != nullptr);
        const auto all = bootstrap->allgather(std::vector<std::byte>(3), generous());
        CHECK(all && (*all)[0].empty() && (*all)[1].size() == 3);
        CHECK((*admission)->next().has_value());  // not refused
        return true;
    });
    server_->rank_started(0, pid);
    server_->rank_ended(0);
    server_->rank_started(1, pid);
    server_->late_started(0, pid + 1);
    serve_until_all_ended();
    EXPECT_EQ(server_->counters().strangers, 0U);
}

TEST_F(exchange, goes_on_without_ranks_that_died_before_they_called) {
    begin(6);
    for (std::uint32_t rank = 0; rank < 6; ++rank) {
        if (rank == 1 || rank == 4) {
            start(rank, [](const LauncherEnvironment&) { return true; });
        } else {
            start(rank, [](const LauncherEnvironment& environment) {
                const auto bootstrap = connect(environment);
                CHECK(bootstrap && round_holds(*bootstrap, 0, {1, 4}) && round_holds(*bootstrap, 1, {1, 4}));
                return true;
            });
        }
    }
    serve_until_all_ended();
}

TEST_F(exchange, goes_on_without_a_rank_that_is_killed_while_connected) {
    begin(4);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
        start(rank, [rank](const LauncherEnvironment& environment) {
            const auto bootstrap = connect(environment);
            CHECK(bootstrap && round_holds(*bootstrap, 0));
            if (rank == 2) ::raise(SIGKILL);
            CHECK(round_holds(*bootstrap, 1, {2}) && round_holds(*bootstrap, 2, {2}));
            return true;
        });
    }
    serve_until_all_ended({2});
}

TEST_F(exchange, keeps_what_a_rank_contributed_before_it_died) {
    begin(3);
    start(2, [](const LauncherEnvironment& environment) {
        const int socket = raw_connection(environment.socket_path);
        write_all(socket, handshake_frame(2, 3));
        std::array<char, sizeof(FrameHeader) + sizeof(WelcomeBody)> welcome{};
        CHECK(::read(socket, welcome.data(), welcome.size()) == static_cast<ssize_t>(welcome.size()));
        std::vector<std::byte> body;
        append(body, std::uint32_t{0});
        append_bytes(body, blob_of(2, 0));
        write_all(socket, make_frame(FrameKind::contribute, body));
        ::raise(SIGKILL);
        return true;
    });
    serve_until_all_ended({2});
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        start(rank, [](const LauncherEnvironment& environment) {
            const auto bootstrap = connect(environment);
            CHECK(bootstrap && round_holds(*bootstrap, 0) && round_holds(*bootstrap, 1, {2}));
            return true;
        });
    }
    serve_until_all_ended();
}

TEST_F(exchange, takes_a_process_that_died_below_a_living_wrapper_for_dead) {
    begin(3);
    int done[2];
    ASSERT_EQ(::pipe(done), 0);
    start(2, [&](const LauncherEnvironment& environment) {
        // The wrapper: its child is the rank and dies; it lives until the others are done.
        const pid_t child = ::fork();
        if (child == 0) {
            const auto bootstrap = connect(environment);
            ::raise(SIGKILL);
        }
        ::waitpid(child, nullptr, 0);
        ::close(done[1]);
        char byte = 0;
        return ::read(done[0], &byte, 1) == 0;
    });
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        start(rank, [](const LauncherEnvironment& environment) {
            const auto bootstrap = connect(environment);
            CHECK(bootstrap && round_holds(*bootstrap, 0, {2}));
            return true;
        });
    }
    ::close(done[1]);
    serve_until_all_ended();
    ::close(done[0]);
}

TEST_F(exchange, names_at_the_deadline_who_never_called_and_who_does_not_take_part) {
    begin(4);
    start(1, [](const LauncherEnvironment&) { return ::pause() != 0; });
    start(3, [](const LauncherEnvironment& environment) {
        const auto bootstrap = connect(environment);
        return ::pause() != 0;
    });
    serve_until([this] { return server_->contacted(); });
    for (const std::uint32_t rank : {0U, 2U}) {
        start(rank, [this](const LauncherEnvironment& environment) {
            const auto bootstrap = connect(environment);
            CHECK(bootstrap != nullptr);
            // However long the deadline is: rank 1 and 3 never come.
            const auto all = bootstrap->allgather(blob_of(0, 0), now_ns() + kSecond);
            CHECK(!all && all.error().status == COPPICE_ERR_BOOTSTRAP);
            CHECK(contains(all.error().message, "rank 1 (alive, but never called)"));
            CHECK(contains(all.error().message, "rank 3 (connected, but did not take part)"));
            const auto again = bootstrap->allgather({}, generous());
            CHECK(!again && contains(again.error().message, "earlier exchange"));
            // To leave now would spare the other one its deadline.
            finished_->fetch_add(1);
            while (finished_->load() < 2)
                ::poll(nullptr, 0, 1);
            return true;
        });
    }
    serve_until([this] { return pids_[0] < 0 && pids_[2] < 0; });
}

// All others are given it, and go on.
TEST_F(exchange, takes_what_it_waits_for_from_a_launcher_that_answers_after_the_deadline) {
    begin(1);
    start(0, [](const LauncherEnvironment& environment) {
        const auto bootstrap = connect(environment);
        for (std::uint8_t round = 0; round < 20; ++round) {
            const std::vector<std::byte> mine(3, std::byte{round});
            const auto all = bootstrap->allgather(mine, now_ns());
            CHECK(all && all->size() == 1 && all->front() == mine);
        }
        return true;
    });
    serve_until_all_ended();
    EXPECT_EQ(server_->counters().garbage, 0U);
}

TEST_F(exchange, ends_at_once_when_a_living_rank_has_left_it) {
    begin(3);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        start(rank, [this, rank](const LauncherEnvironment& environment) {
            auto bootstrap = connect(environment);
            CHECK(bootstrap && round_holds(*bootstrap, 0));
            if (rank == 1) {
                bootstrap.reset();
            } else {
                const auto all = bootstrap->allgather(blob_of(rank, 1), UINT64_MAX);
                CHECK(!all && all.error().status == COPPICE_ERR_BOOTSTRAP);
                CHECK(contains(all.error().message, "rank 1 is alive but has left"));
                finished_->fetch_add(1);
            }
            while (finished_->load() < 2)
                ::poll(nullptr, 0, 1);
            return true;
        });
    }
    serve_until_all_ended();
}

TEST_F(exchange, ends_at_once_when_the_launcher_dies) {
    begin(2);
    start(1, [](const LauncherEnvironment&) { return ::pause() != 0; });
    const pid_t waiting = start(0, [](const LauncherEnvironment& environment) {
        const auto bootstrap = connect(environment);
        CHECK(bootstrap != nullptr);
        const auto all = bootstrap->allgather(blob_of(0, 0), UINT64_MAX);
        CHECK(!all && all.error().status == COPPICE_ERR_BOOTSTRAP);
        return contains(all.error().message, "died during the exchange");
    });
    serve_until([this] { return server_->contacted(); });
    server_.reset();
    int status = -1;
    ASSERT_EQ(::waitpid(waiting, &status, 0), waiting);
    pids_[0] = -1;
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace coppice::bootstrap
