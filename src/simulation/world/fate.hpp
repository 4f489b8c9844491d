// What happens to the ranks of one world, and how its wires and hosts are: every knob bounded, all of them drawn from one seed.
#pragma once

#include <cstdint>
#include <vector>

namespace coppice::world {

inline constexpr std::uint32_t kMostRanks = 64;
inline constexpr std::uint64_t kNever = UINT64_MAX;
inline constexpr std::uint64_t kStartNs = 1'000'000;  // when a world begins

// A rank ends before its n-th action on wire or memory, at a time, or so long after another rank's end, whichever comes first.
struct Death {
    std::uint32_t rank = 0;
    std::uint64_t at_action = kNever;
    std::uint64_t at_ns = kNever;
    std::uint32_t follows = kMostRanks;  // that rank; kMostRanks: none
    std::uint64_t after_ns = 0;
};
// It does nothing for a while, and then goes on.
struct Stop {
    std::uint32_t rank = 0;
    std::uint64_t at_ns = 0;
    std::uint64_t for_ns = 0;
};

// A process that is started late, at a time or so long after another one's end was seen, on a seat that nobody has had, or of one that has ended.
struct Newcomer {
    std::uint32_t seat = 0;
    std::uint32_t incarnation = 0;
    std::uint32_t host = 0;
    std::uint32_t follows = kMostRanks;  // that process; kMostRanks: none
    std::uint64_t after_ns = 0;          // that, or the world's begin
};

// For a while nothing passes between hosts of its two sides; both live. Connections that stand then, or are asked for, break at each
// end for itself where it lasts longer than all take to notice; else what was sent arrives when it is over.
struct Cut {
    std::uint64_t hosts = 0;  // of one side, a bit each
    std::uint64_t at_ns = 0;
    std::uint64_t for_ns = kNever;  // kNever: for good

    bool parts(std::uint32_t host, std::uint32_t other) const { return ((hosts >> host ^ hosts >> other) & 1) != 0; }
    std::uint64_t begins_ns() const { return kStartNs + at_ns; }
    std::uint64_t ends_ns() const { return for_ns == kNever ? kNever : begins_ns() + for_ns; }
};

struct Fate {
    std::uint32_t ranks = 2;
    std::vector<std::uint32_t> host_of;  // by rank, newcomers included
    // Their numbers follow those of the ranks that are there from the start: a world's ranks are its processes, whichever seats they have.
    std::vector<Newcomer> newcomers;
    std::vector<Death> deaths;
    std::vector<Stop> stops;
    std::vector<Cut> cuts;

    // --- the wire between hosts
    std::uint64_t latency_ns = 2'000;
    std::uint64_t jitter_ns = 1'000;
    std::uint64_t connect_ns = 20'000;
    bool waits_while_connecting =
        false;  // messages, in the sender; else there is no room for any until the connection stands
    std::uint32_t queue_messages = 64;   // under way from one rank to another, at most
    std::uint32_t slow_link_one_in = 0;  // links that take slow_times as long; 0: none
    std::uint32_t slow_times = 1;
    std::uint32_t by_reference_one_in = 0;  // payloads that leave from the sender's memory a while later; 0: none
    std::uint64_t reference_ns = 20'000;
    bool has_reads = false;  // one-sided: the rank that is read from has no part in them

    // --- shared memory
    std::uint32_t inbox_messages = 64;

    // --- how late a death is noticed, by each rank for itself
    std::uint64_t near_detection_ns = 200'000;
    std::uint64_t far_detection_ns = 3'000'000;
    std::uint32_t late_one_in = 0;  // ranks that notice late_times as late; 0: none
    std::uint32_t late_times = 1;

    // --- how ranks run
    std::uint32_t preempt_one_in = 64;  // actions after which the rank loses its core
    std::uint64_t preempt_ns = 5'000;
    std::uint64_t react_ns = 1'000;  // from what happens until a rank that waits looks
    std::uint32_t polls_before_sleep = 24;
    bool has_thread = true;  // a progress thread

    // Of silence, after which a rank is taken for dead (COPPICE_DETECTION_BOUND); 0: never.
    std::uint64_t detection_bound_ns = 0;

    std::uint32_t processes() const { return ranks + static_cast<std::uint32_t>(newcomers.size()); }
    std::uint32_t seat_of(std::uint32_t rank) const { return rank < ranks ? rank : newcomers[rank - ranks].seat; }
    std::uint32_t incarnation_of(std::uint32_t rank) const {
        return rank < ranks ? 0 : newcomers[rank - ranks].incarnation;
    }
    std::uint32_t seats() const {
        std::uint32_t seats = ranks;
        for (const Newcomer& one : newcomers)
            seats = one.seat < seats ? seats : one.seat + 1;
        return seats;
    }
    // kMostRanks: nobody is that.
    std::uint32_t rank_with(std::uint32_t seat, std::uint32_t incarnation) const {
        for (std::uint32_t rank = 0; rank < processes(); ++rank)
            if (seat_of(rank) == seat && incarnation_of(rank) == incarnation) return rank;
        return kMostRanks;
    }

    // How long any rank takes to notice that another one of another host is dead, or out of reach.
    std::uint64_t longest_detection_ns() const { return far_detection_ns * (late_one_in > 0 ? late_times : 1); }
    bool breaks_connections(const Cut& cut) const { return cut.for_ns > longest_detection_ns(); }
    // Or beats are missed for so long that ranks may be taken for dead.
    bool may_be_noticed(const Cut& cut) const {
        return breaks_connections(cut) || (detection_bound_ns > 0 && cut.for_ns >= detection_bound_ns / 2);
    }
};

}  // namespace coppice::world
