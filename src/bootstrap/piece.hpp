// What a rank says before its bytes where somebody else's exchange carries them. All fields are of fixed size, so that ranks
// of different builds understand each other well enough to see that they differ.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.hpp"
#include "bootstrap/launcher_protocol.hpp"

namespace coppice::bootstrap {

struct PieceHeader {
    std::uint32_t magic = kFrameMagic;
    std::uint32_t version = kProtocolVersion;
    std::uint32_t word_size = sizeof(void*);
    std::uint32_t rank = 0;
    std::uint32_t size = 0;
    std::uint32_t round = 0;
    std::uint32_t bytes = 0;
    std::uint32_t subset = 0;  // differs for groups of different ranks; 0: of all
};
static_assert(sizeof(PieceHeader) == 32);

// What `carrier` ("the exchange callback") gave in the place of `rank`. `duty` says what it, or its users, have to do.
Result<void> check_piece(const PieceHeader& mine, const PieceHeader& theirs, std::uint32_t rank,
                         std::string_view carrier, std::string_view duty);

}  // namespace coppice::bootstrap
