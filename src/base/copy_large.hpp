// Copies of many bytes between cores, for memory that one process fills and others read, again and again.
//
// What a core writes, it must first own: lines that the last readers still have in their caches cost it their way there and back, far
// more than the bytes themselves (2 GB/s where 25 can be had). Stores past the caches do without. And `rep movsb`, which memcpy takes for
// such sizes, is the slower way to copy to what is not aligned to lines (11 GB/s instead of 17), as what malloc gives seldom is.
// bench/large.sh shows what it comes to; other processors than x86's take memcpy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace coppice {

namespace detail {

inline constexpr std::size_t kLine = 64;

#if defined(__SSE2__)
template <bool past_caches>
inline void copy_line(std::byte* to, const std::byte* from) {
    for (std::size_t i = 0; i < kLine; i += sizeof(__m128i)) {
        const __m128i word = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
        if constexpr (past_caches) _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), word);
        if constexpr (!past_caches) _mm_store_si128(reinterpret_cast<__m128i*>(to + i), word);
    }
}
#endif

template <bool past_caches>
inline void copy_lines(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
    const std::size_t before = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
    if (bytes < before + kLine) {
        if (bytes > 0) std::memcpy(to, from, bytes);
        return;
    }
    if (before > 0) std::memcpy(to, from, before);
    std::size_t at = before;
    for (; bytes - at >= kLine; at += kLine)
        copy_line<past_caches>(to + at, from + at);
    if (at < bytes) std::memcpy(to + at, from + at, bytes - at);
    if constexpr (past_caches) _mm_sfence();  // such stores are in no order with those behind them, which tell of them
#else
    if (bytes > 0) std::memcpy(to, from, bytes);
#endif
}

}  // namespace detail

// To memory that others read next, and this core does not.
inline void copy_for_others(std::byte* to, const std::byte* from, std::size_t bytes) {
    detail::copy_lines<true>(to, from, bytes);
}

// A part of `all` bytes, to the caller's memory: what is more than caches hold goes past them.
inline void copy_for_caller(std::byte* to, const std::byte* from, std::size_t bytes, std::size_t all) {
    constexpr std::size_t kMoreThanCachesHold = std::size_t{4} << 20;
    if (all >= kMoreThanCachesHold) return detail::copy_lines<true>(to, from, bytes);
    detail::copy_lines<false>(to, from, bytes);
}

}  // namespace coppice
