// Which ranks' addresses a rank has, which it wants, and the pages that it copies for others.
//
// A page is a row of entries: the seat and the length of its addresses, 32 bits each, and the addresses. An entry without addresses is of a rank that has
// ended, so that nobody goes on asking for it. Both sides run on machines of the same byte order. Nothing that is read is trusted.
//
// Pure: no transport, no clock. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/words.hpp"

namespace coppice::engine {

class AddressBook {
  public:
    struct Entry {
        Seat seat;
        std::span<const std::byte> addresses;  // within the page; empty: it has ended
    };
    struct Wanted {
        Seat first;
        std::vector<std::byte> seats;  // a bit for each from `first` on, the lowest first
    };
    using Page = std::vector<std::byte>;

    AddressBook(std::uint32_t seats, Seat self, std::span<const std::byte> own);

    // What is noted first stays.
    void note(Seat seat, std::span<const std::byte> addresses);
    // Nobody needs its addresses any more.
    void note_end(Seat seat);

    // Null: not known.
    const std::vector<std::byte>* find(Seat seat) const;
    // Neither its addresses are known, nor that it has ended.
    bool lacks(Seat seat) const;
    // Nothing is lacking.
    bool is_complete() const { return lacking_ == 0; }
    std::vector<Seat> lacking() const;

    // Some of what is lacking, from the first on, in at most so many bytes.
    Wanted wanted(std::size_t most_bytes) const;
    // What this book has of what another one wants: at most so many pages of at most so many bytes each.
    std::vector<Page> pages(Seat first, std::span<const std::byte> wanted, std::size_t most_bytes,
                            std::size_t most_pages) const;
    // The entries of a page for a book of so many seats; none if it is no page.
    static std::optional<std::vector<Entry>> read(std::span<const std::byte> page, std::uint32_t seats);

  private:
    struct Line {
        std::vector<std::byte> addresses;
        bool has_ended = false;

        bool is_lacking() const { return addresses.empty() && !has_ended; }
    };

    std::vector<Line> lines_;  // by seat
    std::uint32_t lacking_;
};

}  // namespace coppice::engine
