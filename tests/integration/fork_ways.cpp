// How the ranks of fork_test.cpp are connected on this machine.
#include "integration/fork.hpp"

namespace coppice::testing {
namespace {

using ::testing::Combine;
using ::testing::Values;

constexpr Way kOneHost{"one_host", 4, 1, ""};
constexpr Way kUcx{"ucx", 4, 1, "COPPICE_TRANSPORT=ucx"};
constexpr Way kThread{"thread", 3, 1, "COPPICE_PROGRESS_THREAD=1"};
constexpr Way kHosts{"hosts", 3, 3, ""};
constexpr Way kTwoHosts{"two_hosts", 4, 2, ""};
constexpr Way kTcp{"tcp", 3, 1, "COPPICE_TRANSPORT=tcp"};
constexpr Way kOpen{"open", 3, 1, "COPPICE_JOIN=any"};
constexpr Way kOpenHosts{"open_hosts", 3, 3, "COPPICE_JOIN=any"};
constexpr Way kUcxHosts{"ucx_hosts", 3, 3, "COPPICE_TRANSPORT=ucx"};

INSTANTIATE_TEST_SUITE_P(Ends, Fork,
                         Combine(Values(kOneHost, kUcx, kThread, kTcp, kHosts, kTwoHosts, kOpen, kOpenHosts, kUcxHosts),
                                 Values("exit", "_exit", "return", "runs-on")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(OverUcx, Fork, Combine(Values(kUcxHosts), Values("spawn", "orphan", "daemon", "left")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Executes, Fork, Combine(Values(kOneHost, kHosts), Values("spawn", "vfork", "system")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Outlives, Fork,
                         Combine(Values(kOneHost, kHosts, kTwoHosts, kOpenHosts), Values("orphan", "daemon", "left")),
                         name_of);

}  // namespace
}  // namespace coppice::testing
