// UCX over reliable connections of RDMA devices, under the conformance suite: neighbouring ranks on different devices.
#include "devices.hpp"
#include "transport/ucx_support.hpp"

namespace coppice::testing {

namespace {

class UcxRcFactory final : public UcxFactory {
  public:
    const char* name() const override { return "ucx_rc"; }
    bool slow_to_start() const override { return true; }

  protected:
    transport::UcxOptions options(Rank self, std::uint32_t size) const override {
        const auto names = devices();
        auto options = ucx_options(self, size);
        options.loopback_only = false;
        // Many connections take their time here; who dies before first contact is among few.
        options.connect_patience = Nanoseconds{size > 8 ? 300'000'000'000U : 20'000'000'000U};
        options.tls = kTransports;
        options.net_devices = names[self.value % names.size()] + ":1";
        return options;
    }
    transport::ucx::WorkerOptions stranger() const override {
        return {.net_devices = devices()[0] + ":1", .tls = kTransports};
    }

  private:
    static constexpr const char* kTransports = "rc_verbs,ud_verbs";
};

UcxRcFactory factory;

}  // namespace

INSTANTIATE_TEST_SUITE_P(ucx_rc, Conformance, ::testing::Values(&factory), factory_name);

}  // namespace coppice::testing
