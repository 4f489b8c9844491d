// What ranks write to each other to copy addresses: letters, what is wanted, and pages of a book.
#include "engine/addresses/address_book.hpp"
#include "engine/addresses/letter.hpp"

#include "fuzz.hpp"

using namespace coppice;
using engine::AddressBook;
using engine::Letter;

namespace {

constexpr std::uint32_t kToken = 0x0badcafe;
constexpr std::uint32_t kSeats = 40;
constexpr std::size_t kMostBytes = 256;
constexpr std::size_t kMostPages = 3;

// Each letter has one form.
std::optional<Letter> read_letter(fuzz::Input& input) {
    const bool is_sound = (input.number<std::uint8_t>() & 1U) != 0;
    std::vector<std::byte> header = fuzz::exact(input.take(input.number<std::uint8_t>()));
    const std::vector<std::byte> payload = fuzz::exact(input.piece());
    // The sender of a letter knows all of it but the seat and the number.
    if (is_sound && header.size() >= sizeof(std::uint64_t) + 1) {
        std::uint32_t from = 0;
        std::uint32_t number = 0;
        std::memcpy(&from, header.data(), sizeof from);
        std::memcpy(&number, header.data() + sizeof from, sizeof number);
        const auto kind = static_cast<engine::AddressesKind>(std::to_integer<unsigned>(header[8]) % 4);
        const Letter letter{.kind = kind, .from = Seat(from % (2 * kSeats)), .number = number, .content = payload};
        const engine::Encoded bytes = letter.header(kToken);
        const std::span<const std::byte> written(bytes);
        const std::vector<std::byte> changes(header.begin() + 9, header.end());
        header.assign(written.begin(), written.end());
        if (!changes.empty()) header[std::to_integer<std::size_t>(changes[0]) % header.size()] ^= changes.back();
    }
    auto letter = Letter::read(header, payload, kToken, kSeats);
    if (!letter) return letter;
    FUZZ_CHECK(letter->from.value < kSeats && fuzz::same(letter->content, payload));
    FUZZ_CHECK(fuzz::same(letter->header(kToken), header));
    FUZZ_CHECK(!Letter::read(header, payload, kToken + 1, kSeats));
    FUZZ_CHECK(!Letter::read(header, payload, kToken, letter->from.value));
    return letter;
}

// A book with addresses of some, and some that have ended.
AddressBook made_book(fuzz::Input& input) {
    AddressBook book(kSeats, Seat(0), {});
    for (int notes = input.number<std::uint8_t>() % 64; notes > 0; --notes) {
        const auto what = input.number<std::uint16_t>();
        const Seat seat(what % kSeats);
        if ((what >> 8) % 4 == 0)
            book.note_end(seat);
        else
            book.note(seat, input.take(what >> 8));
    }
    return book;
}

// What was wanted, as far as the book has it, and no byte more than a page may have.
void answer(const AddressBook& book, std::uint32_t first, std::span<const std::byte> wanted) {
    const auto is_wanted = [&](std::uint32_t seat) {
        const std::uint64_t bit = std::uint64_t{seat} - first;
        return seat >= first && bit < 8 * wanted.size() &&
               (wanted[bit / 8] >> (bit % 8) & std::byte{1}) != std::byte{0};
    };
    const auto pages = book.pages(Seat(first), wanted, kMostBytes, kMostPages);
    FUZZ_CHECK(pages.size() <= kMostPages);
    std::uint32_t next = 0;
    for (const AddressBook::Page& page : pages) {
        FUZZ_CHECK(!page.empty() && page.size() <= kMostBytes);
        const std::vector<std::byte> bytes = fuzz::exact(page);
        const auto entries = AddressBook::read(bytes, kSeats);
        FUZZ_CHECK(entries && !entries->empty());
        for (const AddressBook::Entry& entry : *entries) {
            FUZZ_CHECK(entry.seat.value >= next && is_wanted(entry.seat.value) && !book.lacks(entry.seat));
            next = entry.seat.value + 1;
            const auto* const its = book.find(entry.seat);
            FUZZ_CHECK(its == nullptr ? entry.addresses.empty() : fuzz::same(entry.addresses, *its));
        }
    }
}

// The same bytes again, from what was read of them.
void read_page(std::span<const std::byte> content) {
    const std::vector<std::byte> page = fuzz::exact(content);
    const auto entries = AddressBook::read(page, kSeats);
    if (!entries) return;
    std::vector<std::byte> written;
    AddressBook book(kSeats, Seat(0), {});
    std::vector<std::vector<std::byte>> noted(kSeats);
    for (const AddressBook::Entry& entry : *entries) {
        FUZZ_CHECK(entry.seat.value < kSeats && fuzz::within(entry.addresses, page));
        FUZZ_CHECK(!AddressBook::read(page, entry.seat.value));  // in a book that has no such seat
        const std::uint32_t head[] = {entry.seat.value, static_cast<std::uint32_t>(entry.addresses.size())};
        const auto bytes = std::as_bytes(std::span(head));
        written.insert(written.end(), bytes.begin(), bytes.end());
        written.insert(written.end(), entry.addresses.begin(), entry.addresses.end());
        auto& its = noted[entry.seat.value];
        if (its.empty()) its = fuzz::exact(entry.addresses);
        book.note(entry.seat, entry.addresses);
    }
    FUZZ_CHECK(fuzz::same(written, page));
    // What is noted first stays; and it is all that the book has.
    for (std::uint32_t seat = 0; seat < kSeats; ++seat) {
        const auto* const found = book.find(Seat(seat));
        FUZZ_CHECK(found == nullptr ? noted[seat].empty() : *found == noted[seat]);
    }
}

// One that lacks addresses gets all that others have, however little it asks for at a time.
void copy_all(const AddressBook& from, fuzz::Input& input) {
    AddressBook to = made_book(input);
    const std::size_t most = 1 + input.number<std::uint8_t>() % 8;
    const std::size_t before = to.lacking().size();
    const AddressBook::Wanted wanted = to.wanted(most);
    FUZZ_CHECK(wanted.seats.size() <= most && (before > 0) == !wanted.seats.empty());
    answer(from, wanted.first.value, wanted.seats);
    for (const AddressBook::Page& page : from.pages(wanted.first, wanted.seats, kMostBytes, kMostPages)) {
        const auto entries = AddressBook::read(page, kSeats);
        FUZZ_CHECK(entries);
        for (const AddressBook::Entry& entry : *entries) {
            FUZZ_CHECK(to.lacks(entry.seat));
            to.note(entry.seat, entry.addresses);
            if (entry.addresses.empty()) to.note_end(entry.seat);
            FUZZ_CHECK(!to.lacks(entry.seat));
        }
    }
    FUZZ_CHECK(to.lacking().size() <= before && to.is_complete() == to.lacking().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const AddressBook book = made_book(input);
    copy_all(book, input);
    while (!input.empty()) {
        const auto letter = read_letter(input);
        if (!letter) continue;
        if (letter->kind == engine::AddressesKind::wanted) answer(book, letter->number, letter->content);
        if (letter->kind == engine::AddressesKind::page) read_page(letter->content);
    }
    return 0;
}
