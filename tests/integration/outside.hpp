// Ranks that are outside of the library: they only look at memory that the test shares among all ranks, or at a buffer of their own.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "integration/job.hpp"

namespace coppice::testing {

inline const std::uint64_t kTimeout = kDeadlineNs;
inline constexpr std::size_t kBytes = 64;

// How the ranks reach each other; which program it is, says: elsewhere_layouts.cpp, or the guest's.
const std::vector<Layout>& layouts();

// Waits outside.
inline void outside(const char* what, const std::function<bool()>& condition) {
    if (!becomes(condition)) throw CheckFailed(std::string("waited outside in vain: ") + what);
}

// The last byte of a buffer that the library fills while nobody is in it.
inline bool is_there(std::vector<unsigned char>& buffer, const std::vector<unsigned char>& expected) {
    if (std::atomic_ref(buffer.back()).load() != expected.back()) return false;
    return buffer == expected;
}

inline void start(Member& member, std::vector<unsigned char>& buffer, std::uint32_t root, coppice_request_t** request) {
    if (coppice_broadcast_nb(member.group, buffer.data(), buffer.size(), root, request) != COPPICE_OK)
        throw CheckFailed(coppice_last_error());
}

}  // namespace coppice::testing
