// The TCP transport under the conformance suite.
#include "transport/tcp_support.hpp"

namespace coppice::testing {

namespace {
TcpFactory factory;
}

INSTANTIATE_TEST_SUITE_P(tcp, Conformance, ::testing::Values(&factory), factory_name);

}  // namespace coppice::testing
