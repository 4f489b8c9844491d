// The exchange among real processes, served by the test itself in the place of coppice-run.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "bootstrap/choose.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/server.hpp"

namespace coppice::bootstrap {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
std::uint64_t generous() {
    return now_ns() + 60 * kSecond;
}

using Body = std::function<bool(const LauncherEnvironment&)>;

// Says why a rank's check failed, since its exit code cannot.
bool check(bool condition, const char* text) {
    if (!condition) fprintf(stderr, "process %d: %s does not hold\n", getpid(), text);
    return condition;
}
#define CHECK(condition) \
    if (!check((condition), #condition)) return false

bool contains(const std::string& text, const char* part) {
    if (text.find(part) != std::string::npos) return true;
    fprintf(stderr, "process %d: '%s' lacks '%s'\n", getpid(), text.c_str(), part);
    return false;
}

class exchange : public ::testing::Test {
  protected:
    void begin(std::uint32_t size) {
        auto opened = Server::open(size);
        ASSERT_TRUE(opened) << opened.error().message;
        server_ = std::move(*opened);
        pids_.assign(size, -1);
        void* memory = ::mmap(nullptr, sizeof *finished_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        finished_ = new (memory) std::atomic<int>(0);
    }

    // Starts a process as `rank`; it succeeds when `body` returns true.
    pid_t start(std::uint32_t rank, const Body& body) {
        const LauncherEnvironment environment{Rank(rank), static_cast<std::uint32_t>(pids_.size()), server_->path()};
        int gate[2];
        EXPECT_EQ(::pipe(gate), 0);
        const pid_t parent = ::getpid();
        const pid_t pid = ::fork();
        if (pid == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (::getppid() != parent) ::_exit(1);
            ::close(gate[1]);
            char byte = 0;
            [[maybe_unused]] const auto got = ::read(gate[0], &byte, 1);
            ::_exit(body(environment) ? 0 : 1);
        }
        pids_[rank] = pid;
        server_->rank_started(rank, pid);  // before it can call
        ::close(gate[0]);
        ::close(gate[1]);
        return pid;
    }

    // Serves until all have ended; each must have succeeded, except those in `may_fail`.
    void serve_until_all_ended(const std::vector<std::uint32_t>& may_fail = {}) {
        while (serve_once(may_fail)) {
        }
    }

    void serve_until(const std::function<bool()>& condition) {
        const std::uint64_t until = generous();
        while (!condition()) {
            ASSERT_LT(now_ns(), until);
            serve_once({});
        }
    }

    bool serve_once(const std::vector<std::uint32_t>& may_fail) {
        pollfd entry{server_->poll_descriptor(), POLLIN, 0};
        ::poll(&entry, 1, 1);
        server_->serve();
        bool running = false;
        for (std::uint32_t rank = 0; rank < pids_.size(); ++rank) {
            if (pids_[rank] < 0) continue;
            int status = 0;
            if (::waitpid(pids_[rank], &status, WNOHANG) == pids_[rank]) {
                const bool allowed = std::find(may_fail.begin(), may_fail.end(), rank) != may_fail.end();
                EXPECT_TRUE(allowed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << "rank " << rank;
                pids_[rank] = -1;
                server_->rank_ended(rank);
            } else {
                running = true;
            }
        }
        return running;
    }

    void TearDown() override {
        for (const pid_t pid : pids_) {
            if (pid < 0) continue;
            ::kill(pid, SIGKILL);
            ::waitpid(pid, nullptr, 0);
        }
        pids_.clear();
        if (finished_ != nullptr) ::munmap(finished_, sizeof *finished_);
        finished_ = nullptr;
    }

    std::unique_ptr<Server> server_;
    std::vector<pid_t> pids_;
    // Shared with the ranks.
    std::atomic<int>* finished_ = nullptr;
};

std::vector<std::byte> blob_of(std::uint32_t rank, std::uint32_t round) {
    return std::vector<std::byte>(1 + (rank * 131 + round * 17) % 900,
                                  std::byte{static_cast<unsigned char>(rank + round)});
}

// One round in which the ranks of `dead` have nothing.
bool round_holds(LauncherBootstrap& bootstrap, std::uint32_t round, const std::vector<std::uint32_t>& dead = {}) {
    const auto all = bootstrap.allgather(blob_of(bootstrap.rank().value, round), generous());
    if (!all) fprintf(stderr, "%s\n", all.error().message.c_str());
    CHECK(all.has_value());
    CHECK(all->size() == bootstrap.size());
    for (std::uint32_t rank = 0; rank < bootstrap.size(); ++rank) {
        const bool is_dead = std::find(dead.begin(), dead.end(), rank) != dead.end();
        CHECK((*all)[rank] == (is_dead ? std::vector<std::byte>{} : blob_of(rank, round)));
    }
    return true;
}

std::unique_ptr<LauncherBootstrap> connect(const LauncherEnvironment& environment) {
    auto made = LauncherBootstrap::create(environment, generous());
    if (!made) fprintf(stderr, "%s\n", made.error().message.c_str());
    return made ? std::move(*made) : nullptr;
}

// A socket to the server without any of our protocol.
int raw_connection(const std::string& path) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return -1;
    return socket;
}

// Everything that comes until the other end closes.
std::string read_to_end(int socket) {
    std::string text;
    char chunk[4096];
    for (ssize_t got = 0; (got = ::read(socket, chunk, sizeof chunk)) > 0;)
        text.append(chunk, static_cast<std::size_t>(got));
    return text;
}

void write_all(int socket, const std::vector<std::byte>& bytes) {
    [[maybe_unused]] const auto sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

std::vector<std::byte> handshake_frame(std::uint32_t rank, std::uint32_t size) {
    std::vector<std::byte> body;
    append(body, HandshakeBody{rank, size});
    return make_frame(FrameKind::handshake, body);
}

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
        std::array<char, 16> welcome{};
        CHECK(::read(socket, welcome.data(), welcome.size()) == 16);
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

TEST_F(exchange, refuses_another_version_by_name) {
    begin(1);
    start(0, [](const LauncherEnvironment& environment) {
        const int socket = raw_connection(environment.socket_path);
        auto frame = handshake_frame(0, 1);
        const std::uint16_t version = 99;
        std::memcpy(frame.data() + 4, &version, sizeof version);
        write_all(socket, frame);
        const std::string answer = read_to_end(socket);
        return contains(answer, "version 99") && contains(answer, "version 1");
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
