// How a rank can be reached, as it tells others: the addresses of its transports in a list.
//
// Nothing that is read here is trusted: the parser looks only at bytes that are there.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coppice::engine {

// What a peer sent, made fit for a message to people.
std::string shown(std::string_view text);

// Addresses of all transports of a rank, one after the other: name, newline, length as 4 bytes, bytes.
void append_address(std::vector<std::byte>& all, std::string_view name, std::span<const std::byte> address);

// The first address of that name; none when there is none, or the list is cut short before it.
std::optional<std::span<const std::byte>> find_address(std::span<const std::byte> all, std::string_view name);

}  // namespace coppice::engine
