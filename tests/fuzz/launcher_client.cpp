// A rank's side of the launcher's exchange: whatever answers it.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "base/clock.hpp"
#include "bootstrap/launcher.hpp"
#include "fuzz.hpp"

using namespace coppice;
using namespace coppice::bootstrap;

namespace {

// A socket at which the input answers every caller.
struct Launcher {
    Launcher() {
        char name[] = "/tmp/coppice-fuzz-XXXXXX";
        FUZZ_CHECK(::mkdtemp(name) != nullptr);
        path = std::string(name) + "/s";
        listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        FUZZ_CHECK(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
        FUZZ_CHECK(::listen(listener, 8) == 0);
    }
    ~Launcher() {
        ::unlink(path.c_str());
        ::rmdir(path.substr(0, path.size() - 2).c_str());
    }
    std::string path;
    int listener = -1;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Launcher launcher;
    fuzz::Input input(data, size);
    const bool greets = (input.number<std::uint8_t>() & 1U) != 0;
    std::vector<std::byte> answers;
    if (greets) {
        std::vector<std::byte> body;
        append(body, WelcomeBody{});
        answers = make_frame(FrameKind::welcome, body);
    }
    append_bytes(answers, input.take(64UL * 1024));  // as much as the socket holds
    std::thread answering([&] {
        const int socket = ::accept4(launcher.listener, nullptr, nullptr, SOCK_CLOEXEC);
        static_cast<void>(::send(socket, answers.data(), answers.size(), MSG_NOSIGNAL));
        ::shutdown(socket, SHUT_WR);
        std::byte heard[4096];
        while (::recv(socket, heard, sizeof heard, 0) > 0) {
        }
        ::close(socket);
    });
    constexpr std::uint32_t kRanks = 3;
    const std::uint64_t deadline = now_ns() + 60'000'000'000;
    {
        auto made = LauncherBootstrap::create({Rank(1), kRanks, launcher.path}, deadline);
        const std::byte mine[] = {std::byte{1}, std::byte{2}};
        for (int round = 0; made && round < 4; ++round) {
            const auto all = (*made)->allgather(mine, deadline);
            if (!all) break;
            FUZZ_CHECK(all->size() == kRanks);
            for (const auto& entry : *all)
                FUZZ_CHECK(entry.size() <= kMaxBlob);
        }
    }
    answering.join();
    return 0;
}
