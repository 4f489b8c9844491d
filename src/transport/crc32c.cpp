#include "transport/crc32c.hpp"

#include <array>
#include <cstring>

namespace coppice::transport {

namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected

constexpr std::array<std::uint32_t, 256> make_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t value = byte;
        for (int bit = 0; bit < 8; ++bit)
            value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
        table[byte] = value;
    }
    return table;
}

constexpr auto kTable = make_table();

#if defined(__x86_64__)
[[gnu::target("sse4.2")]] std::uint32_t crc32c_sse(std::span<const std::byte> bytes, std::uint32_t crc) {
    std::uint64_t state = ~crc;
    const std::byte* at = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= 8; left -= 8, at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, at, 8);
        state = __builtin_ia32_crc32di(state, word);
    }
    auto narrow = static_cast<std::uint32_t>(state);
    for (; left > 0; --left, ++at)
        narrow = __builtin_ia32_crc32qi(narrow, std::to_integer<unsigned char>(*at));
    return ~narrow;
}

const bool has_instruction = __builtin_cpu_supports("sse4.2");
#endif

}  // namespace

std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t crc) {
    std::uint32_t state = ~crc;
    for (const std::byte byte : bytes)
        state = (state >> 8) ^ kTable[(state ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
    return ~state;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
#if defined(__x86_64__)
    if (has_instruction) return crc32c_sse(bytes, crc);
#endif
    return crc32c_portable(bytes, crc);
}

}  // namespace coppice::transport
