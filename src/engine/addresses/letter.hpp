// What ranks write to each other to copy addresses: messages of Channel::addresses. Nothing that is read is trusted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/words.hpp"
#include "engine/wire/wire.hpp"

namespace coppice::engine {

struct Letter {
    AddressesKind kind = AddressesKind::wanted;
    Seat from;                 // who wrote it
    std::uint32_t number = 0;  // of `wanted`: the seat of its first bit; of `page`: how many more follow
    std::vector<std::byte>
        content;  // of `wanted` a bit for each seat, of `page` a page (address_book.hpp), of `introduction` the
                  // writer's addresses (append_address())

    Encoded header(std::uint32_t token) const {
        return encode({.token = token,
                       .tag = {Channel::addresses, kind},
                       .root = from.value,
                       .detail = number,
                       .length = static_cast<std::uint32_t>(content.size())});
    }
    // None when it is not what header() would say of a letter, or is of no seat below `seats`.
    static std::optional<Letter> read(std::span<const std::byte> header, std::span<const std::byte> payload,
                                      std::uint32_t token, std::uint32_t seats) {
        const auto read = decode(header, payload.size(), {.token = token});
        if (!read || read->tag.channel != Channel::addresses) return std::nullopt;
        if (read->root >= seats) return std::nullopt;
        Letter letter{.kind = static_cast<AddressesKind>(read->tag.kind),
                      .from = Seat(read->root),
                      .number = read->detail,
                      .content = {payload.begin(), payload.end()}};
        const Encoded written = letter.header(token);
        if (!std::ranges::equal(std::span<const std::byte>(written), header)) return std::nullopt;
        return letter;
    }
};

}  // namespace coppice::engine
