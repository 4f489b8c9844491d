// How the ranks of fork_test.cpp are connected in the guest.
#include "integration/fork.hpp"

namespace coppice::testing {
namespace {

using ::testing::Combine;
using ::testing::Values;

constexpr Way kVerbs{"verbs", 4, 2, "COPPICE_TRANSPORT=shm,verbs"};
constexpr Way kUcx{"ucx", 4, 2, "COPPICE_TRANSPORT=shm,ucx COPPICE_UCX_TLS=rc,ud"};

INSTANTIATE_TEST_SUITE_P(OnDevices, Fork,
                         Combine(Values(kVerbs, kUcx), Values("exit", "_exit", "return", "runs-on", "spawn")), name_of);

}  // namespace
}  // namespace coppice::testing
