// The large payloads of a group at one rank: what a broadcast has brought a descriptor of is pulled from other ranks in chunks, and
// served to others (protocol/pull/). Broadcasts tells it of descriptors and asks it how far a payload is.
//
// A payload lies in memory of the library, at the root, too: the caller's buffer is its own again when the call has returned,
// and what this rank holds can be had from it until all have consumed it, whatever its caller does. That memory is bounded
// (COPPICE_PAYLOAD_WINDOW): a root starts no broadcast, and no rank a pull, that goes beyond it, unless nothing before it is held.
// So the oldest broadcast always goes on, and one that is larger than the bound goes alone.
//
// Where the wire has one-sided reads a rank reads its source's memory (reading.hpp, payload_reads.cpp): it sends the same ask, the source answers where its chunks
// lie, and has no part in it from then on. The machine is told of each chunk as if it had come in a message. A payload's memory is given
// back when nobody reads it any more.
//
// A rank pulls whether its caller has called or not: others take their chunks from it.
//
// On a host the root, or else the leader, has the payload in memory that the others read (shown.hpp). They pull nothing and have no
// memory of their own for it: what they deliver is copied out of there, or is a view of it. It outlives its writer. A rank copies
// it to memory of its own only when it has to serve others from it, which takes deaths or a rank that is stopped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/collectives/payload/lent.hpp"
#include "engine/collectives/payload/memory.hpp"
#include "engine/collectives/payload/reading.hpp"
#include "engine/collectives/payload/shown.hpp"
#include "engine/collectives/window/window.hpp"
#include "engine/core/core.hpp"
#include "engine/wire/descriptor.hpp"
#include "protocol/pull/pull.hpp"

namespace coppice::engine {

class Payloads final : public Collective {
  public:
    Payloads(Core& core, Window& window);

    bool goes_in_chunks(std::size_t bytes) const { return bytes > eager_; }
    // Whether a root may start a broadcast of so many bytes now. The ranks that hold it up are asked.
    bool has_room(std::size_t bytes);
    // Memory that is lent to the caller, for payloads that are not copied (lent.hpp).
    Result<std::byte*> allocate(std::size_t bytes);
    Result<void> give_back(const std::byte* address);
    // Memory for a root's payload, of which nothing is there yet, unless it lies in memory that was lent. Others may know of it from
    // now on.
    Result<Descriptor> hold(Sequence sequence, std::span<const std::byte> payload);
    // Copies more of that payload to it, for others to take. True: all of it is there, or there is nobody to take it any more.
    bool fill(Sequence sequence, std::span<const std::byte> payload);
    // A broadcast has brought this; any number of times.
    void learn(Sequence sequence, Rank root, std::span<const std::byte> descriptor);

    enum class State : std::uint8_t { pending, here, root_failed, no_memory, no_descriptor };
    struct Look {
        State state = State::pending;
        std::uint64_t bytes = 0;
        std::span<const std::byte> payload;  // as far as it is here; good until all have consumed the broadcast
    };
    // Of one that was learnt of.
    Look look(Sequence sequence) const;
    std::string waiting_for(Sequence sequence) const;
    // The rank that has been asked for the next chunk.
    std::optional<Rank> source(Sequence sequence) const;
    // Nothing is kept that could be.
    bool none() const { return entries_.empty(); }
    // Other ranks may want chunks of it from this one now, which has them all: protocol::Pull::is_wanted().
    bool is_wanted(Sequence sequence) const;

    struct Counts {
        std::uint64_t taken = 0;         // chunks
        std::uint64_t read = 0;          // of those, out of others' memory
        std::uint64_t sent = 0;          // to others
        std::uint64_t again = 0;         // came in vain: are here, or are asked of another rank
        std::uint64_t damaged = 0;       // whose check failed
        std::uint64_t unregistered = 0;  // payloads that the wire could not have open to reads
    };
    const Counts& counts() const { return counts_; }

    // The rank that holds up memory for the next payload, for people.
    std::string holder_name() const;

    // Whether what a payload was copied from is what it says: not, when others have taken this rank for dead meanwhile.
    bool may_be_overwritten() const { return shown_.exists() && shown_.is_fenced(); }

    // Collective
    void hear_last_words() override;
    bool message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                 transport::Buffer buffer) override;
    std::byte* place(Rank from, const WireHeader& header, std::size_t bytes, std::size_t here) override;
    void member_failed(const Death& death) override;
    void member_left(Rank rank) override;
    void progress(bool thorough) override;
    void keep_house() override;
    bool waits_for_room() const override;
    std::uint64_t next_timer_ns() const override;
    bool peek(Request& /*request*/) override { return true; }  // it has none
    void finish(Request& /*request*/) override {}
    std::string waiting_for(const Request& /*request*/) const override { return {}; }
    // What is read here, or there, has to come to its end.
    bool outlives_revocation() const override { return true; }
    bool drained() override;
    std::string leaving_waits_for() const override;
    std::optional<Rank> leaving_depends_on() const override;
    bool quiet() const override;
    void transports_end() override;

  private:
    struct Unsent {
        protocol::PullMessage message;
        std::uint32_t offset = 0;   // of a chunk: so much of it has left
        bool notices_sent = false;  // its receiver has been told of the deaths that it must know of
    };
    // A chunk of which parts are here.
    struct Landing {
        Rank from;
        std::uint32_t chunk = 0;
        std::uint32_t bytes = 0;  // 0: there is none
        std::size_t coming = 0;   // of the part behind that
    };
    struct Entry {
        Entry(const protocol::PullPlan& plan, Rank self, Sequence number, Rank of, const protocol::FailedSet& failed)
            : sequence(number), root(of), machine(plan, self, of, failed) {}

        Sequence sequence;
        Rank root;
        std::optional<Descriptor> descriptor;
        bool is_wrong = false;  // what came as its descriptor is none
        bool has_no_memory = false;
        PayloadMemory memory;               // where it lies, unless that is
        transport::Board::Bulk bulk;        // in memory that others of the host read,
        LentMemory::Piece* lent = nullptr;  // in a piece that was lent (then `bulk` is a part of that), or
        std::byte* lent_at = nullptr;
        const std::byte* its = nullptr;  // in another rank's
        std::uint32_t told = 0;          // how many chunks the others know that they can read
        protocol::Pull machine;
        Landing landing;
        std::vector<Unsent> unsent;  // pulled, but the transport had no room
        std::uint32_t in_flight = 0;
        std::unique_ptr<OpenPayload> open;               // to reads; ends before the memory
        std::vector<Reader> readers;                     // here
        std::vector<std::unique_ptr<Reading>> readings;  // elsewhere
        bool cannot_be_open = false;
        bool is_over = false;  // nothing more of it is read

        bool is_admitted() const { return machine.chunks() > 0; }
        // To be written to: null where it lies with another rank, or nowhere yet.
        std::byte* own() const {
            if (lent != nullptr) return lent_at;
            return bulk.data != nullptr ? bulk.data : memory.data();
        }
        const std::byte* data() const { return own() != nullptr ? own() : its; }
    };

    Entry* find(Sequence sequence) const;
    Entry* engage(Sequence sequence, Rank root);
    void admit();
    void note_taken(std::uint32_t chunks);
    void note_filled(std::uint32_t chunks);
    bool fits(std::uint64_t bytes, Sequence before) const;
    void release_stable();
    PayloadMemory memory_for(std::size_t bytes);
    std::uint32_t chunk_of(std::size_t bytes) const;
    bool take_memory(Entry& entry);
    Result<LentMemory::Piece*> lent_for(std::span<const std::byte> payload) const;
    void give_memory_back(Entry& entry);
    bool take_copy(Entry& entry);
    void show(Entry& entry);
    void tell(Entry& entry);
    bool reads_its_leader(const Entry& entry) const;
    void watch(Entry& entry);
    bool take_chunk(Entry& entry, Rank from, const protocol::PullMessage& message, const WireHeader& header,
                    std::span<const std::byte> payload);
    void pump(Entry& entry);
    bool continues(const Entry& entry, const protocol::PullMessage& part, std::size_t bytes) const;
    bool send(Entry& entry, Unsent& unsent);
    bool send_chunk(Entry& entry, Unsent& unsent, const Link& link, WireHeader& header);
    bool tell_failures(Rank to, Unsent& unsent);

    // payload_reads.cpp: what is read out of this rank's memory
    bool open_for(Entry& entry, const Link& link);
    bool serves_by_reads(Entry& entry, Rank from, const WireHeader& header, const protocol::PullMessage& message);
    bool offer_to_readers(Entry& entry);
    bool send_offer(Entry& entry, const Link& link);
    void forget_lost_readers(Entry& entry);
    const Reader* last_reader(Sequence before) const;
    // and what this rank reads out of others'
    bool reads_instead(Entry& entry, const protocol::PullMessage& message);
    bool means_to_read(Entry& entry, const protocol::PullMessage& message, const Link& link);
    void reading_message(Rank from, const WireHeader& header, std::span<const std::byte> payload);
    void read_on(Entry& entry);
    bool is_wanted(const Entry& entry, const Reading& reading) const;
    static void leave_as_wrong(Entry& entry, Reading& reading);
    static bool wrong_is_under_way(const Entry& entry);
    void ask_for_more(Entry& entry, Reading& reading);
    bool ask_for(const Entry& entry, Reading& reading, Reading::Item item, std::uint32_t count = 1);
    void take_what_came(Entry& entry, Reading& reading);
    void take_word(Entry& entry, Reading& reading);
    void take_read_chunk(Entry& entry, Reading& reading, std::uint32_t chunk);
    void say_done(Rank to, Sequence sequence);
    bool has_said_done(Rank to);
    bool end_reads(Entry& entry);

    const Surroundings& around_;
    Controls& controls_;
    Lifecycle& life_;
    News& news_;
    Window& window_;
    const Members& members_;
    const Router& router_;
    Shown shown_;
    LentMemory lent_;
    protocol::PullPlan plan_;
    std::size_t eager_;
    std::uint64_t most_bytes_;
    protocol::FailedSet failed_;
    std::vector<std::unique_ptr<Entry>> entries_;  // by sequence
    PayloadMemory spare_;                          // of the last one that was given back, for the next one
    Counts counts_;
    bool has_more_ = false;  // there is more to do than one round may
};

}  // namespace coppice::engine
