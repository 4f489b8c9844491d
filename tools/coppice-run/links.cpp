#include "links.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "hosts.hpp"

namespace coppice::run {

// "  uplink0: bytes packets errs drop fifo frame compressed multicast  bytes packets …", received ones first.
std::vector<LinkCount> read_links(std::string_view devices, std::uint32_t leaves) {
    std::vector<LinkCount> counts(leaves);
    std::istringstream lines{std::string(devices)};
    for (std::string line; std::getline(lines, line);) {
        const auto colon = line.find(':');
        const auto start = line.find_first_not_of(' ');
        if (colon == std::string::npos) continue;
        const std::string name = line.substr(start, colon - start);
        std::istringstream rest(line.substr(colon + 1));
        const std::vector<std::uint64_t> numbers{std::istream_iterator<std::uint64_t>(rest), {}};
        for (std::uint32_t leaf = 0; leaf < leaves && numbers.size() > 9; ++leaf) {
            if (name == Hosts::uplink_name(leaf)) counts[leaf] = {.up = numbers[9], .down = numbers[1]};
        }
    }
    return counts;
}

std::vector<LinkCount> count_links(std::uint32_t leaves) {
    std::ifstream file("/proc/self/net/dev");
    return read_links(std::string(std::istreambuf_iterator<char>(file), {}), leaves);
}

std::vector<std::string> describe_links(const std::vector<LinkCount>& before, const std::vector<LinkCount>& after,
                                        std::uint64_t operations) {
    std::vector<std::string> lines;
    LinkCount all;
    for (std::size_t leaf = 0; leaf < after.size(); ++leaf) {
        const LinkCount count{after[leaf].up - before[leaf].up, after[leaf].down - before[leaf].down};
        lines.push_back(fmt::format("leaf {}: {} packets up, {} down", leaf, count.up, count.down));
        all.up += count.up;
        all.down += count.down;
    }
    std::string total = fmt::format("all leaves: {} packets up, {} down", all.up, all.down);
    if (operations > 0) {
        total += fmt::format("; {:.3f} up for each of {} operations",
                             static_cast<double>(all.up) / static_cast<double>(operations), operations);
    }
    lines.push_back(std::move(total));
    return lines;
}

}  // namespace coppice::run
