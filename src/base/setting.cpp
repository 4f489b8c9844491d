#include "base/setting.hpp"

#include <charconv>
#include <cstdlib>

#include "base/duration.hpp"

namespace coppice {

std::string_view to_string(SettingSource source) {
    switch (source) {
        case SettingSource::default_value:
            return "default";
        case SettingSource::environment:
            return "environment";
        case SettingSource::api:
            return "API";
    }
    return "?";
}

SettingTexts::SettingTexts(std::span<const SettingInfo> known, const Lookup& environment) : known_(known) {
    entries_.reserve(known_.size());
    for (const SettingInfo& info : known_) {
        const char* value = environment(std::string(info.variable).c_str());
        if (value != nullptr && *value != '\0') {
            entries_.push_back({value, SettingSource::environment});
        } else {
            entries_.push_back({std::string(info.default_value), SettingSource::default_value});
        }
    }
}

std::size_t SettingTexts::index_of(std::string_view variable) const {
    for (std::size_t i = 0; i < known_.size(); ++i) {
        if (known_[i].variable == variable) return i;
    }
    std::abort();  // a name that is in no table: any test that reads the settings finds it
}

void SettingTexts::override_with(std::string_view variable, std::string_view value) {
    entries_[index_of(variable)] = {std::string(value), SettingSource::api};
}

tl::unexpected<Error> SettingTexts::bad_value(std::string_view variable, std::string_view expected) const {
    const bool from_api = source(variable) == SettingSource::api;
    return fail(COPPICE_ERR_CONFIG, "{}{} = \"{}\": expected {}", from_api ? "the option for " : "", variable,
                text(variable), expected);
}

Result<bool> SettingTexts::choice(std::string_view variable, std::string_view first, std::string_view second) const {
    const std::string& value = text(variable);
    if (value != first && value != second) return bad_value(variable, fmt::format("{} or {}", first, second));
    return value == first;
}

Result<int> SettingTexts::number(std::string_view variable, int least, int most) const {
    const std::string& value = text(variable);
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size() || number < least || number > most)
        return bad_value(variable, fmt::format("a number from {} to {}", least, most));
    return number;
}

Result<std::uint64_t> SettingTexts::duration_ns(std::string_view variable, std::string_view expected) const {
    const auto parsed = parse_duration_ns(text(variable), "ns");
    if (!parsed) return bad_value(variable, expected);
    return *parsed;
}

}  // namespace coppice
