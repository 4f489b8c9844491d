// A launcher's server and its ranks, which are real processes: the test itself stands in the place of coppice-run.
#pragma once

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

inline constexpr std::uint64_t kSecond = 1'000'000'000;
inline std::uint64_t generous() {
    return now_ns() + 60 * kSecond;
}

// Another process counts it up.
inline bool reaches(const std::atomic<int>& stage, int value) {
    for (const std::uint64_t until = generous(); stage < value; ::poll(nullptr, 0, 1))
        if (now_ns() > until) return false;
    return true;
}

using Body = std::function<bool(const LauncherEnvironment&)>;

// Says why a rank's check failed, since its exit code cannot.
inline bool check(bool condition, const char* text) {
    if (!condition) fprintf(stderr, "process %d: %s does not hold\n", getpid(), text);
    return condition;
}
#define CHECK(condition) \
    if (!check((condition), #condition)) return false

inline bool contains(const std::string& text, const char* part) {
    if (text.find(part) != std::string::npos) return true;
    fprintf(stderr, "process %d: '%s' lacks '%s'\n", getpid(), text.c_str(), part);
    return false;
}

class exchange : public ::testing::Test {
  protected:
    void begin(std::uint32_t size, std::optional<std::uint32_t> late = std::nullopt) {
        auto opened = Server::open(size, late);
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

inline std::vector<std::byte> blob_of(std::uint32_t rank, std::uint32_t round) {
    return std::vector<std::byte>(1 + (rank * 131 + round * 17) % 900,
                                  std::byte{static_cast<unsigned char>(rank + round)});
}

// One round in which the ranks of `dead` have nothing.
inline bool round_holds(LauncherBootstrap& bootstrap, std::uint32_t round,
                        const std::vector<std::uint32_t>& dead = {}) {
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

inline std::unique_ptr<LauncherBootstrap> connect(const LauncherEnvironment& environment) {
    auto made = LauncherBootstrap::create(environment, generous());
    if (!made) fprintf(stderr, "%s\n", made.error().message.c_str());
    return made ? std::move(*made) : nullptr;
}

// A socket to the server without any of our protocol.
inline int raw_connection(const std::string& path) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return -1;
    return socket;
}

// Everything that comes until the other end closes.
inline std::string read_to_end(int socket) {
    std::string text;
    char chunk[4096];
    for (ssize_t got = 0; (got = ::read(socket, chunk, sizeof chunk)) > 0;)
        text.append(chunk, static_cast<std::size_t>(got));
    return text;
}

inline void write_all(int socket, const std::vector<std::byte>& bytes) {
    [[maybe_unused]] const auto sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

inline std::vector<std::byte> handshake_frame(std::uint32_t rank, std::uint32_t size) {
    std::vector<std::byte> body;
    append(body, HandshakeBody{rank, size});
    return make_frame(FrameKind::handshake, body);
}

}  // namespace coppice::bootstrap
