// Where those that have come by tickets wait, at the member that keeps the door: the lobby (lobby.hpp), and what a launcher knows by itself:
// who is a member, which numbers are free, which tickets are still good. A pure machine.
//
// A member keeps the door as long as all others hold it to be the one: the living member that has been in for longest, the lowest rank of
// those. Nobody is let in before all members have entered, and told what they remember. When another member keeps the door, all that wait
// begin again there; nothing that was said here counts then.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/admission.hpp"
#include "bootstrap/door/ledger.hpp"
#include "bootstrap/lobby.hpp"

namespace coppice::bootstrap {

class Hall {
  public:
    Hall(const Admission::Company& company, const PersonBody& self, Ledger& ledger);

    // --- members
    // The group has changed. False: it has a member of which this hall can't know; another one has to begin.
    bool attend(const Admission::Company& company);
    // A member says what it is, and what it remembers. Empty, or why it is none.
    std::string enter(std::uint32_t number, std::uint32_t incarnation, std::span<const std::byte> ledger,
                      std::uint64_t wall_ns);
    bool has_entered(std::uint32_t number) const { return seats_[number].has_entered; }
    // All members have.
    bool is_complete() const;

    // --- newcomers
    struct Entry {
        std::optional<std::uint32_t> number{};  // none: it is refused
        coppice_status_t status = COPPICE_OK;
        std::string why{};
        // It was let in before, as this number, and that still counts: its connection broke, and the other end of it stands.
        std::optional<std::uint32_t> earlier{};
    };
    // `joiner`: as the process says, the same whenever it begins anew.
    Entry let_in(const Terms& terms, std::uint64_t joiner, std::uint64_t wall_ns);
    enum class Step : std::uint8_t { member, invited, known, ready };  // how far it has come
    Step step(std::uint32_t number) const;
    void refuse(std::uint32_t number, const std::string& why);

    // --- both
    // A frame of one that has entered. False: it makes no sense.
    bool hear(std::uint32_t number, FrameKind kind, std::span<const std::byte> body, std::uint64_t wall_ns);
    // Its connection is gone.
    void lost(std::uint32_t number);
    std::optional<Lobby::Send> next();

  private:
    struct Seat {
        bool is_member = false;
        bool has_entered = false;  // and has said how it can be reached
        std::uint32_t incarnation = 0;
        std::optional<TicketUse> ticket{};  // of a newcomer
        bool has_card = false;
        bool is_ready = false;
    };
    bool is_newcomer(std::uint32_t number) const { return seats_[number].ticket && !seats_[number].is_member; }
    std::optional<std::uint32_t> free_number() const;
    std::optional<std::uint32_t> earlier_number(const TicketUse& use) const;
    bool is_spent(const Terms& terms, const TicketUse& use) const;
    void end(std::uint32_t number);

    Ledger& ledger_;
    Lobby lobby_;
    std::vector<Seat> seats_;
};

}  // namespace coppice::bootstrap
