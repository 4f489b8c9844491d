// What strangers bring to a member's door, and what members tell each other there.
#include <sodium.h>

#include "bootstrap/door/ledger.hpp"
#include "bootstrap/door/passage.hpp"
#include "bootstrap/ticket.hpp"
#include "fuzz.hpp"

using namespace coppice;
using namespace coppice::bootstrap;

namespace {

constexpr Key kSecret{7};

// Each ticket has one form.
void read_ticket(std::span<const std::byte> input) {
    const std::vector<std::byte> bytes = fuzz::exact(input);
    Ticket ticket;
    FUZZ_CHECK(Ticket::length_of(bytes) > 0);
    if (Ticket::read(bytes, ticket) != Ticket::Reading::whole) return;
    FUZZ_CHECK(fuzz::same(ticket.bytes(), bytes));
    FUZZ_CHECK(bytes.size() <= kLongestTicket);
}

// The same behind a checksum that is right, which chance does not find.
void read_body(std::span<const std::byte> input) {
    Ticket ticket;
    ticket.doors.push_back({.port = 1, .ips = {DoorAddress::Ip{}}});
    std::vector<std::byte> bytes = ticket.bytes();
    for (std::size_t i = 0; i < std::min(input.size(), bytes.size() - 16); ++i)
        bytes[8 + i] ^= input[i];
    read_ticket(bytes);
}

void read_door(std::span<const std::byte> input) {
    const std::vector<std::byte> bytes = fuzz::exact(input);
    const auto door = DoorAddress::parse(bytes);
    if (!door) return;
    FUZZ_CHECK(fuzz::same(door->bytes(), bytes));
    FUZZ_CHECK(!door->ips.empty() && door->ips.size() <= kMostDoorAddresses && door->port != 0);
}

void read_ledger(std::span<const std::byte> input) {
    Ledger ledger(16);
    const std::vector<std::byte> bytes = fuzz::exact(input);
    if (!ledger.merge(bytes, 0)) {
        FUZZ_CHECK(fuzz::same(ledger.bytes(), Ledger(16).bytes()));
        return;
    }
    Ledger again(16);
    FUZZ_CHECK(again.merge(ledger.bytes(), 0));
    FUZZ_CHECK(fuzz::same(again.bytes(), ledger.bytes()));
}

// Pieces of any length, at a door.
void knock(fuzz::Input input) {
    Passage door = Passage::answer([](const Knock& said) { return std::optional(key_of(kSecret, said.terms())); }, {});
    while (!input.empty()) {
        door.receive(fuzz::exact(input.take(input.number<std::uint8_t>())));
        FUZZ_CHECK(door.state() != Passage::State::open);  // nobody guesses a proof
        FUZZ_CHECK(door.output().size() <= sizeof(Answer));
        FUZZ_CHECK(!door.next());
    }
}

// One that has a ticket says what it likes.
void talk(fuzz::Input input) {
    const Key key = key_of(kSecret, {});
    Passage stranger = Passage::knock(key, {});
    Passage door = Passage::answer([&key](const Knock&) { return std::optional(key); }, {});
    const auto carry = [](Passage& from, Passage& to) {
        to.receive(from.output());
        from.output().clear();
    };
    carry(stranger, door);
    carry(door, stranger);
    carry(stranger, door);
    FUZZ_CHECK(door.state() == Passage::State::open && stranger.state() == Passage::State::open);
    const auto said = fuzz::exact(input.piece());
    stranger.send(said);
    carry(stranger, door);
    const auto heard = door.next();
    FUZZ_CHECK(heard && fuzz::same(*heard, said));
    // And what it did not seal.
    while (!input.empty() && !door.is_over()) {
        door.receive(fuzz::exact(input.take(input.number<std::uint8_t>())));
        FUZZ_CHECK(!door.next());
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const bool is_ready = sodium_init() >= 0;
    if (!is_ready) return 0;
    fuzz::Input input(data, size);
    switch (input.number<std::uint8_t>() % 6) {
        case 0:
            read_ticket(input.rest());
            break;
        case 1:
            read_body(input.rest());
            break;
        case 2:
            read_door(input.rest());
            break;
        case 3:
            read_ledger(input.rest());
            break;
        case 4:
            knock(input);
            break;
        default:
            talk(input);
    }
    return 0;
}
