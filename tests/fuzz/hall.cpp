// What is said inside a door, by those that have shown a ticket or are members: frames about newcomers, and what a hall tells others of
// them. And tickets, of which a process may be given several.
#include <array>
#include <set>

#include "bootstrap/admission.hpp"
#include "bootstrap/door/caller.hpp"
#include "bootstrap/door/hall.hpp"
#include "fuzz.hpp"

using namespace coppice;
using namespace coppice::bootstrap;

namespace {

// Each list has one form.
void read_several(fuzz::Input& input) {
    std::vector<std::byte> all;
    for (int tickets = input.number<std::uint8_t>() % 4; tickets > 0; --tickets) {
        Ticket ticket;
        ticket.terms.uses = 1 + input.number<std::uint8_t>();
        ticket.doors.assign(1 + input.number<std::uint8_t>() % kMostDoors, {.port = 1, .ips = {DoorAddress::Ip{}}});
        append_bytes(all, ticket.bytes());
    }
    const std::size_t at = input.number<std::uint16_t>() % (all.size() + 1);
    const auto change = input.take(input.number<std::uint8_t>());
    all.resize(std::max(all.size(), at + change.size()));
    std::ranges::copy(change, all.begin() + static_cast<std::ptrdiff_t>(at));
    all.resize(all.size() - std::min<std::size_t>(all.size(), input.number<std::uint8_t>() % 8));
    const std::vector<std::byte> bytes = fuzz::exact(all);
    const auto tickets = read_tickets(bytes);
    if (!tickets) {
        FUZZ_CHECK(!tickets.error().message.empty());
        return;
    }
    FUZZ_CHECK(!tickets->empty() && tickets->size() <= kMostTickets);
    std::vector<std::byte> again;
    for (const Ticket& one : *tickets)
        append_bytes(again, one.bytes());
    FUZZ_CHECK(fuzz::same(again, bytes));
}

// What an event was made of.
std::vector<std::byte> body_of(const Admission::Event& event) {
    using Kind = Admission::Event::Kind;
    std::vector<std::byte> body;
    if (event.kind == Kind::gone) append(body, event.who.serial);
    if (event.kind == Kind::invited || event.kind == Kind::introduced || event.kind == Kind::ready)
        append(body, event.who);
    append_bytes(body, event.body);
    return body;
}

void read_event(fuzz::Input& input) {
    const LauncherFrame frame{static_cast<FrameKind>(input.number<std::uint8_t>() % 32), fuzz::exact(input.rest())};
    if (const auto event = Admission::event_of(frame)) FUZZ_CHECK(fuzz::same(body_of(*event), frame.body));
}

constexpr std::uint32_t kCapacity = 6;
constexpr std::uint64_t kNow = 1'000;

// The hall of member 0, in a group of two.
class Inside {
  public:
    Inside()
        : ledger_(kCapacity),
          hall_({.members = {{0, 0, 0}, {1, 0, 0}}, .keeper = {0, 0, 0}, .door = {}}, {0, 0, 0}, ledger_) {
        inside_.insert(0);
    }

    void enter(fuzz::Input& input) {
        std::vector<std::byte> ledger = Ledger(kCapacity).bytes();
        if (const auto said = input.take(input.number<std::uint8_t>()); !said.empty()) {
            ledger = fuzz::exact(said);
            remembers_more_ = true;
        }
        const auto number = input.number<std::uint8_t>();
        if (hall_.enter(number, input.number<std::uint8_t>() % 2, ledger, kNow).empty()) {
            FUZZ_CHECK(number == 1);
            inside_.insert(number);
        }
    }

    void let_in(fuzz::Input& input) {
        const std::uint32_t which = input.number<std::uint8_t>() % kTickets;
        const auto entry = hall_.let_in(terms(which), input.number<std::uint8_t>() % 4, kNow);
        FUZZ_CHECK(entry.number || !entry.why.empty());
        if (!entry.number) return;
        FUZZ_CHECK(*entry.number < kCapacity && !inside_.contains(*entry.number));
        inside_.insert(*entry.number);
    }

    void hear(fuzz::Input& input) {
        const std::uint32_t number = input.number<std::uint8_t>() % kCapacity;
        if (!inside_.contains(number)) return;
        const auto what = input.number<std::uint8_t>();
        const auto serial = input.number<std::uint8_t>();
        std::vector<std::byte> frame;
        switch (what % 5) {
            case 0:
                frame = Admission::card_frame(input.take(number < 2 ? 8 : 0), input.take(serial));
                break;
            case 1:
                frame = Admission::wired_frame(serial);
                break;
            case 2:
                frame = Admission::unwired_frame(serial, "why");
                break;
            case 3: {
                const PersonBody who{serial, what / 5U, serial};
                frame = Admission::formed_frame({&who, 1}, {}, input.take(8));
                break;
            }
            default: {
                const auto kind = static_cast<FrameKind>(what / 5 % 32);
                frame = make_frame(kind, input.piece());
            }
        }
        std::span<const std::byte> rest(frame);
        FrameHeader header;
        FUZZ_CHECK(take(rest, header));
        const std::vector<std::byte> body = fuzz::exact(rest);
        const bool is_understood = hall_.hear(number, header.kind, body, kNow);
        FUZZ_CHECK(!is_understood || header.kind == FrameKind::card || header.kind == FrameKind::wired ||
                   header.kind == FrameKind::unwired || header.kind == FrameKind::formed);
    }

    void lose(std::uint32_t number) {
        if (number < 2 || inside_.erase(number) == 0) return;  // those two are members
        hall_.lost(number);
    }
    void refuse(std::uint32_t number) {
        if (number > 1 && inside_.contains(number)) hall_.refuse(number, "why");
    }

    // Those that are told something understand it.
    void tell() {
        while (const auto send = hall_.next()) {
            FUZZ_CHECK(send->to < kCapacity);
            std::span<const std::byte> rest(*send->frame);
            FrameHeader header;
            FUZZ_CHECK(take(rest, header) && header.magic == kFrameMagic && header.length == rest.size());
            if (header.kind == FrameKind::refused) {
                FUZZ_CHECK(send->is_last && rest.size() <= kMaxRefusal);
            } else {
                const auto event = Admission::event_of({header.kind, {rest.begin(), rest.end()}});
                FUZZ_CHECK(event && event->who.number < kCapacity);
            }
            if (!send->is_last || inside_.erase(send->to) == 0) continue;
            hall_.lost(send->to);
        }
        for (std::uint32_t which = 0; which < kTickets && !remembers_more_; ++which)
            FUZZ_CHECK(ledger_.used(terms(which).id) <= terms(which).uses);
        static_cast<void>(hall_.is_complete());
    }

  private:
    static constexpr std::uint32_t kTickets = 3;
    // Each is good for as many uses as its number says; the first one has expired.
    static Terms terms(std::uint32_t which) {
        Terms terms;
        terms.id.fill(static_cast<unsigned char>(which + 1));
        terms.uses = which + 1;
        terms.expires_ns = which == 0 ? kNow : kNow + 1;
        return terms;
    }

    Ledger ledger_;
    Hall hall_;
    std::set<std::uint32_t> inside_;
    bool remembers_more_ = false;  // than what has happened here
};

void talk(fuzz::Input& input) {
    Inside inside;
    while (!input.empty()) {
        const auto command = input.number<std::uint8_t>();
        switch (command % 6) {
            case 0:
                inside.enter(input);
                break;
            case 1:
                inside.let_in(input);
                break;
            case 2:
            case 3:
                inside.hear(input);
                break;
            case 4:
                inside.lose(command / 6 % kCapacity);
                break;
            default:
                inside.refuse(command / 6 % kCapacity);
        }
        inside.tell();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    switch (input.number<std::uint8_t>() % 4) {
        case 0:
            read_several(input);
            break;
        case 1:
            read_event(input);
            break;
        default:
            talk(input);
    }
    return 0;
}
