// UCX with one-sided writes and reads, under the conformance suite.
#include "ucx_rc.hpp"

namespace coppice::testing {

namespace {

class UcxPutFactory final : public UcxRcFactory {
  public:
    const char* name() const override { return "ucx_put"; }

  protected:
    transport::UcxOptions options(Seat self, std::uint32_t size) const override {
        return ucx_rc_options(self, size, true);
    }
    transport::ucx::WorkerOptions stranger() const override {
        auto options = UcxRcFactory::stranger();
        options.put = true;
        return options;
    }
};

UcxPutFactory factory;

}  // namespace

INSTANTIATE_TEST_SUITE_P(ucx_put, Conformance, ::testing::Values(&factory), factory_name);
INSTANTIATE_TEST_SUITE_P(ucx_put, OneSidedReads, ::testing::Values(&factory), factory_name);

}  // namespace coppice::testing
