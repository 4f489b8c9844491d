// The verbs transport under the conformance suite. Wants RDMA devices: soft-RoCE in a guest will do.
#include "transport/verbs_support.hpp"

namespace coppice::testing {

namespace {
VerbsFactory factory;
}

INSTANTIATE_TEST_SUITE_P(verbs, Conformance, ::testing::Values(&factory), factory_name);
INSTANTIATE_TEST_SUITE_P(verbs, OneSidedReads, ::testing::Values(&factory), factory_name);

}  // namespace coppice::testing
