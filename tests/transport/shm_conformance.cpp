#include "transport/shm_factory.hpp"

namespace coppice::testing {

namespace {
ShmFactory factory;
}

INSTANTIATE_TEST_SUITE_P(shm, Conformance, ::testing::Values(&factory), factory_name);

}  // namespace coppice::testing
