// Copies of a few bytes, headers and small payloads, in line: a call of memcpy costs more than such a copy.
#pragma once

#include <cstddef>
#include <cstring>

namespace coppice {

namespace detail {

// Of `bytes`, from a word's size to two of them: the first word and the last, which may overlap.
template <std::size_t word>
inline void copy_both_ends(std::byte* to, const std::byte* from, std::size_t bytes) {
    struct Word {
        std::byte at[word];
    } first, last;
    std::memcpy(&first, from, word);
    std::memcpy(&last, from + bytes - word, word);
    std::memcpy(to, &first, word);
    std::memcpy(to + bytes - word, &last, word);
}

}  // namespace detail

// Whether copy_few() calls nothing for that many.
constexpr bool is_few(std::size_t bytes) {
    return (bytes >= 8 && bytes <= 16) || (bytes >= 32 && bytes <= 64);
}

// As memcpy; nothing may be null only when there is something to copy.
inline void copy_few(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes >= 8 && bytes <= 16) return detail::copy_both_ends<8>(to, from, bytes);
    if (bytes >= 32 && bytes <= 64) {
        // Of two times 32 bytes the compiler would make a detour over the stack.
        detail::copy_both_ends<16>(to, from, 32);
        return detail::copy_both_ends<16>(to + bytes - 32, from + bytes - 32, 32);
    }
    if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace coppice
