// A large payload at one rank: from which rank to take its chunks, which chunks others want of this one, and what becomes of
// them when the root dies. It begins where a broadcast of a descriptor has told how many chunks there are.
//
// The intuition. A rank has a number, `have`: how many leading chunks it holds. It asks one other rank, its source, for those that
// follow, and that one answers as far as it has them, and goes on when it gets more. So chunks flow down a pipeline
// (topology/pipeline.hpp) in which each rank takes from the one before it. A rank whose source dies asks the next one up the
// pipeline for what it lacks, nothing else: no chunk is sent from the start again. A source that is silent for a while is left
// for the next one, too, up to the root, and then round the ring: it may be stopped, which nobody can tell from slow.
// Up the pipeline first because these ranks have more than this one; a neighbour on the ring may be waiting for it. When all have been
// left the silence that is borne lasts twice as long, so that slow ranks, too, have the time for a chunk.
//
// When the root dies either all get all chunks, or all are told that the root failed. That is the verdict of
// protocol/root_failure.cpp once more, among ranks, with "has all chunks" in the place of "has the payload". A rank that lacks
// chunks says so to the lowest live rank, the coordinator (need). Is the coordinator complete, it says so (complete). Else it asks
// everybody (query); a rank that is complete says it, and all that need it are told which rank that is; one that is not denies,
// and refuses from then on what ranks of the coordinator's failed set have under way. When all live ranks have denied with
// one and the same set, nobody has all chunks and nobody can get them any more (verdict). Why that is final:
// docs/corrections.md. As a rank becomes complete by a last chunk, and only a complete rank has one, it is the same argument.
//
// Where the ranks of a host show each other memory (PullPlan::shows), a rank whose first source is its host's leader asks it for
// nothing: the leader's chunks lie where this rank reads them, and it looks how many there are (shown). They outlive the leader. So
// what a rank has is then what it has seen there while it did not know of the leader's death, and the verdict's argument stands as it
// is: from that notice on it looks no more. Is nothing shown (not_shown), or nothing new for a while, it asks, as always.
//
// The driver's duties:
//  - Refuse every message from a rank from its peer_failed() on. The verdict stands on it.
//  - `query` and `denial` carry the set of those that their sender knows to have failed; tell the machine of each
//    (peer_failed) before receive().
//  - Store a chunk before receive(), and only if takes() says so; hold all chunks as long as any live rank may want them.
//  - While watched() names a rank, look what it shows of this payload, once more right before its peer_failed(), never after.
//  - What one rank sends to another arrives in that order.
//  - Call next_send() after every fact and at next_timer() until it returns nothing.
//
// A pure machine. It allocates when another rank asks for the first time, and after deaths.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/words.hpp"
#include "protocol/failed_set.hpp"
#include "topology/nodes.hpp"

namespace coppice::protocol {

enum class PullKind : std::uint8_t {
    ask,     // the chunks from `first` up to before `end`, in place of all that was asked for before; none: first = end
    credit,  // after an ask: go on up to before `end`
    chunk,   // number `first`
    need,    // to the coordinator: I lack chunks, and the root is dead
    query,   // the coordinator: do you have all chunks? `first` is the round
    denial,  // no, and I refuse what the members of your failed set may still have under way; echoes `first`
    complete,  // rank `first` has all chunks
    verdict,   // no live rank has all chunks, nor ever will: the root failed
};
inline constexpr std::uint8_t kPullKinds = 8;

constexpr bool carries_payload(PullKind kind) {
    return kind == PullKind::chunk;
}
std::string_view to_string(PullKind kind);

struct PullMessage {
    PullKind kind = PullKind::ask;
    Rank from;
    Rank to;
    std::uint32_t first = 0;
    std::uint32_t end = 0;

    bool operator==(const PullMessage&) const = default;
};

// Rules that a test takes away, to see that it is missed. None in what ships.
enum PullFault : std::uint16_t {
    kSourcesAreNotReplaced = 1,  // a rank stays with a source that has died
    kSilenceIsNotHeard = 2,      // or that is silent
    kEverythingAnew = 4,         // another source is asked for all chunks from the first one on
    kNobodyIsAsked = 8,          // the coordinator gives its verdict without asking
    kOldDenialsCount = 16,       // denials of earlier rounds, too
    kNeedIsSaidOnce = 32,        // though the coordinator, or the rank that it named, has died
    kVerdictIsNotTold = 64,      // to those that did not find it themselves
    kAnythingIsServed = 128,     // also chunks that are not here yet
    kTheNeedyAreNotTold = 256,   // that some rank has all chunks
    kTheDeadAreLookedAt = 512,   // what a rank shows counts after its peer_failed(), too
};

struct PullPlan {
    const topology::Nodes* nodes = nullptr;  // outlives the machine; the same at all ranks
    std::uint32_t credit = 32;               // chunks that may be asked for and not be here
    Nanoseconds patience{0};                 // so long a source may be silent
    std::uint16_t faults = 0;
    bool shows = false;  // the ranks of a host can read each other's chunks
};

enum class PullResult : std::uint8_t { pending, complete, root_failed };

class Pull {
  public:
    using Message = PullMessage;

    Pull(const PullPlan& plan, Rank self, Rank root, const FailedSet& failed);

    // --------------------------------------------------------------------------------------------------- facts

    // So many chunks there are, at least one, and memory for them is here. Once.
    void learn(std::uint32_t chunks);
    // At the root: so many of them are there, in memory that it fills. Any number of times, with ever more.
    void hold(std::uint32_t chunks, std::uint32_t have);
    void hold(std::uint32_t chunks) { hold(chunks, chunks); }
    // Whether a chunk is the one that this rank takes next. A root takes none, while it fills its memory, either.
    bool takes(std::uint32_t chunk) const { return chunk == have_ && chunk < chunks_ && self_ != root_; }
    // False for what can't be.
    bool receive(const PullMessage& message);
    // The rank that is watched shows so many leading chunks, which can be read whatever becomes of it; or that it shows none.
    void shown(Rank by, std::uint32_t chunks);
    void not_shown(Rank by);
    // That rank takes what it asks for out of this one's memory: nothing is sent to it until it asks again.
    void is_read_by(Rank rank);
    // A part of a chunk has come from this rank: it is not silent.
    void heard(Rank from) { was_heard_ = was_heard_ || from.value == source_; }
    // A chunk that takes() wanted came damaged, from this rank.
    void spoiled(Rank from);
    void peer_failed(Rank rank);

    // -------------------------------------------------------------------------------------------------- pulled

    std::optional<PullMessage> next_send(Nanoseconds now);
    // When the source has been silent for too long.
    Nanoseconds next_timer() const { return is_waiting() ? wake_ : kNever; }

    // ------------------------------------------------------------------------------------------------- looking

    PullResult result() const {
        if (complete()) return PullResult::complete;
        return given_up_ ? PullResult::root_failed : PullResult::pending;
    }
    std::uint32_t have() const { return have_; }
    std::uint32_t chunks() const { return chunks_; }  // 0: not known yet
    // From which rank chunks are expected.
    std::optional<Rank> source() const;
    // The rank whose memory is to be looked at.
    std::optional<Rank> watched() const;
    // Whether this rank has all chunks, and others may want some of it now: those that have asked, and those live ones whose first source
    // it is. They need not come: what they want may have reached them another way.
    bool is_wanted() const;
    // Everything that decides what it does next, without times: equal words, equal futures.
    void append_state(std::vector<std::uint32_t>& words) const;

  private:
    static constexpr std::uint32_t kNobody = UINT32_MAX;
    static constexpr std::uint32_t kMostDoublings = 7;  // of the patience

    // What another rank has asked for and not been sent.
    struct Stream {
        std::uint32_t to;
        std::uint32_t next;
        std::uint32_t end;
    };

    bool lacks(PullFault rule) const { return (plan_->faults & rule) != 0; }
    bool failed(std::uint32_t rank) const { return failed_.contains(rank); }
    bool has_been_sent_all(std::uint32_t rank) const;
    bool complete() const { return chunks_ > 0 && have_ == chunks_; }
    std::uint32_t ranks() const { return plan_->nodes->ranks(); }
    PullMessage message(PullKind kind, std::uint32_t to, std::uint32_t first = 0, std::uint32_t end = 0) const {
        return {.kind = kind, .from = Rank(self_), .to = Rank(to), .first = first, .end = end};
    }

    // pull.cpp: sources and streams
    bool is_waiting() const { return chunks_ > 0 && have_ < chunks_ && !given_up_ && source_ != kNobody && has_asked_; }
    std::uint32_t leader_of(std::uint32_t node) const;
    std::uint32_t candidate(std::uint32_t number) const;
    void turn_to(std::uint32_t number);
    void leave_source();
    Nanoseconds until_silent(Nanoseconds now) const;
    bool receive_ask(const PullMessage& message);
    bool receive_credit(const PullMessage& message);
    bool receive_chunk(const PullMessage& message);
    std::optional<PullMessage> next_ask(Nanoseconds now);
    std::optional<PullMessage> next_chunk();

    // pull_verdict.cpp: the root's death
    bool is_coordinator() const { return root_dead_ && failed_.lowest_absent() == self_; }
    void learn_of_failures();
    void note_holder(std::uint32_t rank);
    void start_round_if_stale();
    bool receive_verdicts_message(const PullMessage& message);
    bool receive_denial(const PullMessage& message);
    std::optional<PullMessage> next_of_verdict();
    std::optional<PullMessage> next_reply();
    std::optional<PullMessage> next_of_coordinator();
    std::optional<PullMessage> next_query();

    const PullPlan* plan_;
    FailedSet failed_;
    std::uint32_t self_;
    std::uint32_t root_;
    std::uint32_t chunks_ = 0;
    std::uint32_t have_ = 0;

    std::uint32_t source_ = kNobody;
    std::uint32_t number_ = 0;      // of the candidate that it is
    bool has_asked_ = false;        // the source, since it became that
    bool watches_ = false;          // and is not asked: its memory is looked at
    bool was_heard_ = false;        // a chunk has come since the last look at the time
    std::uint32_t asked_end_ = 0;   // up to where
    std::uint32_t left_ = kNobody;  // was the source, and is to be told to stop
    Nanoseconds wake_{kNever};
    std::vector<Stream> streams_;
    std::uint32_t turn_ = 0;  // the stream that is next

    bool root_dead_ = false;
    bool given_up_ = false;
    std::uint32_t holder_ = kNobody;  // has all chunks, as it was told
    std::uint32_t said_need_to_ = kNobody;
    std::uint32_t said_need_in_ = 0;  // when so many had failed
    std::uint32_t asker_ = kNobody;   // has a query open here
    std::uint32_t asked_round_ = 0;
    std::vector<std::uint32_t> needy_;  // at the coordinator: have said so, and are not told yet
    bool has_to_ask_ = false;           // somebody needs it
    std::uint32_t round_ = 0;
    std::vector<bool> denied_;     // in this round
    std::uint32_t ask_next_ = 0;   // of the coordinator: the next rank to ask
    std::uint32_t tell_next_ = 0;  // and the next one to tell the verdict
};

}  // namespace coppice::protocol
