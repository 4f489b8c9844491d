#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/tcp_support.hpp"

namespace coppice::testing {

Result<std::unique_ptr<Transport>> TcpFactory::make(Seat self, std::uint32_t size) {
    auto wanted = tcp_options(self, size);
    wanted.incarnation = incarnation;
    auto made = transport::TcpTransport::create(wanted);
    if (!made) return tl::unexpected(made.error());
    return std::unique_ptr<Transport>(std::move(*made));
}

Bytes TcpFactory::of_other_version(Bytes address) {
    address[4] = std::byte{transport::tcp::kWireVersion + 1};  // behind the magic
    return address;
}

bool TcpFactory::send_garbage(Transport& transport) {
    const auto& victim = static_cast<transport::TcpTransport&>(transport);
    const std::uint64_t before = transport.counters().garbage;
    const RawPeer outsider(victim);
    outsider.send(pattern(3, 100));
    Recorder recorder;
    const std::uint64_t deadline = now_ns() + kDeadlineNs;
    while (transport.counters().garbage == before) {
        transport.poll(recorder);
        COPPICE_CHECK(now_ns() < deadline);
    }
    COPPICE_CHECK(recorder.failures.empty());
    return true;
}

RawPeer::RawPeer(const transport::TcpTransport& victim) {
    auto address = transport::tcp::to_socket(victim.endpoints().front());
    socket_ = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    COPPICE_CHECK(socket_ >= 0 && ::connect(socket_, address.get(), address.length) == 0);
}

RawPeer::~RawPeer() {
    if (socket_ >= 0) ::close(socket_);
}

void RawPeer::send(std::span<const std::byte> bytes) const {
    COPPICE_CHECK(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}

Bytes RawPeer::receive(std::size_t most) const {
    Bytes bytes(most);
    const ssize_t got = ::recv(socket_, bytes.data(), most, MSG_DONTWAIT);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
}

bool RawPeer::ended() const {
    pollfd one{.fd = socket_, .events = POLLRDHUP, .revents = 0};  // also behind bytes that nobody has read
    return ::poll(&one, 1, 0) == 1;
}

}  // namespace coppice::testing
