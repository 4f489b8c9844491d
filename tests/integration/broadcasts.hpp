// A broadcast as tests make it: every byte is checked.
#pragma once

#include <algorithm>
#include <vector>

#include "integration/job.hpp"

namespace coppice::testing {

inline const std::uint64_t kTimeout = kDeadlineNs;
inline constexpr std::size_t kMaxPayload = 8192;

inline void broadcast_and_check(Member& member, std::uint64_t number, std::uint32_t root, std::size_t bytes) {
    std::vector<unsigned char> buffer(kMaxPayload + 1, 0xee);
    const std::vector<unsigned char> expected = payload_of(number, root, bytes);
    if (member.rank == root) std::ranges::copy(expected, buffer.begin());
    std::size_t received = 0;
    const coppice_status_t status = coppice_broadcast(
        member.group, buffer.data(), member.rank == root ? bytes : kMaxPayload, root, &received, kTimeout);
    if (status != COPPICE_OK) throw CheckFailed(coppice_last_error());
    COPPICE_CHECK(received == bytes);
    COPPICE_CHECK(std::equal(expected.begin(), expected.end(), buffer.begin()));
    COPPICE_CHECK(buffer[kMaxPayload] == 0xee);
}

}  // namespace coppice::testing
