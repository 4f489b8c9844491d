// What coppice-run reads of up-links: /proc/net/dev.
#include "links.hpp"

#include <cstdio>

#include "fuzz.hpp"

using namespace coppice;
using namespace coppice::run;

namespace {

// As the kernel writes it.
std::string written(const std::vector<LinkCount>& counts) {
    std::string text = "\nInter-|   Receive                                                |  Transmit\n";
    for (std::size_t leaf = 0; leaf < counts.size(); ++leaf) {
        char line[200];
        std::snprintf(line, sizeof line, "uplink%zu: 7 %llu 0 0 0 0 0 0 7 %llu 0 0 0 0 0 0\n", leaf,
                      static_cast<unsigned long long>(counts[leaf].down),
                      static_cast<unsigned long long>(counts[leaf].up));
        text += line;
    }
    return text;
}

bool are_same(const std::vector<LinkCount>& a, const std::vector<LinkCount>& b) {
    return std::ranges::equal(a, b, [](const LinkCount& one, const LinkCount& other) {
        return one.up == other.up && one.down == other.down && !one.payload_up && !other.payload_up;
    });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const std::uint32_t leaves = input.number<std::uint8_t>() % 8;
    const auto operations = input.number<std::uint64_t>();
    const auto bytes = input.rest();
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::vector<LinkCount> counts = read_links(text, leaves);
    FUZZ_CHECK(counts.size() == leaves);
    for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
        const bool is_named = text.find("uplink" + std::to_string(leaf) + ":") != std::string::npos;
        FUZZ_CHECK(is_named || (counts[leaf].up == 0 && counts[leaf].down == 0));
    }
    // What is read is what would be written, whatever stands in front of it.
    FUZZ_CHECK(are_same(read_links(written(counts), leaves), counts));
    std::vector<LinkCount> others(leaves);
    for (std::uint32_t leaf = 0; leaf < leaves; ++leaf)
        others[leaf] = {.up = leaf + 1, .down = 100 + leaf};
    FUZZ_CHECK(are_same(read_links(text + written(others), leaves), others));
    FUZZ_CHECK(describe_links(counts, operations).size() == leaves + 1);
    return 0;
}
