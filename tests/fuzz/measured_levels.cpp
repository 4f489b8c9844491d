// The file that COPPICE_LOGP names.
#include "engine/measured_levels.hpp"

#include "fuzz.hpp"

using namespace coppice;
using namespace coppice::engine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto levels = parse_measured_levels(std::string(input.text()), "file");
    if (!levels) {
        FUZZ_CHECK(levels.error().starts_with("file: "));
        FUZZ_CHECK(std::ranges::none_of(levels.error(), [](char c) { return c == '\n' || c == '\x1b' || c == '\0'; }));
        return 0;
    }
    FUZZ_CHECK(!levels->empty() && levels->size() <= 8);
    for (const MeasuredLevel& level : *levels) {
        FUZZ_CHECK(!level.name.empty() && level.name.size() <= 32);
        FUZZ_CHECK(level.step_us > 0 && level.step_us <= 1e9 && level.latency <= 1'000'000);
        FUZZ_CHECK(level_called(*levels, level.name).name == level.name);
    }
    FUZZ_CHECK(level_called(*levels, "of no such name").name == levels->back().name);
    return 0;
}
