// Descriptors of a rank with many groups. When the kernel enlarges the table of a process with several threads it holds the
// caller up, in whichever call opened one too many; no call on a group may be that one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <coppice/coppice.hpp>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

class EveryLayout : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Descriptors, EveryLayout, ::testing::ValuesIn(ways_to_be_connected(4)),
                         [](const auto& layout) { return std::string(layout.param.name); });

// For how many descriptors the kernel has room in this process.
std::size_t table() {
    std::ifstream status("/proc/self/status");
    std::string word;
    std::size_t room = 0;
    while (status >> word) {
        if (word == "FDSize:") status >> room;
    }
    COPPICE_CHECK(room > 0);
    return room;
}

TEST_P(EveryLayout, HaveTheirPlacesBeforeTheFirstGroup) {
    Job job(GetParam().job(), [](Member& member) {
        const std::size_t at_first = table();  // 64, or more if what started this had more
        Context context = Context::create();
        const std::size_t room = table();
        GroupOptions options;
        options.rank = member.rank;
        options.size = member.ranks;
        options.exchange = [&member](std::span<const std::byte> mine, std::span<std::byte> all) {
            return member.exchange(mine, all);
        };
        // Files of the program's own, so that a few groups are enough to need more.
        while (open_descriptors() < at_first)
            COPPICE_CHECK(dup(STDERR_FILENO) >= 0);
        std::vector<Group> groups;
        for (int i = 0; i < 5; ++i) {
            Group& group = groups.emplace_back(Group::create(context, options));
            char byte = 0;
            group.broadcast(std::as_writable_bytes(std::span(&byte, 1)), static_cast<std::uint32_t>(i) % member.ranks);
        }
        COPPICE_CHECK(open_descriptors() > at_first + groups.size());
        COPPICE_CHECK(table() == room);
        for (Group& group : groups)
            group.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
