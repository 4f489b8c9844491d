// Programs that start other processes while they have groups: nothing that these do is taken for the rank's doing.
#include <gmock/gmock.h>
#include <stdio.h>
#include <sys/wait.h>

#include <string>
#include <tuple>

#include "support/processes.hpp"

namespace coppice::testing {
namespace {

using ::testing::Combine;
using ::testing::Values;

struct Outcome {
    int code = -1;
    std::string output;
};

Outcome run(const std::string& command) {
    Outcome result;
    FILE* const stream = popen((command + " 2>&1").c_str(), "r");
    char line[512];
    while (fgets(line, sizeof line, stream) != nullptr)
        result.output += line;
    const int status = pclose(stream);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return result;
}

int verified(const std::string& output) {
    int count = 0;
    for (std::size_t at = 0; (at = output.find("verified", at)) != std::string::npos; ++at)
        ++count;
    return count;
}

struct Way {
    const char* name;
    int ranks;
    int hosts;  // network namespaces
    const char* environment;
};
void PrintTo(const Way& way, std::ostream* out) {
    *out << way.name;
}

class Fork : public ::testing::TestWithParam<std::tuple<Way, const char*>> {};

TEST_P(Fork, TheOthersGoOn) {
    const auto& [way, how] = GetParam();
    const Outcome result = run(std::string(way.environment) + " " + COPPICE_RUN + " -n " + std::to_string(way.ranks) +
                               " --hosts " + std::to_string(way.hosts) + " --timeout 60 " + FORK_RANK + " " + how);
    const std::string words = how;
    const bool one_less = words == "orphan" || words == "daemon" || words == "left";
    EXPECT_EQ(result.code, 0) << result.output;
    EXPECT_EQ(verified(result.output), one_less ? way.ranks - 1 : way.ranks) << result.output;
}

constexpr Way kOneHost{"one_host", 4, 1, ""};
constexpr Way kUcx{"ucx", 4, 1, "COPPICE_TRANSPORT=ucx"};
constexpr Way kThread{"thread", 3, 1, "COPPICE_PROGRESS_THREAD=1"};
constexpr Way kHosts{"hosts", 3, 3, ""};
constexpr Way kTwoHosts{"two_hosts", 4, 2, ""};
constexpr Way kUcxHosts{"ucx_hosts", 3, 3, "COPPICE_TRANSPORT=ucx"};

std::string name_of(const ::testing::TestParamInfo<std::tuple<Way, const char*>>& info) {
    std::string name = std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param);
    std::erase(name, '-');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Ends, Fork,
                         Combine(Values(kOneHost, kUcx, kThread, kHosts, kTwoHosts),
                                 Values("exit", "_exit", "return", "runs-on")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(OverUcx, Fork,
                         Combine(Values(kUcxHosts), Values("runs-on", "spawn", "orphan", "daemon", "left")), name_of);
INSTANTIATE_TEST_SUITE_P(Executes, Fork, Combine(Values(kOneHost, kHosts), Values("spawn", "vfork", "system")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Outlives, Fork,
                         Combine(Values(kOneHost, kHosts, kTwoHosts), Values("orphan", "daemon", "left")), name_of);

}  // namespace
}  // namespace coppice::testing
