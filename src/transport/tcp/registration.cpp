#include <array>

#include "transport/registry.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace coppice::transport::tcp {
namespace {

constexpr std::array kSettings{
    SettingInfo{"COPPICE_TCP_INTERFACE", "",
                "network interfaces for tcp, names separated by commas; empty: all that are up, but loopback"},
    SettingInfo{"COPPICE_TCP_PORT", "0", "for tcp rank r listens at this port plus r, for firewalls; 0: anywhere"},
};

class TcpMaker final : public Maker {
  public:
    TcpMaker(std::string interfaces, std::uint16_t port) : interfaces_(std::move(interfaces)), port_(port) {}

    Result<Made> make(const GroupFacts& group) const override {
        auto made = TcpTransport::create({.self = group.self,
                                          .incarnation = group.incarnation,
                                          .group_size = group.group_size,
                                          .group_token = group.group_token,
                                          .secret = group.secret,
                                          .interfaces = interfaces_,
                                          .port = port_,
                                          .loopback_only = !group.has_far_ranks});
        if (!made) return tl::unexpected(std::move(made.error()));
        return Made{std::move(*made)};
    }

  private:
    std::string interfaces_;
    std::uint16_t port_;
};

Result<std::shared_ptr<const Maker>> read(const SettingTexts& texts) {
    const auto port = texts.number("COPPICE_TCP_PORT", 0, 65535);
    if (!port) return tl::unexpected(port.error());
    return std::make_shared<const TcpMaker>(texts.text("COPPICE_TCP_INTERFACE"), static_cast<std::uint16_t>(*port));
}

}  // namespace

extern const Registration kRegistration;
constinit const Registration kRegistration{.name = "tcp",
                                           .by_default_for = "between other hosts",
                                           .probe = [] { return true; },
                                           .settings = kSettings,
                                           .read = read};

}  // namespace coppice::transport::tcp

namespace coppice::transport {

std::vector<Fact> TcpTransport::facts() const {
    std::vector<std::string> addresses;
    for (const tcp::Endpoint& endpoint : endpoints_)
        addresses.push_back(tcp::to_string(endpoint, false));
    return {{"addresses", std::move(addresses)}};
}

}  // namespace coppice::transport
