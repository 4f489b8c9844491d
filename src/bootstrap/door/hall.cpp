#include "bootstrap/door/hall.hpp"

#include <algorithm>
#include <utility>

namespace coppice::bootstrap {

Hall::Hall(const Admission::Company& company, const PersonBody& self, Ledger& ledger)
    : ledger_(ledger), lobby_(0, ledger.capacity()), seats_(ledger.capacity()) {
    for (const PersonBody& one : company.members) {
        lobby_.adopt(one.number, one.incarnation);
        seats_[one.number] = {.is_member = true, .incarnation = one.incarnation};
        ledger_.note(one);
    }
    lobby_.enter(self.number, false);
}

bool Hall::attend(const Admission::Company& company) {
    std::vector<bool> is_in(seats_.size(), false);
    for (const PersonBody& one : company.members) {
        Seat& seat = seats_[one.number];
        const bool is_known = (seat.is_member || seat.ticket) && seat.incarnation == one.incarnation;
        if (!is_known) return false;
        is_in[one.number] = true;
        if (!seat.is_member) seat.is_member = seat.has_entered = true;  // it was taken in
    }
    for (std::uint32_t number = 0; number < seats_.size(); ++number)
        if (seats_[number].is_member && !is_in[number]) end(number);
    return true;
}

std::string Hall::enter(std::uint32_t number, std::uint32_t incarnation, std::span<const std::byte> ledger,
                        std::uint64_t wall_ns) {
    if (number >= seats_.size() || !seats_[number].is_member || seats_[number].incarnation != incarnation)
        return "it is no member of the group";
    if (!ledger_.merge(ledger, wall_ns)) return "it remembers what no member does";
    return lobby_.enter(number, false);
}

bool Hall::is_complete() const {
    return std::ranges::all_of(seats_, [](const Seat& seat) { return !seat.is_member || seat.has_entered; });
}

// One that nobody has had goes first: what is left of the dead may still be on its way out at some member.
std::optional<std::uint32_t> Hall::free_number() const {
    const std::uint32_t end = std::min(static_cast<std::uint32_t>(seats_.size()), kMaxLauncherRanks);
    std::optional<std::uint32_t> used_before;
    for (std::uint32_t number = 0; number < end; ++number) {
        const Seat& seat = seats_[number];
        if (seat.is_member || seat.ticket || ledger_.next_incarnation(number) >= kMostIncarnation) continue;
        if (ledger_.next_incarnation(number) == 0) return number;
        if (!used_before) used_before = number;
    }
    return used_before;
}

// Of a process that comes again; as a member, too: it was taken in, and has not been told.
std::optional<std::uint32_t> Hall::earlier_number(const TicketUse& use) const {
    std::optional<std::uint32_t> found;
    for (std::uint32_t number = 0; number < seats_.size(); ++number) {
        const auto& ticket = seats_[number].ticket;
        if (ticket && ticket->id == use.id && ticket->joiner == use.joiner) found = number;
    }
    ledger_.for_each_of(use, [&](std::uint32_t number, std::uint32_t incarnation) {
        const Seat& seat = seats_[number];
        if (seat.is_member && seat.incarnation == incarnation) found = number;
    });
    return found;
}

bool Hall::is_spent(const Terms& terms, const TicketUse& use) const {
    if (ledger_.has_used(use)) return false;  // it begins anew
    // Those that were let in and have not said yet how they can be reached may still use it.
    const auto on_their_way = std::ranges::count_if(seats_, [&terms](const Seat& seat) {
        return seat.ticket && seat.ticket->id == terms.id && !seat.has_card && !seat.is_member;
    });
    return ledger_.used(terms.id) + on_their_way >= terms.uses;
}

Hall::Entry Hall::let_in(const Terms& terms, std::uint64_t joiner, std::uint64_t wall_ns) {
    if (terms.expires_ns <= wall_ns) return {{}, COPPICE_ERR_BOOTSTRAP, "the ticket has expired: ask for a new one"};
    const TicketUse use{.id = terms.id, .expires_ns = terms.expires_ns, .joiner = joiner};
    if (const auto earlier = earlier_number(use))
        return {.status = COPPICE_ERR_BUSY, .why = "it is here already", .earlier = earlier};
    if (is_spent(terms, use))
        return {{}, COPPICE_ERR_BOOTSTRAP, fmt::format("the ticket is spent: it was good for {} uses", terms.uses)};
    if (!ledger_.has_room(wall_ns))
        return {{}, COPPICE_ERR_NO_RESOURCES, "too many tickets are in use: wait until some have expired"};
    const auto number = free_number();
    if (!number) {
        return {{},
                COPPICE_ERR_NO_RESOURCES,
                fmt::format("the group has, or waits for, as many members as it has room for (COPPICE_CAPACITY, {})",
                            seats_.size())};
    }
    const std::uint32_t incarnation = ledger_.next_incarnation(*number);
    lobby_.started_late(*number, incarnation);
    seats_[*number] = {.incarnation = incarnation, .ticket = use};
    ledger_.note({.number = *number, .incarnation = incarnation, .serial = 0});
    std::string objection = lobby_.enter(*number, true);
    if (objection.empty()) return {number, COPPICE_OK, {}};
    end(*number);
    return {{}, COPPICE_ERR_BOOTSTRAP, std::move(objection)};
}

Hall::Step Hall::step(std::uint32_t number) const {
    const Seat& seat = seats_[number];
    if (!is_newcomer(number)) return Step::member;
    return seat.is_ready ? Step::ready : seat.has_card ? Step::known : Step::invited;
}

void Hall::refuse(std::uint32_t number, const std::string& why) {
    lobby_.refuse(number, why);
}

bool Hall::hear(std::uint32_t number, FrameKind kind, std::span<const std::byte> body, std::uint64_t wall_ns) {
    Seat& seat = seats_[number];
    if (kind != FrameKind::card) return lobby_.hear(number, kind, body);
    std::uint32_t length = 0;
    if (!take(body, length) || length > body.size() || body.size() > kMaxBlob) return false;
    const TicketUse use = seat.ticket.value_or(TicketUse{});
    std::vector<std::byte> card;
    append(card, use);
    append_bytes(card, body.subspan(length));
    if (!lobby_.card(number, body.first(length), card)) return false;
    if (seat.is_member) seat.has_entered = true;
    if (!seat.is_member)
        ledger_.note_use(use, {.number = number, .incarnation = seat.incarnation, .serial = 0}, wall_ns);
    seat.has_card = true;
    return true;
}

void Hall::end(std::uint32_t number) {
    seats_[number] = Seat{};
    lobby_.ended(number);
}

// A member may live: as long as the group counts on it nobody is ready whom it does not know.
void Hall::lost(std::uint32_t number) {
    if (!is_newcomer(number)) return;
    // It may have been taken in by others already, of which this member has yet to hear: then it is one that has failed.
    end(number);
}

std::optional<Lobby::Send> Hall::next() {
    auto send = lobby_.next();
    if (!send) return send;
    std::span<const std::byte> rest(*send->frame);
    FrameHeader header;
    PersonBody who;
    if (take(rest, header) && header.kind == FrameKind::ready && take(rest, who)) seats_[who.number].is_ready = true;
    return send;
}

}  // namespace coppice::bootstrap
