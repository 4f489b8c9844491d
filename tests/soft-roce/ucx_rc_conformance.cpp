// UCX over reliable connections, under the conformance suite.
#include "ucx_rc.hpp"

namespace coppice::testing {

namespace {
UcxRcFactory factory;
}

INSTANTIATE_TEST_SUITE_P(ucx_rc, Conformance, ::testing::Values(&factory), factory_name);

}  // namespace coppice::testing
