// The UCX transport under the conformance suite.
#include "transport/ucx_support.hpp"

namespace coppice::testing {

namespace {
UcxFactory factory;
}

INSTANTIATE_TEST_SUITE_P(ucx, Conformance, ::testing::Values(&factory), factory_name);

}  // namespace coppice::testing
