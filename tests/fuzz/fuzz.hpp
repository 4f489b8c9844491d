// What the fuzzers share. Each is a file with LLVMFuzzerTestOneInput(): libFuzzer calls it with inputs of its own
// making (fuzz.sh), replay.cpp with those of the corpus.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace coppice::fuzz {

// What must hold for every input.
#define FUZZ_CHECK(condition)                                                                  \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                                      \
        }                                                                                      \
    } while (false)

// The input, taken from its front. What is not there any more reads as zeros.
class Input {
  public:
    Input(const std::uint8_t* data, std::size_t size) : rest_(std::as_bytes(std::span(data, size))) {}

    bool empty() const { return rest_.empty(); }
    template <class Number>
    Number number() {
        Number value{};
        const auto bytes = take(sizeof value);
        if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
        return value;
    }
    std::span<const std::byte> take(std::size_t size) {
        const auto bytes = rest_.first(std::min(size, rest_.size()));
        rest_ = rest_.subspan(bytes.size());
        return bytes;
    }
    // A piece whose length, up to 65,535, stands in front of it.
    std::span<const std::byte> piece() { return take(number<std::uint16_t>()); }
    std::span<const std::byte> rest() { return take(rest_.size()); }
    std::string_view text() {
        const auto bytes = rest();
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }

  private:
    std::span<const std::byte> rest_;
};

// A copy on the heap of exactly this size: a sanitizer sees every read beyond it.
inline std::vector<std::byte> exact(std::span<const std::byte> bytes) {
    return {bytes.begin(), bytes.end()};
}

inline bool within(std::span<const std::byte> part, std::span<const std::byte> whole) {
    return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

inline bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
    return std::ranges::equal(a, b);
}

}  // namespace coppice::fuzz
