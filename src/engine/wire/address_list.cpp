#include "engine/wire/address_list.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace coppice::engine {

std::string shown(std::string_view text) {
    constexpr std::size_t kLongest = 160;
    std::string result;
    for (const char c : text.substr(0, kLongest))
        result += c >= ' ' && c <= '~' ? c : '?';
    return text.size() > kLongest ? result + "..." : result;
}

void append_address(std::vector<std::byte>& all, std::string_view name, std::span<const std::byte> address) {
    const auto text = std::as_bytes(std::span(name));
    const auto length = static_cast<std::uint32_t>(address.size());
    const auto raw = std::as_bytes(std::span(&length, 1));
    all.insert(all.end(), text.begin(), text.end());
    all.push_back(std::byte{'\n'});
    all.insert(all.end(), raw.begin(), raw.end());
    all.insert(all.end(), address.begin(), address.end());
}

std::optional<std::span<const std::byte>> find_address(std::span<const std::byte> all, std::string_view name) {
    while (true) {
        const auto newline = std::ranges::find(all, std::byte{'\n'});
        const auto name_length = static_cast<std::size_t>(newline - all.begin());
        std::uint32_t length = 0;
        if (all.size() < name_length + 1 + sizeof length) return std::nullopt;
        const std::string_view here(reinterpret_cast<const char*>(all.data()), name_length);
        std::memcpy(&length, all.data() + name_length + 1, sizeof length);
        all = all.subspan(name_length + 1 + sizeof length);
        if (length > all.size()) return std::nullopt;
        if (here == name) return all.first(length);
        all = all.subspan(length);
    }
}

}  // namespace coppice::engine
