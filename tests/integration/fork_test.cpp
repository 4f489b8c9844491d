// Programs that start other processes while they have groups: nothing that these do is taken for the rank's doing.
#include <stdio.h>
#include <sys/wait.h>

#include <string>

#include "integration/fork.hpp"
#include "support/processes.hpp"

namespace coppice::testing {
namespace {

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

TEST_P(Fork, TheOthersGoOn) {
    const auto& [way, how] = GetParam();
    const Outcome result = run(std::string(way.environment) + " " + COPPICE_RUN + " -n " + std::to_string(way.ranks) +
                               " --hosts " + std::to_string(way.hosts) + " --timeout " +
                               std::to_string(kDeadlineNs / 1'000'000'000) + " " + FORK_RANK + " " + how);
    const std::string words = how;
    const bool one_less = words == "orphan" || words == "daemon" || words == "left";
    EXPECT_EQ(result.code, 0) << result.output;
    EXPECT_EQ(verified(result.output), one_less ? way.ranks - 1 : way.ranks) << result.output;
}

}  // namespace
}  // namespace coppice::testing
