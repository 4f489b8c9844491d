// Whom the exchange refuses, and what ranks that do wrong can not do to it.
#include "exchange.hpp"

namespace coppice::bootstrap {
namespace {

TEST_F(exchange, refuses_another_version_by_name) {
    begin(1);
    start(0, [](const LauncherEnvironment& environment) {
        const int socket = raw_connection(environment.socket_path);
        auto frame = handshake_frame(0, 1);
        const std::uint16_t version = 99;
        std::memcpy(frame.data() + 4, &version, sizeof version);
        write_all(socket, frame);
        const std::string answer = read_to_end(socket);
        return contains(answer, "version 99") &&
               contains(answer, fmt::format("the launcher version {}", kProtocolVersion).c_str());
    });
    serve_until_all_ended();
}

TEST_F(exchange, refuses_another_word_size_job_size_or_rank) {
    begin(2);
    start(0, [](const LauncherEnvironment& environment) {
        LauncherEnvironment wrong = environment;
        wrong.size = 3;
        const auto other_size = LauncherBootstrap::create(wrong, generous());
        CHECK(!other_size && contains(other_size.error().message, "COPPICE_SIZE"));
        wrong = environment;
        wrong.rank = Rank(1);
        const auto other_rank = LauncherBootstrap::create(wrong, generous());
        CHECK(!other_rank && contains(other_rank.error().message, "belongs to rank 0, not 1"));

        const int socket = raw_connection(environment.socket_path);
        std::vector<std::byte> body;
        append(body, HandshakeBody{0, 2, 4});
        write_all(socket, make_frame(FrameKind::handshake, body));
        CHECK(contains(read_to_end(socket), "word size"));
        return true;
    });
    serve_until_all_ended();
    EXPECT_EQ(server_->counters().strangers, 3U);
}

std::string answer_to_one_that_enters(const LauncherEnvironment& environment, const EnterBody& said) {
    const int socket = raw_connection(environment.socket_path);
    std::vector<std::byte> body;
    append(body, said);
    write_all(socket, make_frame(FrameKind::enter, body));
    return read_to_end(socket);
}

// As a member, and as a newcomer.
TEST_F(exchange, refuses_who_enters_by_a_living_ones_number) {
    begin(2, 1);
    auto* const stage = finished_;
    start(0, [stage](const LauncherEnvironment& environment) {
        const auto admission = LauncherAdmission::enter(environment, generous());
        CHECK(admission.has_value());
        ++*stage;
        CHECK(reaches(*stage, 2));
        CHECK((*admission)->next().has_value());  // it is not the one that is refused
        return contains(answer_to_one_that_enters(environment, {.number = 0}), "it has been in the group before");
    });
    start(1, [stage](const LauncherEnvironment& environment) {
        CHECK(reaches(*stage, 1));
        for (const std::uint32_t is_newcomer : {0U, 1U})
            CHECK(contains(answer_to_one_that_enters(environment, {.number = 0, .is_newcomer = is_newcomer}),
                           "is not that of rank 0: was COPPICE_RANK changed?"));
        ++*stage;
        return contains(answer_to_one_that_enters(environment, {.number = 3}), "rank 3 is outside of 0…2");
    });
    serve_until_all_ended();
    EXPECT_EQ(server_->counters().strangers, 4U);
}

TEST_F(exchange, refuses_a_process_that_does_not_descend_from_the_launcher) {
    begin(1);
    start(0, [](const LauncherEnvironment& environment) {
        int verdict[2];
        if (::pipe(verdict) != 0) return false;
        // The grandchild's parent ends, so that somebody else adopts it.
        const pid_t child = ::fork();
        if (child == 0) {
            const pid_t parent = ::getpid();
            if (::fork() != 0) ::_exit(0);
            while (::getppid() == parent)
                ::poll(nullptr, 0, 1);
            const auto refused = LauncherBootstrap::create(environment, generous());
            const char good = !refused && contains(refused.error().message, "was not started by this launcher") ? 1 : 0;
            [[maybe_unused]] const auto told = ::write(verdict[1], &good, 1);
            ::_exit(0);
        }
        ::waitpid(child, nullptr, 0);
        char good = 0;
        return ::read(verdict[0], &good, 1) == 1 && good == 1;
    });
    serve_until_all_ended();
    EXPECT_EQ(server_->counters().strangers, 1U);
}

TEST_F(exchange, refuses_another_user) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    begin(1);
    start(0, [](const LauncherEnvironment& environment) {
        // As another user the path itself is closed; so the descriptor is opened, and the file's mode widened, before.
        CHECK(::chmod(environment.socket_path.c_str(), 0666) == 0);
        const int handle = ::open(environment.socket_path.c_str(), O_PATH);
        CHECK(handle >= 0 && ::setgid(65534) == 0 && ::setuid(65534) == 0);
        ::prctl(PR_SET_DUMPABLE, 1);
        CHECK(raw_connection(environment.socket_path) < 0);
        const int socket = raw_connection("/proc/self/fd/" + std::to_string(handle));
        CHECK(socket >= 0);
        write_all(socket, handshake_frame(0, 1));
        return read_to_end(socket).empty();
    });
    serve_until_all_ended();
    EXPECT_EQ(server_->counters().strangers, 1U);
}

// The launcher's user may run other things as well: they can neither fill the server nor keep it from the ranks.
TEST_F(exchange, processes_that_are_no_ranks_hold_no_connection) {
    begin(1);
    int ready[2];
    int stay[2];  // as long as the test holds its end
    ASSERT_TRUE(::pipe(ready) == 0 && ::pipe(stay) == 0);
    const std::string path = server_->path();
    // The grandchild's parent ends, so that somebody else adopts it.
    const pid_t child = ::fork();
    if (child == 0) {
        const pid_t parent = ::getpid();
        if (::fork() != 0) ::_exit(0);
        while (::getppid() == parent)
            ::poll(nullptr, 0, 1);
        for (int i = 0; i < 400; ++i) {
            if (raw_connection(path) < 0) ::_exit(1);
        }
        ::close(stay[1]);
        [[maybe_unused]] const auto told = ::write(ready[1], "x", 1);
        char end = 0;
        [[maybe_unused]] const auto stayed = ::read(stay[0], &end, 1);
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    ::close(ready[1]);
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    serve_until([this] { return server_->counters().strangers == 400; });
    start(0, [](const LauncherEnvironment& environment) {
        const auto bootstrap = connect(environment);
        return bootstrap && round_holds(*bootstrap, 0);
    });
    serve_until_all_ended();
    ::close(stay[1]);
}

TEST_F(exchange, a_rank_that_opens_too_many_connections_harms_itself_alone) {
    begin(2);
    start(0, [this](const LauncherEnvironment& environment) {
        std::string answer;
        for (int i = 0; i < 300; ++i) {
            const int socket = raw_connection(environment.socket_path);
            if (i == 299) answer = read_to_end(socket);
        }
        ++*finished_;
        return contains(answer, "too many connections");
    });
    start(1, [this](const LauncherEnvironment& environment) {
        while (*finished_ == 0)
            ::poll(nullptr, 0, 1);
        const auto bootstrap = connect(environment);
        return bootstrap && round_holds(*bootstrap, 0, {0});
    });
    serve_until_all_ended();
}

TEST_F(exchange, drops_a_rank_that_asks_and_does_not_listen) {
    begin(2);
    start(1, [](const LauncherEnvironment&) { return ::pause() != 0; });
    start(0, [](const LauncherEnvironment& environment) {
        const int socket = raw_connection(environment.socket_path);
        write_all(socket, handshake_frame(0, 2));
        std::vector<std::byte> body;
        append(body, std::uint32_t{0});
        const auto query = make_frame(FrameKind::query, body);
        for (;;) {
            if (::send(socket, query.data(), query.size(), MSG_NOSIGNAL) < 0) return true;
        }
    });
    serve_until([this] { return pids_[0] < 0; });
    EXPECT_EQ(server_->counters().garbage, 1U);
}

TEST_F(exchange, a_rank_does_not_talk_to_another_users_server) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    begin(1);
    start(0, [](const LauncherEnvironment& environment) {
        int listening[2];
        if (::pipe(listening) != 0) return false;
        char directory[] = "/tmp/coppice-test-XXXXXX";
        CHECK(::mkdtemp(directory) != nullptr && ::chmod(directory, 0777) == 0);
        const std::string path = std::string(directory) + "/s";
        const pid_t impostor = ::fork();
        if (impostor == 0) {
            if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
            sockaddr_un address{};
            address.sun_family = AF_UNIX;
            path.copy(address.sun_path, sizeof address.sun_path - 1);
            if (::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) ::_exit(1);
            if (::listen(socket, 8) != 0) ::_exit(1);
            [[maybe_unused]] const auto told = ::write(listening[1], "x", 1);
            ::pause();
        }
        char byte = 0;
        CHECK(::read(listening[0], &byte, 1) == 1);
        LauncherEnvironment wrong = environment;
        wrong.socket_path = path;
        const auto refused = LauncherBootstrap::create(wrong, generous());
        ::kill(impostor, SIGKILL);
        ::waitpid(impostor, nullptr, 0);
        ::unlink(path.c_str());
        ::rmdir(directory);
        return !refused && contains(refused.error().message, "another user's process");
    });
    serve_until_all_ended();
}

TEST_F(exchange, counts_garbage_and_serves_the_others) {
    begin(3);
    const auto make_garbage = [](const LauncherEnvironment& environment, std::uint32_t rank) {
        std::vector<std::vector<std::byte>> pieces;
        pieces.emplace_back(100, std::byte{0xff});  // no frame at all
        std::vector<std::byte> long_frame;
        append(long_frame, FrameHeader{kFrameMagic, kProtocolVersion, FrameKind::handshake, UINT32_MAX});
        pieces.push_back(long_frame);                                                // a length beyond the bound
        pieces.push_back(make_frame(FrameKind::handshake, std::string_view("xx")));  // a greeting cut short
        pieces.push_back(make_frame(FrameKind::gathered, std::string_view{}));       // the server's own word
        pieces.push_back(make_frame(FrameKind::contribute, std::string_view{}));     // before any greeting
        pieces.push_back(make_frame(static_cast<FrameKind>(77), std::string_view{}));
        for (const auto& piece : pieces) {
            const int socket = raw_connection(environment.socket_path);
            CHECK(socket >= 0);
            write_all(socket, piece);
            read_to_end(socket);
            ::close(socket);
        }
        const int cut = raw_connection(environment.socket_path);  // half a header, then gone: no garbage, just nothing
        write_all(cut, std::vector<std::byte>(5, std::byte{1}));
        ::close(cut);
        const auto bootstrap = connect(environment);
        CHECK(bootstrap && round_holds(*bootstrap, 0));
        return rank < 3;
    };
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        start(rank, [=](const LauncherEnvironment& environment) { return make_garbage(environment, rank); });
    }
    serve_until_all_ended();
    EXPECT_EQ(server_->counters().garbage, 18U);
}

// What waits for a rank that reads nothing, up to the end of its connection.
std::vector<FrameHeader> headers_of(const std::string& text, std::string& last_body) {
    std::vector<FrameHeader> headers;
    std::span<const std::byte> rest = std::as_bytes(std::span(text));
    for (FrameHeader header; take(rest, header);) {
        if (header.magic != kFrameMagic || header.length > rest.size()) return {};
        headers.push_back(header);
        last_body.assign(reinterpret_cast<const char*>(rest.data()), header.length);
        rest = rest.subspan(header.length);
    }
    return headers;
}

// It is in the middle of a frame that is larger than what the kernel keeps of it.
TEST_F(exchange, tells_a_rank_why_it_is_refused_after_the_frame_that_it_reads) {
    constexpr std::uint32_t kRanks = 24;
    begin(kRanks);
    auto* const stage = finished_;
    for (std::uint32_t rank = 1; rank < kRanks; ++rank) {
        start(rank, [](const LauncherEnvironment& environment) {
            const auto bootstrap = connect(environment);
            return bootstrap && bootstrap->allgather(std::vector<std::byte>(kMaxBlob), generous());
        });
    }
    start(0, [stage](const LauncherEnvironment& environment) {
        const int socket = raw_connection(environment.socket_path);
        write_all(socket, handshake_frame(0, kRanks));
        std::vector<std::byte> contribution;
        append(contribution, std::uint32_t{0});
        contribution.resize(100);
        write_all(socket, make_frame(FrameKind::contribute, contribution));
        CHECK(reaches(*stage, 1));
        write_all(socket, make_frame(FrameKind::welcome, std::string_view{}));
        CHECK(reaches(*stage, 2));
        std::string reason;
        const std::vector<FrameHeader> headers = headers_of(read_to_end(socket), reason);
        CHECK(headers.size() == 3 && headers[0].kind == FrameKind::welcome && headers[1].kind == FrameKind::gathered);
        return contains(reason, "this frame is not allowed here");
    });
    serve_until([this] { return server_->gathered(); });
    *stage = 1;
    serve_until([this] { return server_->counters().garbage == 1; });
    *stage = 2;
    serve_until_all_ended();
}

// A member that is stopped, while process after process comes and goes.
TEST_F(exchange, keeps_so_much_of_what_is_said_of_newcomers_for_one_that_does_not_read) {
    constexpr std::uint32_t kRounds = 2 * Server::kMostUnsent / kMaxBlob;
    begin(2, 1);
    auto* const stage = finished_;
    start(0, [stage](const LauncherEnvironment& environment) {
        const int socket = raw_connection(environment.socket_path);
        std::vector<std::byte> body;
        append(body, EnterBody{.number = 0});
        write_all(socket, make_frame(FrameKind::enter, body));
        write_all(socket, Admission::card_frame(std::vector<std::byte>(10), std::vector<std::byte>(10)));
        ++*stage;
        CHECK(reaches(*stage, kRounds + 2));
        std::string reason;
        CHECK(!headers_of(read_to_end(socket), reason).empty());
        return contains(reason, "it does not read what is said of newcomers");
    });
    // It stands for all those that come late.
    const pid_t pid = start(1, [stage](const LauncherEnvironment& environment) {
        for (std::uint32_t round = 0; round < kRounds; ++round) {
            CHECK(reaches(*stage, static_cast<int>(round) + 2));
            const int socket = raw_connection(environment.socket_path);
            std::vector<std::byte> body;
            append(body, EnterBody{.number = 2, .is_newcomer = 1});
            write_all(socket, make_frame(FrameKind::enter, body));
            write_all(socket, Admission::card_frame({}, std::vector<std::byte>(kMaxBlob - 100)));
            write_all(socket,
                      make_frame(FrameKind::handshake, std::string_view{}));  // what was before it has been read
            ::close(socket);
        }
        return true;
    });
    serve_until([stage] { return *stage == 1; });
    for (std::uint32_t round = 0; round < kRounds; ++round) {
        server_->late_started(2, pid);
        ++*stage;
        serve_until([this, round] { return server_->counters().garbage == round + 1; });
    }
    ++*stage;
    serve_until_all_ended();
}

TEST_F(exchange, drops_a_rank_that_contributes_twice_or_to_another_round) {
    for (const std::uint32_t second_round : {0U, 1U, 7U}) {
        begin(2);
        start(1, [](const LauncherEnvironment&) { return ::pause() != 0; });
        start(0, [second_round](const LauncherEnvironment& environment) {
            const int socket = raw_connection(environment.socket_path);
            write_all(socket, handshake_frame(0, 2));
            for (const std::uint32_t round : {0U, second_round}) {
                std::vector<std::byte> body;
                append(body, round);
                write_all(socket, make_frame(FrameKind::contribute, body));
            }
            return contains(read_to_end(socket), "not allowed");
        });
        serve_until([this] { return pids_[0] < 0; });
        EXPECT_EQ(server_->counters().garbage, 1U);
        TearDown();
    }
}

TEST_F(exchange, leaves_no_file_behind_once_it_serves) {
    begin(1);
    struct stat status {};
    ASSERT_EQ(::stat(server_->path().c_str(), &status), 0);
    EXPECT_TRUE(S_ISSOCK(status.st_mode));
    EXPECT_EQ(status.st_nlink, 0U);
}

TEST_F(exchange, keeps_nothing_of_groups_that_are_over) {
    begin(2);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        start(rank, [](const LauncherEnvironment& environment) {
            // Far more than may be open at once.
            for (std::uint32_t turn = 0; turn < 2000; ++turn) {
                const auto bootstrap = connect(environment);
                CHECK(bootstrap && bootstrap->allgather({}, generous()));
            }
            return true;
        });
    }
    serve_until_all_ended();
    // The last farewells may still lie in the sockets.
    serve_until([this] { return server_->generations_kept() == 0; });
    EXPECT_EQ(server_->generations_kept(), 0U);
}

}  // namespace
}  // namespace coppice::bootstrap
