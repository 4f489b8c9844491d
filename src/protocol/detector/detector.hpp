// Which ranks have failed: evidence of deaths comes together here, and goes out to the ranks that have none.
//
// The intuition. Most deaths are seen by some rank for certain: the kernel writes the obituary on the host, a
// connection breaks, a read of the dead one's memory fails. Two things are needed besides. Every rank must be *some*
// rank's to look at. And a rank that sees something must tell so few that nobody is swamped, and so many that all hear
// of it. Both are rings.
//
// After Bosilca, Bouteiller, Guermouche, Herault, Robert, Sens, Dongarra: "Failure detection and propagation in HPC
// systems", SC'16. Each rank observes the next live one on a ring; when that fails, the one behind it is adopted, so
// the ring repairs itself. News goes over a circulant graph, ±1, ±2, ±4 … places, which is O(log P) messages a member
// and O(log P) steps to everybody. Departures from the paper:
//
//  - Two rings. Ranks of a host share what they know (obituaries and logs on the board), so news travels between
//    *nodes*, and the lowest live rank of each, its leader, passes it on. Observation runs between *ranks*, row after
//    row: the first rank of every node, then the second of every node, and so on. Neighbours there hardly ever share a
//    host, so a host that is lost is as many gaps of one, found side by side, and not one long gap that has to be
//    repaired death by death.
//  - An observed rank beats to its observer without having been asked: both compute which rank that is from the deaths
//    they know of. A rank that adopts another tells it of the deaths between them, so that it computes the same (the
//    paper's NewObserver).
//  - Silence is evidence only where a bound is set, and then only as time that the *observer* was there to listen: the
//    gap between two looks counts for one period at most. One that computed for a minute, or was stopped, does not hold
//    its own absence against others. Anything heard of the observed rank counts, its beats, its other messages, and
//    that its memory could be read (probes, where the transport has them: those a rank answers without taking part).
//  - A connection of a circulant edge lasts as long as its two ends: when a neighbour fails, the next live one behind
//    it takes its place and is told everything, as is the next leader of a node. So whatever dies in between, the
//    living always form a ring on which all that one of them knows goes round.
//
// What holds, and is checked by exploring every order of events in small groups (tests/protocol/detector):
//  - No rank is suspected that lives and beats, as long as a beat takes less than bound − period from one rank's call
//    to the other's next look.
//  - Every death of which its observer, or any other live rank, has evidence becomes known to every survivor.
//  - A member tells of each death no more than 2⌈log2 S⌉ others (S nodes), and again only the ranks that take the place
//    of others.
// What does not: a network that parts in two. Each side then takes the other for dead.
//
// A pure machine like the others (machine.hpp), between ranks: time is an argument, and is looked at only where a bound
// is set. Allocates when a rank fails, never otherwise. Choosing another neighbour walks over the dead between.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/words.hpp"
#include "protocol/failed_set.hpp"
#include "topology/nodes.hpp"

namespace coppice::protocol {

enum class DetectorKind : std::uint8_t {
    heartbeat,  // a message: I live
    notice,     // a message: `about` has failed
    watch,      // for the driver: open the connection to `to`, so that its end is noticed
    probe,      // for the driver: read memory of `to`, if that can be done, and say heard(to) when it succeeds
};

constexpr bool is_message(DetectorKind kind) {
    return kind == DetectorKind::heartbeat || kind == DetectorKind::notice;
}
constexpr bool carries_payload(DetectorKind /*kind*/) {
    return false;
}
std::string_view to_string(DetectorKind kind);

struct DetectorMessage {
    DetectorKind kind = DetectorKind::heartbeat;
    Rank from;
    Rank to;
    Rank about;  // notices only; else `to`

    bool operator==(const DetectorMessage&) const = default;
};

struct DetectorPlan {
    const topology::Nodes* nodes = nullptr;  // outlives the machine; the same at all ranks
    Nanoseconds period{0};                   // between two beats; more than 0 and at most half of the bound
    Nanoseconds bound{0};                    // of silence; 0: it means nothing, and nobody beats
};

class Detector {
  public:
    using Message = DetectorMessage;

    Detector(const DetectorPlan& plan, Rank self);

    // --------------------------------------------------------------------------------------------------- facts

    // From the wire. False for what can't be. What it says of failures is handed out by next_failed().
    bool receive(const DetectorMessage& message);
    // Something came from there, of whatever kind, or its memory could be read.
    void heard(Rank rank) {
        if (rank.value == observed_) heard_ = true;
    }
    // Certain evidence, or what a rank of this host has written into its log. False: known already.
    bool peer_failed(Rank rank);
    // The same for many, which costs little more than for one. Never this rank.
    void peers_failed(const FailedSet& ranks);
    // At the start: these have failed already, and nobody has to be told of them.
    void begin_without(const FailedSet& ranks);
    // It has left in peace: nobody's to observe, and no failure.
    void peer_left(Rank rank);
    // This rank wants to count as failed: the others are told so.
    void give_up();

    // -------------------------------------------------------------------------------------------------- pulled

    // What to do next; call until there is nothing, when facts came and at next_timer().
    std::optional<DetectorMessage> next_send(Nanoseconds now);
    // Ranks that this machine was told of, or finds silent, each once: the driver's to know. peer_failed() gives none.
    std::optional<Rank> next_failed();
    // Whether this machine itself has found that rank silent: which says something of its process, not of its part in the group alone.
    bool found_silent(Rank rank) const { return silent_.contains(rank.value); }
    Nanoseconds next_timer() const;

    // ------------------------------------------------------------------------------------------------- looking

    const FailedSet& failed() const { return failed_; }
    // Somebody takes this rank for dead. It says nothing more.
    bool fenced() const { return fenced_; }
    std::optional<Rank> observed() const;
    std::optional<Rank> observer() const;
    // The lowest rank of a node that is here, as far as is known.
    std::optional<Rank> leader(std::uint32_t node) const;
    // Everything that decides what it does next, in a group where no bound is set: equal words, equal futures.
    void append_state(std::vector<std::uint32_t>& words) const;

  private:
    static constexpr std::uint32_t kNobody = UINT32_MAX;

    // A place on the circulant graph.
    struct Target {
        std::uint32_t distance = 0;
        bool to_right = true;
        std::uint32_t leader = kNobody;  // the one that is told; of the first node from there outward that has one
        std::uint32_t told = 0;          // of news_, from the front
    };

    bool absent(std::uint32_t rank) const { return failed_.contains(rank) || left_.contains(rank); }
    bool note_failure(std::uint32_t rank);
    void note_absence();
    std::uint32_t step(std::uint32_t rank, bool forward) const;
    std::uint32_t neighbour(bool forward) const;
    void choose_observed();
    void choose_targets();
    std::uint32_t leader_from(const Target& target) const;
    std::optional<DetectorMessage> next_notice();
    std::optional<DetectorMessage> next_adoption();
    void listen(Nanoseconds now);
    DetectorMessage message(DetectorKind kind, std::uint32_t to, std::uint32_t about) const {
        return {.kind = kind, .from = Rank(self_), .to = Rank(to), .about = Rank(about)};
    }

    const topology::Nodes* nodes_;
    Nanoseconds period_;
    Nanoseconds bound_;
    std::uint32_t self_;
    std::uint32_t own_node_;
    std::uint32_t row_;   // this rank's place among those of its node, dead or alive
    std::uint32_t rows_;  // of the largest node

    FailedSet failed_;
    FailedSet left_;
    FailedSet silent_;        // found here
    std::vector<Rank> news_;  // failures in the order in which they became known here
    std::vector<Target> targets_;
    std::vector<Rank> untold_;  // for next_failed()
    std::size_t handed_out_ = 0;

    std::uint32_t observed_ = kNobody;
    std::uint32_t observer_ = kNobody;
    std::uint32_t adopting_ =
        kNobody;  // the next rank between here and the observed one of which that may have to hear
    bool must_watch_ = false;
    bool is_leader_ = false;
    bool fenced_ = false;

    bool heard_ = false;
    bool clock_runs_ = false;
    std::int64_t silence_ = 0;  // of the observed rank, as far as this one listened; negative: the grace of a new one
    std::uint64_t looked_ = 0;
    std::uint64_t next_beat_ = 0;
    std::uint64_t next_probe_ = 0;
};

}  // namespace coppice::protocol
