// What a message of the engine is called, for people: its channel, its kind, and what else its header says.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace coppice::world {

// "broadcast/tree, sequence 3, 64 bytes". `payload`: how many bytes come behind the header.
std::string describe_message(std::span<const std::byte> header, std::size_t payload);

}  // namespace coppice::world
