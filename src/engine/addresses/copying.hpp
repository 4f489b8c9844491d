// Ranks that were told few addresses when the group was made copy the rest from each other.
//
// The intuition. Each rank knows some others from the start, and most of these know it (topology/acquaintance.hpp). A rank that lacks
// addresses asks the ranks that it knows, one after another, for all that it lacks, and gets what each has by then. So what a rank
// knows doubles with each answer, more or less, and some log2 P questions and the answers' bytes are all that is sent. Nobody waits for that: what is
// to be sent to a rank whose address has not come yet waits as for a slow connection (unwired.hpp). A rank that comes to use an address
// introduces itself there, so that the other one can answer.
//
// What holds
//  - A rank asks one other at a time, at most every kFirstPauseNs while answers bring nothing new or none comes, and less and less often.
//  - No rank leaves before it has all addresses and those that it knows from the start have them: what it alone knows is known to those that stay. But it
//    waits for that no longer than kLeavingPatienceNs: others may be stopped, or away without a progress thread.
//  - Whose address is wanted is not taken for dead for its silence, whatever the bound, for kPatienceNs. Deaths become known as
//    ever; nobody asks for the addresses of the dead.
//  - When all ranks have died that had an address from the start, and none of those that this rank knows has a copy, the rank is taken for dead once it is
//    wanted: no living rank leads to it. So nobody waits for ever.
//
// One for a transport set, for seats that have their first processes: where nobody joins later. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "engine/addresses/address_book.hpp"
#include "engine/addresses/letter.hpp"
#include "engine/seats.hpp"
#include "engine/settings.hpp"
#include "topology/acquaintance.hpp"

namespace coppice::engine {

class Copying {
  public:
    static constexpr std::uint64_t kPatienceNs = 2'000'000'000;
    static constexpr std::uint64_t kLeavingPatienceNs = 2'000'000'000;

    struct Counts {
        std::uint32_t fetched = 0;  // addresses that the launcher's store was asked for, without those of the own host
        std::uint32_t of_host = 0;  // those
        std::uint32_t copied = 0;   // later, from other ranks
        std::uint64_t asked = 0;    // questions
        std::uint64_t garbage = 0;  // letters and addresses that made no sense
    };

    // References outlive this object. `token`: of the first group. `own`: this rank's addresses.
    Copying(Seats& seats, const Settings& settings, topology::Acquaintance acquaintance, std::string own_host,
            Seat self, std::uint32_t token, std::span<const std::byte> own, const Clock& clock);

    // At the start: it was fetched, and is wired.
    void know(Seat seat, std::span<const std::byte> addresses, bool is_of_host);

    // Something is to be sent there, or its end is to be noticed: it is wired as soon as its address is known. From anywhere.
    void want(Seat seat, bool watches = false);
    // It is wanted, not for long: its silence means nothing.
    bool awaits(Seat seat) const;
    // Whether the others need what this rank knows no more. The first call says that it is about to leave.
    bool may_leave();
    // Who lacks addresses still, of those that may_leave() waits for.
    std::optional<Seat> holder() const;

    // Takes what is a letter, and false for all else. From within poll() of a transport: what is to be done is done by poll().
    bool take(std::span<const std::byte> header, std::span<const std::byte> payload);
    // Not from within a transport's poll(). How many things happened.
    std::size_t poll();
    bool is_busy() const {
        return !has_told_ || !strangers_.empty() || !arrived_.empty() || !to_send_.empty() || !wishes_.empty();
    }
    // When poll() is wanted though nothing arrives; UINT64_MAX: not.
    std::uint64_t next_timer_ns() const;

    const Counts& counts() const { return counts_; }

  private:
    struct Wish {
        Seat seat;
        bool watches = false;
        std::uint64_t since_ns = 0;
    };
    struct Sending {
        Seat to;
        Letter letter;
        bool is_taken = false;        // by a transport, which may refer to it
        std::uint32_t in_flight = 0;  // while that is so
    };

    void read(const Letter& letter);
    void answer(const Letter& question);
    void copy(const Letter& letter);
    std::size_t wire_the_wanted();
    bool wire(Seat seat);
    void introduce(Seat seat);
    bool is_of_use(Seat seat) const;
    void note_ends();
    std::vector<Seat> those_to_ask();
    void ask(std::uint64_t now_ns);
    bool is_in_vain(const Wish& wish, std::uint64_t now_ns) const;
    void give_up_the_unreachable(std::uint64_t now_ns);
    void tell_neighbours();
    void send(Sending& sending);
    void write(Seat to, Letter&& letter);

    Seats& seats_;
    Settings settings_;
    topology::Acquaintance acquaintance_;
    std::string own_host_;
    Seat self_;
    std::uint32_t token_;
    std::vector<std::byte> own_;
    const Clock& clock_;
    AddressBook book_;
    std::vector<Seat> neighbours_;  // that it knows from the start, and they it; ascending
    std::vector<Seat> strangers_;   // that it knows from the start, and they have not been told of it yet
    std::vector<Seat> complete_;    // which of them have said so
    std::vector<Seat> wired_;       // whatever has become of them
    std::vector<Wish> wishes_;
    std::vector<Letter> arrived_;
    std::vector<std::unique_ptr<Sending>> to_send_;  // for which there was no room yet, or that are in flight
    std::uint64_t pause_ns_;
    std::uint64_t ask_again_ns_ = 0;
    std::uint64_t turn_;
    std::size_t in_vain_ = 0;  // questions since something new came
    bool has_news_ = false;    // of this answer
    bool has_told_ = false;    // its neighbours that its book is complete
    std::uint64_t leaves_since_ns_ = 0;
    Counts counts_;
};

}  // namespace coppice::engine
