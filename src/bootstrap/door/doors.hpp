// What the files of a door share.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "coppice/coppice.h"

namespace coppice::bootstrap {

// What an event of the door's epoll set is about; from the last one on: a visitor.
inline constexpr std::uint64_t kListener = 0;
inline constexpr std::uint64_t kTimer = 1;
inline constexpr std::uint64_t kClient = 2;
inline constexpr std::uint64_t kFirstVisitor = 3;

// Between two looks at who takes too long; more does not count.
inline constexpr std::uint64_t kLookNs = 500'000'000;

// A newcomer's: to be tried again, there or elsewhere.
inline constexpr coppice_status_t kDoorLost = COPPICE_ERR_PEER_FAILED;

// What another process says, made fit for people.
inline std::string readable(std::span<const std::byte> text) {
    std::string result;
    for (const std::byte byte : text.first(std::min<std::size_t>(text.size(), 1024))) {
        const char c = static_cast<char>(byte);
        const auto raw = static_cast<unsigned char>(c);
        result += raw >= 0x80 || (c >= ' ' && c <= '~') ? c : '?';
    }
    return result;
}

}  // namespace coppice::bootstrap
