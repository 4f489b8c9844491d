#include <array>

#include "base/host.hpp"
#include "transport/registry.hpp"
#include "transport/ucx/library.hpp"
#include "transport/ucx/ucx_transport.hpp"

namespace coppice::transport::ucx {
namespace {

constexpr std::array kSettings{
    SettingInfo{"COPPICE_UCX_NET_DEVICES", "", "network devices for UCX, as UCX_NET_DEVICES; empty: UCX decides"},
    SettingInfo{"COPPICE_UCX_TLS", "", "transports for UCX, as UCX_TLS; empty: UCX decides"},
    SettingInfo{
        "COPPICE_UCX_PUT", "off",
        "on: one-sided writes and reads by UCX, over RC alone, for networks that can be trusted; alike for all ranks"},
    SettingInfo{"COPPICE_UCX_ADMIT", "job",
                "job: UCX's TCP listener hears the job's hosts alone; all: anybody, where addresses are translated"},
};

struct Tuning {
    std::string net_devices;
    std::string tls;
    bool put = false;
    bool admits_job_only = true;
};

class UcxMaker final : public Maker {
  public:
    explicit UcxMaker(Tuning tuning) : tuning_(std::move(tuning)) {}

    Result<Made> make(const GroupFacts& group) const override {
        auto made = UcxTransport::create({.self = group.self,
                                          .incarnation = group.incarnation,
                                          .group_size = group.group_size,
                                          .group_token = group.group_token,
                                          .net_devices = tuning_.net_devices,
                                          .tls = tuning_.tls,
                                          .loopback_only = !group.has_far_ranks,
                                          .put = tuning_.put,
                                          .admitted = group.admitted,
                                          .host = group.admitted ? std::nullopt : std::optional(addresses())});
        if (!made) return tl::unexpected(std::move(made.error()));
        return Made{std::move(*made)};
    }

    HostAddresses addresses() const override {
        return tuning_.admits_job_only ? HostAddresses::own() : HostAddresses{.everybody = true, .list = {}};
    }

  private:
    Tuning tuning_;
};

Result<std::shared_ptr<const Maker>> read(const SettingTexts& texts) {
    Tuning tuning{.net_devices = texts.text("COPPICE_UCX_NET_DEVICES"), .tls = texts.text("COPPICE_UCX_TLS")};
    const auto put = texts.choice("COPPICE_UCX_PUT", "on", "off");
    if (!put) return tl::unexpected(put.error());
    tuning.put = *put;
    const auto admit = texts.choice("COPPICE_UCX_ADMIT", "job", "all");
    if (!admit) return tl::unexpected(admit.error());
    tuning.admits_job_only = *admit;
    return std::make_shared<const UcxMaker>(std::move(tuning));
}

// Hosts with RDMA devices where UCX is not installed use what hosts without them use.
bool can_be_used_here() {
    return has_rdma_devices() && load().has_value();
}

}  // namespace

extern const Registration kRegistration;
constinit const Registration kRegistration{.name = "ucx",
                                           .by_default_for = "between hosts that both have RDMA devices",
                                           .probe = can_be_used_here,
                                           .settings = kSettings,
                                           .read = read};

}  // namespace coppice::transport::ucx

namespace coppice::transport {

std::vector<Fact> UcxTransport::facts() const {
    return {{"tcp_listeners", std::int64_t{listeners()}}, {"open_to_strangers", open_to_strangers()}};
}

}  // namespace coppice::transport
