// What the readers of network files share: lines with their numbers, names that may stand in a sentence, and leaves and pods that
// get their numbers as they come.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <unordered_map>
#include <vector>

#include "topology/network_file.hpp"

namespace coppice::topology {

constexpr bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

constexpr std::string_view trimmed(std::string_view text) {
    while (!text.empty() && is_blank(text.front()))
        text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back()))
        text.remove_suffix(1);
    return text;
}

// The first word of `text`, which is cut off; empty at its end.
constexpr std::string_view take_word(std::string_view& text) {
    text = trimmed(text);
    std::size_t size = 0;
    while (size < text.size() && !is_blank(text[size]))
        ++size;
    const std::string_view word = text.substr(0, size);
    text.remove_prefix(size);
    return word;
}

// In quotes, no longer than a sentence bears, and nothing in it that a terminal would act upon.
inline std::string shown(std::string_view name) {
    constexpr std::size_t kLongest = 60;
    std::string text = "\"";
    for (const char c : name.substr(0, kLongest))
        text += c < ' ' || c > '~' ? '?' : c;
    return text + (name.size() > kLongest ? "…\"" : "\"");
}

// Printable, without blanks, and of a length that somebody has given a host.
constexpr bool is_name(std::string_view name) {
    if (name.empty() || name.size() > kMaxNetworkName) return false;
    for (const char c : name) {
        if (c <= ' ' || c == '\x7f' || c == '"') return false;
    }
    return true;
}

class Lines {
  public:
    explicit Lines(std::string_view text) : rest_(text) {}

    std::optional<std::string_view> next() {
        if (rest_.empty()) return std::nullopt;
        const std::size_t end = rest_.find('\n');
        const std::string_view line = rest_.substr(0, end);
        rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
        ++number_;
        return line;
    }
    std::uint32_t number() const { return number_; }  // of the last one, from 1

  private:
    std::string_view rest_;
    std::uint32_t number_ = 0;
};

// Sentences with the file's name and a line.
class Complaint {
  public:
    explicit Complaint(std::string_view file) : file_(file) {}

    tl::unexpected<std::string> at(std::uint32_t line, const std::string& sentence) const {
        return tl::unexpected(std::string(file_) + ":" + std::to_string(line) + ": " + sentence);
    }
    tl::unexpected<std::string> whole(const std::string& sentence) const {
        return tl::unexpected(std::string(file_) + ": " + sentence);
    }

  private:
    std::string_view file_;
};

// Which of many are one: leaves that share a switch above.
class Unions {
  public:
    explicit Unions(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0U); }

    std::uint32_t of(std::uint32_t item) {
        while (parent_[item] != item) {
            parent_[item] = parent_[parent_[item]];
            item = parent_[item];
        }
        return item;
    }
    void join(std::uint32_t one, std::uint32_t other) {
        one = of(one);
        other = of(other);
        parent_[one < other ? other : one] = one < other ? one : other;
    }

  private:
    std::vector<std::uint32_t> parent_;
};

// Numbers from 0 on, in the order in which keys come.
template <class Key>
class Numbers {
  public:
    // Whether it is new, too.
    std::pair<std::uint32_t, bool> number(const Key& key) {
        const auto [found, is_new] = numbers_.try_emplace(key, static_cast<std::uint32_t>(numbers_.size()));
        return {found->second, is_new};
    }

  private:
    std::unordered_map<Key, std::uint32_t> numbers_;
};

tl::expected<NetworkFile, std::string> parse_fabric(std::string_view text, const Complaint& complaint);
tl::expected<NetworkFile, std::string> parse_slurm_topology(std::string_view text, const Complaint& complaint);

}  // namespace coppice::topology
