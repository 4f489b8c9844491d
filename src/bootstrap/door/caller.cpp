#include "bootstrap/door/caller.hpp"

#include <poll.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "bootstrap/door/doors.hpp"

namespace coppice::bootstrap {
namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
// Of one address: a host that is gone does not say so, and one whose processes are stopped takes connections.
constexpr std::uint64_t kConnectNs = 2'000 * kMillisecond;
constexpr std::uint64_t kAnswerNs = 5'000 * kMillisecond;
// Longer than a member that keeps the door has patience with its guests.
constexpr std::uint64_t kEntryNs = Door::kGuestPatienceNs + kAnswerNs;
constexpr std::uint64_t kPauseNs = 20 * kMillisecond;
constexpr int kMostHops = 4;

// How asking at one door ended.
struct Outcome {
    enum class Kind : std::uint8_t {
        inside,
        elsewhere,
        again,
        nobody,    // nothing listens there
        stranger,  // whoever listens there has not shown that it knows the ticket
        refused,   // for good, with this ticket, by a member of its group
    };
    Kind kind = Kind::again;
    std::optional<Line> line{};
    Welcome welcome{};
    DoorAddress door{};
    Error error{};
};

class Caller {
  public:
    Caller(const Ticket& ticket, std::uint64_t joiner, std::uint64_t deadline_ns)
        : ticket_(ticket), joiner_(joiner), deadline_ns_(deadline_ns) {}

    Outcome ask(const DoorAddress& door) const {
        Outcome outcome{.kind = Outcome::Kind::nobody};
        for (const DoorAddress::Ip& ip : door.ips) {
            outcome = ask(ip, door.port);
            if (outcome.kind != Outcome::Kind::nobody) break;
        }
        return outcome;
    }

  private:
    static Outcome refuse(Outcome::Kind kind, coppice_status_t status, std::string message) {
        return {.kind = kind, .error = {status, std::move(message)}};
    }

    // Until something happens there; false: the time is up.
    static bool await(const Line& line, bool for_room, std::uint64_t until_ns) {
        const std::uint64_t now = now_ns();
        if (now >= until_ns) return false;
        pollfd entry{line.socket(), static_cast<short>(POLLIN | (for_room ? POLLOUT : 0)), 0};
        ::poll(&entry, 1, static_cast<int>(std::min<std::uint64_t>(until_ns - now, kAnswerNs) / kMillisecond + 1));
        return true;
    }

    Outcome ask(const DoorAddress::Ip& ip, std::uint16_t port) const {
        Handle socket = start_to_connect(ip, port);
        if (socket.get() < 0) return {.kind = Outcome::Kind::nobody};
        Knock knock;
        knock.uses = ticket_.terms.uses;
        knock.id = ticket_.terms.id;
        knock.expires_ns = ticket_.terms.expires_ns;
        knock.number = static_cast<std::uint32_t>(joiner_ >> 32);
        knock.incarnation = static_cast<std::uint32_t>(joiner_);
        knock.nonce = draw_door_nonce();
        Line line(std::move(socket), Passage::knock(ticket_.key, knock));
        const std::uint64_t begin = now_ns();
        bool is_connected = false;
        for (;;) {
            line.move();
            is_connected = is_connected || !line.has_unsent();
            if (auto outcome = judge(line)) return std::move(*outcome);
            if (line.is_over()) return {.kind = is_connected ? Outcome::Kind::again : Outcome::Kind::nobody};
            const std::uint64_t patience = line.is_open() ? kEntryNs : is_connected ? kAnswerNs : kConnectNs;
            if (!await(line, line.has_unsent(), std::min(begin + patience, deadline_ns_)))
                return {.kind = is_connected ? Outcome::Kind::again : Outcome::Kind::nobody};
        }
    }

    // None: nothing is known yet.
    std::optional<Outcome> judge(Line& line) const {
        using State = Passage::State;
        if (line.passage().state() == State::misunderstood) {
            return refuse(Outcome::Kind::stranger, COPPICE_ERR_MISMATCH,
                          fmt::format("the group's door speaks version {} of its protocol, this process version {}, or "
                                      "another word size or byte order: install one version",
                                      line.passage().their_version(), kDoorVersion));
        }
        if (line.passage().state() == State::forged || line.passage().state() == State::broken) {
            return refuse(Outcome::Kind::stranger, COPPICE_ERR_BOOTSTRAP,
                          "whoever listens at the ticket's door does not know it: the ticket was changed, or is of a "
                          "group that has ended");
        }
        const auto frame = line.next();
        if (!frame) return std::nullopt;
        std::span<const std::byte> rest(frame->body);
        if (frame->kind == FrameKind::welcome_in) {
            Outcome outcome{.kind = Outcome::Kind::inside};
            if (!take(rest, outcome.welcome.host)) return Outcome{};
            outcome.welcome.ledger.assign(rest.begin(), rest.end());
            outcome.line.emplace(std::move(line));
            return outcome;
        }
        if (frame->kind == FrameKind::elsewhere) {
            auto door = DoorAddress::parse(rest);
            if (!door) return Outcome{};
            return Outcome{.kind = Outcome::Kind::elsewhere, .door = std::move(*door)};
        }
        std::int32_t status = 0;
        if (frame->kind != FrameKind::refused || !take(rest, status)) return Outcome{};
        const bool is_full = status == COPPICE_ERR_NO_RESOURCES;
        return refuse(Outcome::Kind::refused, is_full ? COPPICE_ERR_NO_RESOURCES : COPPICE_ERR_BOOTSTRAP,
                      "the group does not take this process in: " + readable(rest));
    }

    const Ticket& ticket_;
    std::uint64_t joiner_;
    std::uint64_t deadline_ns_;
};

// With one ticket, at all of its doors once.
Outcome go_around(const Ticket& ticket, std::uint64_t joiner, std::uint64_t deadline_ns) {
    const Caller caller(ticket, joiner, deadline_ns);
    Outcome best{.kind = Outcome::Kind::nobody};
    for (const DoorAddress& first : ticket.doors) {
        Outcome outcome = caller.ask(first);
        for (int hop = 0; hop < kMostHops && outcome.kind == Outcome::Kind::elsewhere; ++hop) {
            outcome = caller.ask(outcome.door);
            // Whoever sent this process there may have to learn yet that nobody is there any more.
            if (outcome.kind == Outcome::Kind::nobody) outcome.kind = Outcome::Kind::again;
        }
        if (outcome.kind == Outcome::Kind::elsewhere) outcome.kind = Outcome::Kind::again;
        // A ticket that is no good is none anywhere. That there is no room is what one member knows, and another may keep the door by now.
        const bool is_refused = outcome.kind == Outcome::Kind::refused;
        const bool is_final = is_refused && outcome.error.status != COPPICE_ERR_NO_RESOURCES;
        if (outcome.kind == Outcome::Kind::inside || is_final) return outcome;
        // Somebody else may have got this port since: another door may know better.
        const bool is_better = best.kind == Outcome::Kind::nobody || is_refused ||
                               (outcome.kind == Outcome::Kind::again && best.kind != Outcome::Kind::refused);
        if (is_better && outcome.kind != Outcome::Kind::nobody) best = std::move(outcome);
        if (now_ns() >= deadline_ns) break;
    }
    return best;
}

}  // namespace

std::uint64_t draw_joiner() {
    std::uint64_t joiner = 0;
    randombytes_buf(&joiner, sizeof joiner);
    return joiner;
}

Result<std::vector<Ticket>> read_tickets(std::span<const std::byte> bytes) {
    std::vector<Ticket> tickets;
    while (!bytes.empty()) {
        Ticket ticket;
        const std::size_t length = Ticket::length_of(bytes);
        const auto reading = Ticket::read(bytes.first(std::min(length, bytes.size())), ticket);
        if (reading == Ticket::Reading::of_another_version)
            return fail(COPPICE_ERR_MISMATCH,
                        "the ticket is of another version of Coppice than this process ({}): install one version",
                        kTicketVersion);
        if (reading == Ticket::Reading::damaged || tickets.size() >= kMostTickets)
            return fail(
                COPPICE_ERR_INVALID_ARGUMENT, "{}: give what coppice_group_invite has made, whole and as it is",
                tickets.size() >= kMostTickets ? "these are too many tickets" : "this is no ticket, or a part of one");
        tickets.push_back(std::move(ticket));
        bytes = bytes.subspan(length);
    }
    if (tickets.empty()) return fail(COPPICE_ERR_INVALID_ARGUMENT, "a ticket of 0 bytes is none");
    return tickets;
}

Result<std::unique_ptr<Door>> be_let_in(std::span<const Ticket> tickets, std::uint64_t joiner, bool host_only,
                                        const std::vector<DoorAddress::Ip>& ips, std::uint64_t deadline_ns) {
    if (sodium_init() < 0)
        return fail(COPPICE_ERR_NO_RESOURCES, "libsodium finds no source of random numbers on this machine");
    std::vector<const Ticket*> good;
    for (const Ticket& ticket : tickets)
        good.push_back(&ticket);
    std::optional<Error> refusal;  // the first one
    for (;;) {
        bool again = false;
        std::optional<Error> doubt;
        std::vector<const Ticket*> refused;
        for (const Ticket* const ticket : good) {
            Outcome outcome = go_around(*ticket, joiner, deadline_ns);
            if (outcome.kind == Outcome::Kind::inside)
                return Door::inside(std::move(*outcome.line), std::move(outcome.welcome), host_only, ips);
            again = again || outcome.kind == Outcome::Kind::again;
            if (outcome.kind == Outcome::Kind::stranger && !doubt) doubt = std::move(outcome.error);
            if (outcome.kind != Outcome::Kind::refused) continue;
            refused.push_back(ticket);
            if (!refusal) refusal = std::move(outcome.error);
        }
        std::erase_if(good, [&refused](const Ticket* one) { return std::ranges::find(refused, one) != refused.end(); });
        if (!again && refusal) return tl::unexpected(std::move(*refusal));
        if (now_ns() >= deadline_ns)
            return fail(COPPICE_ERR_TIMEOUT, "no member of the group has let this process in before the deadline");
        if (!again && doubt) return tl::unexpected(std::move(*doubt));
        if (!again) {
            return fail(COPPICE_ERR_BOOTSTRAP,
                        "nobody listens where the ticket says ({}{}): the group has ended, or those of its members "
                        "that the ticket names; or this host does not reach them",
                        tickets[0].doors[0].text(),
                        tickets[0].doors.size() > 1 ? fmt::format(" and {} more", tickets[0].doors.size() - 1) : "");
        }
        ::poll(nullptr, 0, static_cast<int>(kPauseNs / kMillisecond));
    }
}

}  // namespace coppice::bootstrap
