// What the tests of the TCP transport share.
#pragma once

#include <cstring>
#include <functional>
#include <memory>

#include "support/processes.hpp"
#include "transport/conformance.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace coppice::testing {

inline constexpr std::uint64_t kTcpToken = 0x5EED5EED5EED5EEDULL;

inline transport::TcpOptions tcp_options(Rank self, std::uint32_t size) {
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

class TcpFactory : public Factory {
  public:
    const char* name() const override { return "tcp"; }
    Result<std::unique_ptr<Transport>> make(Rank self, std::uint32_t size) override;
    Bytes of_other_version(Bytes address) override;
    bool send_garbage(Transport& transport) override;
};

// A connection of somebody who knows the address of a rank, and speaks as the test wants. Blocks, for a while at most.
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
