// UCX over reliable connections of RDMA devices: neighbouring ranks on different devices.
#pragma once

#include <string>

#include "devices.hpp"
#include "transport/ucx_support.hpp"

namespace coppice::testing {

inline transport::UcxOptions ucx_rc_options(Seat self, std::uint32_t size, bool put) {
    const auto names = devices();
    auto options = ucx_options(self, size);
    options.loopback_only = false;
    // Many connections take their time here; a rank that dies before first contact is among few.
    options.connect_patience = Nanoseconds{size > 8 ? 300'000'000'000U : 20'000'000'000U};
    options.tls = "rc_verbs,ud_verbs";
    options.net_devices = names[self.value % names.size()] + ":1";
    options.put = put;
    return options;
}

class UcxRcFactory : public UcxFactory {
  public:
    const char* name() const override { return "ucx_rc"; }
    bool slow_to_start() const override { return true; }
    std::uint64_t replacements() const override { return 3; }

  protected:
    transport::UcxOptions options(Seat self, std::uint32_t size) const override {
        return ucx_rc_options(self, size, false);
    }
    transport::ucx::WorkerOptions stranger() const override {
        const auto options = ucx_rc_options(Seat(0), 2, false);
        return {.net_devices = options.net_devices, .tls = options.tls};
    }
};

}  // namespace coppice::testing
