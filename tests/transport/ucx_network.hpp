// UCX over TCP for tests on hosts of a TestNetwork.
#pragma once

#include <sched.h>
#include <sys/mount.h>

#include <cstdlib>
#include <string>

#include "transport/tcp_network.hpp"
#include "transport/ucx_support.hpp"

namespace coppice::testing {

// Each rank is a host, or they take turns.
class UcxHostFactory final : public UcxFactory {
  public:
    Result<std::unique_ptr<Transport>> make(Seat self, std::uint32_t size) override {
        const std::uint32_t host = self.value % hosts;
        network->join(host);
        // UCX looks for devices in /sys, which shows those of the namespace in which it was mounted.
        COPPICE_CHECK(::unshare(CLONE_NEWNS) == 0 && ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                      ::mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0);
        if (!buffer.empty()) {
            ::setenv("UCX_TCP_SNDBUF", buffer.c_str(), 1);
            ::setenv("UCX_TCP_RCVBUF", buffer.c_str(), 1);
        }
        if (!questions.empty()) ::setenv("UCX_TCP_KEEPCNT", questions.c_str(), 1);
        if (!idle.empty()) {
            ::setenv("UCX_TCP_KEEPIDLE", idle.c_str(), 1);
            ::setenv("UCX_TCP_KEEPINTVL", idle.c_str(), 1);
        }
        auto options = ucx_options(self, size);
        options.loopback_only = false;
        options.tls = "tcp";
        options.net_devices = "veth" + std::to_string(host + 1);
        auto made = transport::UcxTransport::create(options);
        if (!made) return tl::unexpected(made.error());
        return std::unique_ptr<Transport>(std::move(*made));
    }
    const TestNetwork* network = nullptr;
    std::uint32_t hosts = kMaxRanks;
    std::string buffer;  // of the kernel, for each direction; empty: as it sees fit
    std::string
        questions;     // that the kernel asks on an idle connection before it ends it; empty: the library's own setting
    std::string idle;  // the time before each of them; likewise
};

}  // namespace coppice::testing
