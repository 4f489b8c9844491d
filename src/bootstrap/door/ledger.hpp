// What every member remembers of those that have come by tickets, so that any of them can keep the door next: which incarnations of a number
// there have been, and how often a ticket was used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bootstrap/launcher_protocol.hpp"
#include "bootstrap/ticket.hpp"

namespace coppice::bootstrap {

// The use of a ticket. It goes before the card of whoever came by it; all zeros before that of a member. A process that has to begin anew, as the
// member at whose door it waited is gone, uses its ticket once.
struct TicketUse {
    TicketId id{};
    std::uint64_t expires_ns = 0;
    std::uint64_t joiner = 0;  // drawn by the process
};
static_assert(sizeof(TicketUse) == 32);

class Ledger {
  public:
    // Uses that are kept: where there is no room for more, of tickets that have not expired yet. One more is refused.
    static constexpr std::size_t kMostUses = 1024;

    explicit Ledger(std::uint32_t capacity) : next_(capacity, 0) {}

    std::uint32_t capacity() const { return static_cast<std::uint32_t>(next_.size()); }
    // Of the next process that gets this number; 0: none had it.
    std::uint32_t next_incarnation(std::uint32_t number) const { return next_[number]; }
    void note(const PersonBody& who);
    // `wall_ns`, here and below: the time by which tickets expire.
    void note_use(const TicketUse& use, const PersonBody& who, std::uint64_t wall_ns);
    std::uint32_t used(const TicketId& id) const;
    bool has_used(const TicketUse& use) const;
    // Calls tell(number, incarnation) for each process that has come by that use.
    template <class Tell>
    void for_each_of(const TicketUse& use, Tell&& tell) const {
        for (const Used& one : used_)
            if (one.use.id == use.id && one.use.joiner == use.joiner) tell(one.number, one.incarnation);
    }
    bool has_room(std::uint64_t wall_ns);

    // For the member that keeps the door next, and for newcomers.
    std::vector<std::byte> bytes() const;
    // Takes in what another one remembers. False, and nothing is taken in, for bytes that none has written.
    bool merge(std::span<const std::byte> bytes, std::uint64_t wall_ns);

  private:
    struct Used {
        TicketUse use;
        std::uint32_t number = 0;
        std::uint32_t incarnation = 0;
    };
    static_assert(sizeof(Used) == 40);

    void add(const Used& used, std::uint64_t wall_ns);

    std::vector<std::uint32_t> next_;  // by number
    std::vector<Used> used_;
};

}  // namespace coppice::bootstrap
