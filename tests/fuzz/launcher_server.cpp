// The launcher's server: what ranks, or what runs in their place, say to it on several connections, a piece at a time.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>

#include "bootstrap/server.hpp"
#include "fuzz.hpp"

using namespace coppice;
using namespace coppice::bootstrap;

namespace {

int connected_to(const std::string& path) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    FUZZ_CHECK(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    return socket;
}

}  // namespace

// Commands: which connection (4 of them), what to do (say a piece, say a whole frame of a kind, shake hands, hear, hang
// up).
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::uint32_t kRanks = 3;
    fuzz::Input input(data, size);
    constexpr std::uint32_t kLate = 2;
    auto server = Server::open(kRanks, kLate);
    FUZZ_CHECK(server.has_value());
    std::array<int, 4> sockets{-1, -1, -1, -1};
    const auto say = [](int socket, std::span<const std::byte> bytes) {
        static_cast<void>(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    };
    while (!input.empty()) {
        const auto command = input.number<std::uint8_t>();
        int& socket = sockets[command & 3U];
        if (socket < 0) socket = connected_to((*server)->path());
        switch (command >> 2 & 7U) {
            case 0:
                say(socket, input.piece());
                break;
            case 1: {
                const auto kind = static_cast<FrameKind>(input.number<std::uint8_t>());
                say(socket, make_frame(kind, input.piece()));
                break;
            }
            case 2: {
                std::vector<std::byte> body;
                append(body, HandshakeBody{input.number<std::uint8_t>(), kRanks});
                say(socket, make_frame(FrameKind::handshake, body));
                break;
            }
            case 3: {
                std::array<std::byte, 4096> heard{};
                while (::recv(socket, heard.data(), heard.size(), MSG_DONTWAIT) > 0) {
                }
                break;
            }
            case 4:
                ::close(socket);
                socket = -1;
                break;
            case 5: {
                const auto number = input.number<std::uint8_t>();
                if (number < 128) {
                    (*server)->rank_ended(number % (kRanks + kLate));
                } else {
                    // This process is the caller of all connections, so it is the process of that number, too.
                    (*server)->rank_ended(number % (kRanks + kLate));
                    (*server)->late_started(number % (kRanks + kLate), ::getpid());
                }
                break;
            }
            case 6: {
                std::vector<std::byte> body;
                const std::uint32_t number = input.number<std::uint8_t>();
                append(body, EnterBody{number & 7U, number >> 7U});
                say(socket, make_frame(FrameKind::enter, body));
                break;
            }
            default: {
                std::vector<std::byte> body;
                append(body, std::uint32_t{input.number<std::uint8_t>()});
                const auto blob = input.take(input.number<std::uint8_t>());
                append_bytes(body, blob);
                say(socket, make_frame((command & 4U) != 0 ? FrameKind::contribute : FrameKind::query, body));
            }
        }
        (*server)->serve();
    }
    for (const int socket : sockets)
        if (socket >= 0) ::close(socket);
    (*server)->serve();
    return 0;
}
