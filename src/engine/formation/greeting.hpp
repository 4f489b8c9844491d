// What ranks tell each other first while a group is formed; in the second exchange they tell their addresses (wire/address_list.hpp).
//
// Nothing that is read here is trusted: the parser looks only at bytes that are there. What a greeting says is text of the
// peer's own: the caller that shows it to people makes it fit for that (shown()).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coppice::engine {

// Lines of text, so that any version can read any other's first line.
struct Greeting {
    std::string protocol;  // "coppice 3 64-bit little-endian"
    std::string library;   // version, for people
    std::string agreement;
    std::string transports;
    std::string host;
    std::string nonce;        // 32 random bytes: groups differ by them, and have their secret from them
    std::string addresses{};  // transport::HostAddresses
    std::string wire{};       // the transports that its host is for, where that decides: "ucx,tcp"
    std::string switches{};   // above its host: topology/switch_path.hpp; empty where nobody knows
    std::string node{};       // how its host calls itself, for people; empty where that is no name

    static std::string protocol_name();
    std::string text() const;
    // None when the bytes are no greeting of any version. Of another protocol's only the first two lines are known.
    static std::optional<Greeting> parse(std::span<const std::byte> blob);
};

}  // namespace coppice::engine
