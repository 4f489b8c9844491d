// The parts of the memory that each rank of a host shows to the others: declared by their users, by name, size and alignment, before
// that memory is made. Whose it is needs not know what they are for, and they need not know what it is.
//
// The same at all ranks of a host, in the same order.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coppice::transport {

// Processors fetch cache lines in pairs: what one rank polls and another stores to must not share one.
inline constexpr std::size_t kRegionAlignment = 128;

struct Region {
    std::string_view name;
    std::size_t bytes = 0;
    std::size_t alignment = kRegionAlignment;  // a power of two, at most kRegionAlignment
};

class Regions {
  public:
    // Where one is, from the beginning of all of them. No bytes: nobody has declared it.
    struct Place {
        std::size_t at = 0;
        std::size_t bytes = 0;
    };

    Regions() = default;
    explicit Regions(std::span<const Region> declared);

    Place find(std::string_view name) const;
    // Of the one that byte `at` lies in; empty: it lies in none.
    std::string_view name_at(std::size_t at) const;
    // Of all of them together, a multiple of kRegionAlignment. They begin at such a multiple, too.
    std::size_t bytes() const { return bytes_; }

  private:
    struct Named {
        std::string name;
        Place place;
    };
    std::vector<Named> all_;
    std::size_t bytes_ = 0;
};

}  // namespace coppice::transport
