// Settings as text: what can be set, what it was set to, and where that came from. Rooms read their own from here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace coppice {

// One line of coppice-info: what it is called, what it does, which values it takes.
struct SettingInfo {
    std::string_view variable;
    std::string_view default_value;
    std::string_view description;
};

enum class SettingSource : std::uint8_t { default_value, environment, api };
std::string_view to_string(SettingSource source);

// The values of all known settings, each from the API, else from the environment, else its default.
class SettingTexts {
  public:
    using Lookup = std::function<const char*(const char*)>;  // as getenv
    // `known` outlives this.
    SettingTexts(std::span<const SettingInfo> known, const Lookup& environment);

    // A variable that is not known is a mistake of the caller's, and ends the process.
    const std::string& text(std::string_view variable) const { return entries_[index_of(variable)].text; }
    SettingSource source(std::string_view variable) const { return entries_[index_of(variable)].source; }
    void override_with(std::string_view variable, std::string_view value);  // an option of the API

    // COPPICE_ERR_CONFIG, which names the variable, its value and what would be right.
    tl::unexpected<Error> bad_value(std::string_view variable, std::string_view expected) const;
    // One of two words: whether it is the first one.
    Result<bool> choice(std::string_view variable, std::string_view first, std::string_view second) const;
    // A whole number from `least` to `most`.
    Result<int> number(std::string_view variable, int least, int most) const;
    // A time; without a unit, nanoseconds. `expected`: for the error.
    Result<std::uint64_t> duration_ns(std::string_view variable, std::string_view expected) const;

  private:
    struct Entry {
        std::string text;
        SettingSource source = SettingSource::default_value;
    };
    std::size_t index_of(std::string_view variable) const;

    std::span<const SettingInfo> known_;
    std::vector<Entry> entries_;
};

}  // namespace coppice
