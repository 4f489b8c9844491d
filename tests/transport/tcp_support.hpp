// What the tests of the TCP transport share.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "support/processes.hpp"
#include "transport/conformance.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace coppice::testing {

inline constexpr std::uint64_t kTcpToken = 0x5EED5EED5EED5EEDULL;

inline transport::TcpOptions tcp_options(Seat self, std::uint32_t size) {
    transport::TcpOptions options;
    options.self = self;
    options.group_size = size;
    options.group_token = kTcpToken;
    options.secret.bytes.fill(0x5a);
    options.loopback_only = true;
    return options;
}

// Throws CheckFailed with the error's sentence if there is none.
inline std::unique_ptr<transport::TcpTransport> make_tcp(const transport::TcpOptions& options) {
    auto made = transport::TcpTransport::create(options);
    if (!made) throw CheckFailed(made.error().message);
    return std::move(*made);
}

// Several ranks of one group in this process: for what needs no death.
struct TcpGroup {
    explicit TcpGroup(std::uint32_t size, const std::function<void(transport::TcpOptions&)>& change = nullptr)
        : recorders(size) {
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            auto options = tcp_options(Seat(rank), size);
            if (change) change(options);
            wires.push_back(make_tcp(options));
        }
        for (auto& wire : wires)
            for (std::uint32_t rank = 0; rank < size; ++rank)
                COPPICE_CHECK(wire->add_peer(Seat(rank), wires[rank]->address()).has_value());
    }
    void poll() {
        for (std::size_t rank = 0; rank < wires.size(); ++rank)
            if (wires[rank]) wires[rank]->poll(recorders[rank]);
    }
    void poll_until(const std::function<bool()>& condition) {
        const std::uint64_t deadline = now_ns() + kDeadlineNs;
        while (!condition()) {
            if (now_ns() > deadline) throw CheckFailed("the deadline passed");
            poll();
        }
    }
    transport::SendStatus try_send(std::uint32_t from, std::uint32_t to, std::uint64_t number, const Bytes& payload) {
        std::uint32_t in_flight = 0;
        const transport::SendStatus status = wires[from]->send(Seat(to), header_of(number), payload, &in_flight);
        COPPICE_CHECK(in_flight == 0);
        return status;
    }
    void send(std::uint32_t from, std::uint32_t to, std::uint64_t number, const Bytes& payload) {
        poll_until([&] { return try_send(from, to, number, payload) == transport::SendStatus::sent; });
    }
    bool nobody_failed() const {
        return std::ranges::all_of(recorders, [](const Recorder& one) { return one.failures.empty(); });
    }
    std::vector<std::unique_ptr<transport::TcpTransport>> wires;
    std::vector<Recorder> recorders;
};

class TcpFactory : public Factory {
  public:
    const char* name() const override { return "tcp"; }
    bool tells_the_forgotten() const override { return true; }
    Result<std::unique_ptr<Transport>> make(Seat self, std::uint32_t size) override;
    Bytes of_other_version(Bytes address) override;
    bool send_garbage(Transport& transport) override;
};

// A connection of a stranger that knows the address of a rank, and speaks as the test wants. Blocks, for a while at
// most.
class RawPeer {
  public:
    explicit RawPeer(const transport::TcpTransport& victim);
    RawPeer(const RawPeer&) = delete;
    RawPeer& operator=(const RawPeer&) = delete;
    ~RawPeer();

    void send(std::span<const std::byte> bytes) const;
    // Without waiting: what is there, up to `most` bytes.
    Bytes receive(std::size_t most) const;
    // The victim has ended it.
    bool ended() const;
    int socket() const { return socket_; }

  private:
    int socket_ = -1;
};

}  // namespace coppice::testing
