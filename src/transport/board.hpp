// What the ranks of one host share: each writes its own part, all others of the host read it.
//
// A board is the fastest broadcast on one host: the writer publishes one line and every reader polls that line, one
// store instead of k. What is published outlives its writer, so a reader is served though the writer is dead.
// Every word has one writer. Nothing here blocks, and no rank that dies at any instruction blocks another.
//
// Offered by transports for ranks of one host (shm). One thread at a time, as transport.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/copy.hpp"
#include "base/shared_words.hpp"
#include "base/words.hpp"
#include "transport/regions.hpp"
#include "transport/transport.hpp"

namespace coppice::transport {

// A line as a reader sees it. Good until its writer publishes sequence + lines(); the engine's window forbids that
// before every live reader's consumed() has passed `sequence`.
struct PublishedLine {
    const std::byte* payload = nullptr;
    std::uint32_t length = 0;
    std::uint32_t detail = 0;  // the publisher's: what kind of line this is
    std::uint32_t root = 0;    // the rank whose payload it is
};

class Board {
  public:
    virtual ~Board() = default;

    // The ranks of this board, ascending, this rank included; fixed. W, the number of lines of each rank.
    virtual std::span<const Rank> members() const = 0;
    virtual std::uint32_t lines() const = 0;

    // This rank's own line for `sequence`, to fill in place before publish(): kMaxPayload bytes, 8-byte aligned
    // (so that a line's header and its first bytes can share one cache line).
    // (A payload that landed elsewhere is copied here once, and leaves for other hosts from here.)
    virtual std::byte* line_memory(Sequence sequence) = 0;
    // Soon something will be published there: its cache line may be fetched from its readers meanwhile. A hint.
    virtual void will_publish(Sequence sequence) = 0;
    virtual void publish(Sequence sequence, std::uint32_t length, std::uint32_t root, std::uint32_t detail) = 0;
    // Copies `payload` into the line and publishes it.
    virtual void publish_copy(Sequence sequence, std::span<const std::byte> payload, std::uint32_t root,
                              std::uint32_t detail) = 0;
    // The same of a broadcast of this rank's own, with `detail` 0. False, and nothing is published, when this rank is fenced().
    virtual bool publish_unless_fenced(Sequence sequence, std::span<const std::byte> payload, Rank self) {
        if (fenced()) return false;
        publish_copy(sequence, payload, self.value, 0);
        return true;
    }

    // The line of `member` for `sequence`, if it is there; works for dead members too. False costs one cache line read.
    virtual bool look(Rank member, Sequence sequence, PublishedLine& line) const = 0;

    // Copies the payload of `member` for `sequence` into `to`, if its line is there, is of a broadcast of its own with `detail`
    // 0, and fits. False, too, when this rank is fenced(): what was copied may be something else's then. Its length goes to
    // `length`, if not null.
    virtual bool copy_published(Rank member, Sequence sequence, std::span<std::byte> to, std::size_t* length) const = 0;

    // Everything before `sequence` has been consumed here (copied out, or its view released). Monotone.
    virtual void set_consumed(Sequence sequence) = 0;
    virtual Sequence consumed(Rank member) const = 0;

    // Everything before `sequence` is known to be held by every live rank of the whole group. Monotone.
    virtual void set_stable(Sequence sequence) = 0;
    virtual Sequence stable(Rank member) const = 0;

    // Wakes that rank if it sleeps on its transport's arm(), because what was written here concerns it.
    virtual void wake(Rank /*member*/) {}
    // After the transport's arm(): until this rank is awake again, members that publish wake it. They spend a system
    // call on that, so it is for ranks to which a timed sleep costs more. One that publishes at the same moment may not
    // see it: sleep for a bounded time.
    virtual void listen() {}

    // A log of failures that this rank knows, for ranks of the host that have no connections of their own.
    // log_failure: each failed rank once. logged(member, i): the i-th failure that `member` logged, i < log_length.
    virtual void log_failure(Rank failed) = 0;
    virtual std::uint32_t log_length(Rank member) const = 0;
    virtual Rank logged(Rank member, std::uint32_t index) const = 0;

    // The regions that were declared when this memory was made, for whatever else the ranks of a host tell each other: each
    // member writes its own, the others read; zeroed at first, and they outlive their writer as lines do. region(member, …):
    // nullptr for one that died before it could be mapped (it has written nothing).
    // publish_word: publishes a word of an own region, and with it what was written there before. leave_word: the same for what nobody
    // reads before this rank is dead: it wakes none that sleep.
    virtual Regions::Place find_region(std::string_view name) const = 0;
    virtual std::byte* own_region(Regions::Place place) = 0;
    virtual const std::byte* region(Rank member, Regions::Place place) const = 0;
    virtual void publish_word(shared::Published<std::uint64_t>& word, std::uint64_t value) { word.publish(value); }
    virtual void leave_word(shared::Published<std::uint64_t>& word, std::uint64_t value) { word.publish(value); }

    // Bulk: memory for payloads that are too large for a line. The rank that has taken some fills it, tells others its place, and
    // they read it there. Like lines it outlives its writer, for those that had it mapped before: bulk() maps it when it is first
    // called for a member, while that lives. It may be given back when no live member reads it any more; what is not given back stays
    // taken until the panel is cleared.
    // take_bulk: aligned to pages; no data where there is none, or no room. `most`: bytes that this process shows at most,
    // in all its groups together; what is asked for first counts.
    // give_bulk_back: frees the memory behind the last piece that is taken, but keeps the first `keep` bytes for those that come next.
    // bulk: null when it can't be mapped, or nothing is there.
    struct Bulk {
        std::byte* data = nullptr;
        std::uint64_t place = 0;  // never 0 where there is data
    };
    virtual Bulk take_bulk(std::size_t /*bytes*/, std::uint64_t /*most*/) { return {}; }
    virtual void give_bulk_back(std::uint64_t /*place*/, std::size_t /*keep*/) {}
    virtual const std::byte* bulk(Rank /*member*/, std::uint64_t /*place*/, std::size_t /*bytes*/) { return nullptr; }

    // The obituary: false once the member's process is dead, however it died, reaped or not. One cache line read.
    virtual bool alive(Rank member) const = 0;

    // Some member has fenced this rank: it takes it for dead, and may have written again where this rank still reads.
    // What was copied from the board before this is false was there in time. One cache line read, of this rank's own, while nobody has.
    virtual bool fenced() const = 0;

    // This rank leaves in peace: its obituary is not a failure. departed() stays readable after its end.
    virtual void depart() = 0;
    virtual bool departed(Rank member) const = 0;

  protected:
    static bool copy_line(Rank member, const PublishedLine& line, std::span<std::byte> to) {
        const std::uint64_t what = std::uint64_t{line.detail} << 32 | line.root;  // one load, one comparison
        if (what != member.value || line.length > to.size()) return false;
        copy_few(to.data(), line.payload, line.length);
        return true;
    }
};

}  // namespace coppice::transport
