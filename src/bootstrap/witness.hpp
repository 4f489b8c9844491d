// A witness of deaths, as a rank sees it: something that outlives its host, and to which it tells its last vote before it says so to anybody.
//
// coppice-run is one (launcher_witness.hpp), and a program may have its own (witness_callback.hpp). What a witness does not know is not
// certain (docs/membership.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace coppice::bootstrap {

class Witness {
  public:
    static constexpr std::size_t kMostBytes = 2040;

    virtual ~Witness() = default;

    // One rank of one group.
    struct About {
        std::uint64_t group = 0;
        std::uint32_t rank = 0;
    };
    struct Place {
        About about{};
        std::uint32_t entry = 0;
        std::uint32_t owner = 0;
    };
    // Where this process writes; none: the witness does not watch it.
    virtual std::optional<Place> take(const About& about) const = 0;
    virtual void give_back(const Place& place) const = 0;
    // At most kMostBytes are kept; of a longer one nothing can be read. False: they are not kept yet, so that nobody may be told of
    // them, and have to be written again.
    virtual bool write(const Place& place, std::span<const std::byte> bytes) const = 0;
    // What a process wrote last that has ended; empty: nothing. None: it lives, or nothing is known.
    virtual std::optional<std::vector<std::byte>> last_words_of(const About& about) const = 0;
    // Whether a process has that name, though it may live, and its words may not be readable.
    virtual bool knows(const About& about) const = 0;
};

}  // namespace coppice::bootstrap
