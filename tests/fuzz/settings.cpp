// Settings as the environment gives them, and the plans and specifications in them.
#include "engine/settings.hpp"

#include "fuzz.hpp"
#include "protocol/agreement/agreement_tree.hpp"
#include "protocol/gossip.hpp"
#include "transport/faults.hpp"

using namespace coppice;

namespace {

// to_string() writes what is read.
template <class Parse>
void round_trip(std::string_view text, const Parse& parse) {
    const auto spec = parse(text);
    if (!spec) return;
    const auto again = parse(to_string(*spec));
    FUZZ_CHECK(again.has_value());
    FUZZ_CHECK(to_string(*again) == to_string(*spec));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto known = engine::known_settings();
    const SettingInfo& setting = known[input.number<std::uint8_t>() % known.size()];
    const std::string value(input.text().substr(0, 4096));
    if (value.find('\0') != std::string::npos) return 0;  // no environment holds that
    const engine::SettingTexts texts(
        [&](const char* name) { return setting.variable == name ? value.c_str() : nullptr; });
    if (const auto settings = engine::parse(texts)) {
        FUZZ_CHECK(settings->window >= 2 && settings->window <= 1024);
        FUZZ_CHECK(settings->host.size() <= 64);
        for (const std::uint32_t positions : {1U, 2U, 7U, 300U})
            static_cast<void>(settings->plan_for(positions));
        FUZZ_CHECK(settings->agreement().find('\n') == std::string::npos);
    } else {
        FUZZ_CHECK(settings.error().message.find(setting.variable) != std::string::npos);
    }
    round_trip(value, [](std::string_view text) { return topology::parse_tree(text); });
    round_trip(value, [](std::string_view text) { return protocol::parse_correction(text); });
    round_trip(value, [](std::string_view text) { return protocol::parse_gossip(text); });
    round_trip(value, [](std::string_view text) { return protocol::parse_agreement_tree(text); });
    round_trip(value, [](std::string_view text) { return engine::parse_algorithm(text); });
    static_cast<void>(transport::parse_faults(value, Seat(2)));
    return 0;
}
