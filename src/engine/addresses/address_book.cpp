#include "engine/addresses/address_book.hpp"

#include <algorithm>
#include <cstring>

namespace coppice::engine {
namespace {

struct EntryHead {
    std::uint32_t seat = 0;
    std::uint32_t length = 0;
};

void append(AddressBook::Page& page, std::uint32_t seat, std::span<const std::byte> addresses) {
    const EntryHead head{.seat = seat, .length = static_cast<std::uint32_t>(addresses.size())};
    const auto* const bytes = reinterpret_cast<const std::byte*>(&head);
    page.insert(page.end(), bytes, bytes + sizeof head);
    page.insert(page.end(), addresses.begin(), addresses.end());
}

}  // namespace

AddressBook::AddressBook(std::uint32_t seats, Seat self, std::span<const std::byte> own)
    : lines_(seats), lacking_(seats) {
    note(self, own);
    note_end(self);  // as nobody need know its addresses here, there may be none
}

void AddressBook::note(Seat seat, std::span<const std::byte> addresses) {
    Line& line = lines_[seat.value];
    if (!line.addresses.empty() || addresses.empty()) return;
    if (line.is_lacking()) --lacking_;
    line.addresses.assign(addresses.begin(), addresses.end());
}

void AddressBook::note_end(Seat seat) {
    Line& line = lines_[seat.value];
    if (line.is_lacking()) --lacking_;
    line.has_ended = true;
}

const std::vector<std::byte>* AddressBook::find(Seat seat) const {
    const Line& line = lines_[seat.value];
    return line.addresses.empty() ? nullptr : &line.addresses;
}

bool AddressBook::lacks(Seat seat) const {
    return lines_[seat.value].is_lacking();
}

std::vector<Seat> AddressBook::lacking() const {
    std::vector<Seat> seats;
    for (std::uint32_t s = 0; s < lines_.size(); ++s)
        if (lines_[s].is_lacking()) seats.emplace_back(s);
    return seats;
}

AddressBook::Wanted AddressBook::wanted(std::size_t most_bytes) const {
    const auto first = static_cast<std::uint32_t>(std::ranges::find_if(lines_, &Line::is_lacking) - lines_.begin());
    Wanted wanted{.first = Seat(first), .seats = {}};
    for (std::size_t s = first; s < lines_.size() && (s - first) / 8 < most_bytes; ++s) {
        const std::size_t bit = s - first;
        if (!lines_[s].is_lacking()) continue;
        wanted.seats.resize(bit / 8 + 1);
        wanted.seats[bit / 8] |= std::byte{1} << (bit % 8);
    }
    return wanted;
}

std::vector<AddressBook::Page> AddressBook::pages(Seat first, std::span<const std::byte> wanted, std::size_t most_bytes,
                                                  std::size_t most_pages) const {
    std::vector<Page> pages;
    for (std::size_t bit = 0; bit < 8 * wanted.size() && first.value + bit < lines_.size(); ++bit) {
        if ((wanted[bit / 8] & std::byte{1} << (bit % 8)) == std::byte{0}) continue;
        const std::size_t seat = first.value + bit;
        const Line& line = lines_[seat];
        const std::size_t bytes = sizeof(EntryHead) + line.addresses.size();
        if (line.is_lacking() || bytes > most_bytes) continue;
        if (pages.empty() || pages.back().size() + bytes > most_bytes) {
            if (pages.size() == most_pages) break;
            pages.emplace_back();
        }
        append(pages.back(), static_cast<std::uint32_t>(seat), line.addresses);
    }
    return pages;
}

std::optional<std::vector<AddressBook::Entry>> AddressBook::read(std::span<const std::byte> page, std::uint32_t seats) {
    std::vector<Entry> entries;
    while (!page.empty()) {
        EntryHead head;
        if (page.size() < sizeof head) return std::nullopt;
        std::memcpy(&head, page.data(), sizeof head);
        page = page.subspan(sizeof head);
        if (head.seat >= seats || head.length > page.size()) return std::nullopt;
        entries.push_back({Seat(head.seat), page.first(head.length)});
        page = page.subspan(head.length);
    }
    return entries;
}

}  // namespace coppice::engine
