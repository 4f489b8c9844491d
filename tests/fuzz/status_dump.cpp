// What coppice-status on another host has written, and all that this one prints of it.
#include "../../tools/coppice-status/dump.hpp"
#include "../../tools/coppice-status/report.hpp"
#include "fuzz.hpp"

using namespace coppice;
using namespace coppice::show;

namespace {

// A dump of as many pages as the input says, whole as a rank writes them, but for the bytes that the input changes.
std::string damaged(fuzz::Input& input) {
    status::Page page;
    page.header.bytes = sizeof page;
    page.header.state.publish(static_cast<std::uint32_t>(status::State::open));
    page.header.reports.publish(2);
    Everything here;
    here.now_ns = 1'000'000;
    const int pages = 1 + input.number<std::uint8_t>() % 3;
    for (int i = 0; i < pages; ++i) {
        std::string bytes(reinterpret_cast<const char*>(&page), sizeof page);
        for (int changes = input.number<std::uint8_t>() % 16; changes > 0; --changes) {
            const std::size_t at = input.number<std::uint16_t>() % bytes.size();
            const auto part = input.take(input.number<std::uint8_t>());
            std::memcpy(&bytes[at], part.data(), std::min(part.size(), bytes.size() - at));
        }
        here.pages.push_back(
            {.page = {}, .pid = 100 + i, .process = {}, .ancestors = {1, 2}, .bytes = std::move(bytes)});
    }
    std::string all = dump(here);
    const std::size_t at = input.number<std::uint16_t>() % all.size();
    const auto part = input.take(input.number<std::uint8_t>() % 32);
    std::memcpy(&all[at], part.data(), std::min(part.size(), all.size() - at));
    return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const std::string bytes = input.number<std::uint8_t>() % 2 == 0 ? damaged(input) : std::string(input.text());
    Everything all;
    all.now_ns = 2'000'000;
    if (!take_dump(bytes, "node1", all)) {
        FUZZ_CHECK(all.pages.empty() && all.problems.empty() && all.hidden == 0);
        return 0;
    }
    for (const Problem& problem : all.problems)
        FUZZ_CHECK(problem.host == "node1" && !problem.error.message.empty());
    sort_pages(all);
    const std::string text = as_text(all);
    FUZZ_CHECK(text.find('\x1b') == std::string::npos);
    FUZZ_CHECK(!as_json(all).dump(2, ' ', false, nlohmann::json::error_handler_t::replace).empty());
    static_cast<void>(as_metrics(all));
    return 0;
}
