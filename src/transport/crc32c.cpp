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
// One instruction takes three cycles, and three of them can be under way: so long runs are three streams, put together in the end.
// To put a stream of n bytes behind a state is to multiply that by x^8n, modulo the polynomial. The instruction itself multiplies a
// product of 63 bits by x^33 and reduces it, hence x^(8n - 33).
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {  // reflected: the highest bit is x^0
    std::uint32_t product = 0;
    for (int bit = 31; bit >= 0; --bit) {
        if (((b >> bit) & 1) != 0) product ^= a;
        a = (a >> 1) ^ ((a & 1) != 0 ? kPolynomial : 0);
    }
    return product;
}

constexpr std::uint32_t behind(std::size_t bytes) {
    std::uint32_t power = 0x80000000, square = 0x40000000;
    for (std::size_t n = 8 * bytes - 33; n > 0; n >>= 1) {
        if ((n & 1) != 0) power = multiply(power, square);
        square = multiply(square, square);
    }
    return power;
}

std::uint64_t word_at(const std::byte* at) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    return word;
}

[[gnu::target("sse4.2,pclmul")]] std::uint64_t times(std::uint64_t state, std::uint32_t power) {
    using Pair = long long __attribute__((vector_size(16)));
    const Pair product = __builtin_ia32_pclmulqdq128(Pair{static_cast<long long>(state), 0}, Pair{power, 0}, 0);
    return __builtin_ia32_crc32di(0, static_cast<std::uint64_t>(product[0]));
}

template <std::size_t length>
[[gnu::target("sse4.2,pclmul")]] std::uint64_t three_streams(const std::byte*& at, std::size_t& left,
                                                             std::uint64_t state) {
    constexpr std::uint32_t kOne = behind(length), kTwo = behind(2 * length);
    for (; left >= 3 * length; left -= 3 * length, at += 3 * length) {
        std::uint64_t second = 0, third = 0;
        for (const std::byte* word = at; word < at + length; word += 8) {
            state = __builtin_ia32_crc32di(state, word_at(word));
            second = __builtin_ia32_crc32di(second, word_at(word + length));
            third = __builtin_ia32_crc32di(third, word_at(word + 2 * length));
        }
        state = times(state, kTwo) ^ times(second, kOne) ^ third;
    }
    return state;
}

[[gnu::target("sse4.2,pclmul")]] std::uint32_t crc32c_sse(std::span<const std::byte> bytes, std::uint32_t crc) {
    std::uint64_t state = ~crc;
    const std::byte* at = bytes.data();
    std::size_t left = bytes.size();
    if (left >= 3 * 256) {
        state = three_streams<4096>(at, left, state);
        state = three_streams<256>(at, left, state);
    }
    for (; left >= 8; left -= 8, at += 8)
        state = __builtin_ia32_crc32di(state, word_at(at));
    auto narrow = static_cast<std::uint32_t>(state);
    for (; left > 0; --left, ++at)
        narrow = __builtin_ia32_crc32qi(narrow, std::to_integer<unsigned char>(*at));
    return ~narrow;
}

const bool has_instruction = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
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
