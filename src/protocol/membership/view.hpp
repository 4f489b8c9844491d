// A view: its members, their order, and its epoch. And the change that makes the next view of it.
//
// A member is a seat and an incarnation: how often the seat was taken before. A process sits in one seat, once in its
// life; it is named by a number of the driver's that no other process of the job ever gets (`Process`). So nothing of an
// earlier holder of a seat can count for a later one. A member's rank in a view is the number of taken seats below its own.
//
// A view is written down as what differs from the first one, in which processes 0 … N−1 sit in the seats 0 … N−1: which
// seats are empty, as intervals, and which were taken again or added.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/words.hpp"
#include "protocol/failed_set.hpp"

namespace coppice::protocol {

using Seat = Number<struct SeatTag, std::uint32_t>;
using Process = Number<struct ProcessTag, std::uint32_t>;

struct Occupant {
    Seat seat;
    std::uint32_t incarnation = 0;
    Process process;

    bool operator==(const Occupant&) const = default;
};

// How many members a caller wants the next view to have: it is waited for the least, and newcomers are taken in up to the most.
struct Bounds {
    std::uint32_t least = 0;
    std::uint32_t most = UINT32_MAX;

    bool operator==(const Bounds&) const = default;
};

// What callers ask of the next view, in a word: those of them that ask for something have to ask for the same.
class Terms {
  public:
    static constexpr std::uint32_t kMostMembers = (1U << 24) - 1;  // as `most`, this and more: any number

    // Asks for nothing: for whatever the others do.
    constexpr Terms() = default;
    // `numbering` is the driver's, below 128.
    constexpr explicit Terms(const Bounds& bounds, std::uint32_t numbering = 0)
        : word_(kAsks | std::uint64_t{numbering & 127} << 48 |
                std::uint64_t{std::min(bounds.least, kMostMembers)} << 24 | std::min(bounds.most, kMostMembers)) {}
    // As others have written it; none: no terms look like that.
    static constexpr std::optional<Terms> of_word(std::uint64_t word) {
        Terms terms;
        terms.word_ = word;
        const Bounds bounds = terms.bounds();
        const bool asks = word >> 55 == kAsks >> 55 && bounds.least <= bounds.most;
        return asks || word == kAtOdds || word == kNothing ? std::optional(terms) : std::nullopt;
    }
    constexpr std::uint64_t word() const { return word_; }

    constexpr bool is_at_odds() const { return word_ == kAtOdds; }
    constexpr bool asks() const { return word_ != kNothing && word_ != kAtOdds; }
    // Where nobody asks for anything: any number.
    constexpr Bounds bounds() const {
        if (!asks()) return {};
        const std::uint32_t most = word_ & kMostMembers;
        return {.least = static_cast<std::uint32_t>(word_ >> 24 & kMostMembers),
                .most = most == kMostMembers ? UINT32_MAX : most};
    }
    constexpr Terms& operator&=(const Terms& other) {
        if (word_ == kNothing) {
            word_ = other.word_;
        } else if (other.word_ != kNothing && other.word_ != word_) {
            word_ = kAtOdds;
        }
        return *this;
    }
    constexpr bool operator==(const Terms&) const = default;

  private:
    static constexpr std::uint64_t kAsks = std::uint64_t{1} << 55;
    static constexpr std::uint64_t kAtOdds = 0;
    static constexpr std::uint64_t kNothing = UINT64_MAX;
    std::uint64_t word_ = kNothing;
};

// What each member that wants the next view brings along: the view has of it what all bring (renew()). What a member has brought counts
// also where it dies before the view.
struct Offer {
    std::uint32_t bits = UINT32_MAX;  // the driver's
    Terms terms{};                    // what the member asks for

    constexpr bool is_at_odds() const { return terms.is_at_odds(); }
    constexpr Offer& operator&=(const Offer& other) {
        bits &= other.bits;
        terms &= other.terms;
        return *this;
    }
    bool operator==(const Offer&) const = default;
};

// What a decree says: the seats that are empty in the next view, and who sits down, in the order of the seats.
struct Change {
    FailedSet gone;
    std::vector<Occupant> joined;
    Offer offer{};     // of all of the next view's members, in common
    FailedSet left{};  // of the seats that are gone: whose holders wanted that

    bool seats(Process process) const;
    bool operator==(const Change&) const = default;
};

class View {
  public:
    View() = default;
    explicit View(std::uint32_t seats) : first_(seats), seats_(seats) {}

    std::uint32_t epoch() const { return epoch_; }
    std::uint32_t seats() const { return seats_; }  // taken or not
    std::uint32_t count() const { return seats_ - empty_.count(); }
    const Offer& offer() const { return offer_; }      // that of the change which made it
    const FailedSet& empty() const { return empty_; }  // seats that nobody has
    bool has(Seat seat) const { return seat.value < seats_ && !empty_.contains(seat.value); }

    // Of members. As many steps as there are runs of empty seats, and seats that were taken again.
    Seat seat_of(std::uint32_t rank) const;
    std::uint32_t rank_of(Seat seat) const;
    Process process_of(std::uint32_t rank) const;
    std::optional<std::uint32_t> rank_of(Process process) const;
    // How often the seat has been taken before; of an empty one, by its last holder.
    std::uint32_t incarnation_of(Seat seat) const;
    // Who has the seat, or had it last; none where nobody ever did.
    std::optional<Process> holder_of(Seat seat) const;

    View after(const Change& change) const;

    bool operator==(const View&) const = default;
    void append_state(std::vector<std::uint32_t>& words) const;

  private:
    const Occupant* find(Seat seat) const;

    std::uint32_t epoch_ = 0;
    std::uint32_t first_ = 0;  // seats of the first view
    std::uint32_t seats_ = 0;
    Offer offer_;
    FailedSet empty_;
    std::vector<Occupant>
        later_;  // by seat: those who were not there first, the last holders of empty seats among them
};

void append_state(const FailedSet& set, std::vector<std::uint32_t>& words);
void append_state(const Offer& offer, std::vector<std::uint32_t>& words);
void append_state(const Change& change, std::vector<std::uint32_t>& words);

}  // namespace coppice::protocol
