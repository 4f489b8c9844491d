// Several ranks that take themselves for the root of one broadcast: found by the payloads that arrive, and on a host by comparing what
// is noted in its memory (roots.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "engine/collectives/window/window.hpp"
#include "engine/core/core.hpp"

namespace coppice::engine {

class Roots {
  public:
    // What it needs of the memory that each rank of a host shows to the others.
    static std::array<transport::Region, 2> host_regions();

    struct Found {
        std::uint64_t broadcast;
        Rank first;
        Rank second;
    };

    Roots(const Core& core, const Window& window);

    // This rank is the root of that broadcast.
    void note(Sequence sequence) { noted_ |= std::uint64_t{1} << (sequence.value & 63); }
    // So many broadcasts after the last time that this rank's own have to be compared, before the next one starts.
    bool is_due() const { return window_.next() >= due(); }
    Sequence due() const { return Sequence(published_.value + most_); }
    // Compares those of which this rank was root since the last time with what the others say. A rank that was not has nothing
    // to do. True: as below.
    bool own_differ();
    // Compares what is new since the last time, of all ranks. True: there are several, error() says which, and others of the host can
    // read it.
    bool differ() { return differ_from(looked_at_); }
    // The same of all broadcasts whose lines are still there. To be called when this rank has consumed all.
    bool differ_at_the_end();
    // What others of this host have found.
    void hear();
    // This rank has one root's payload, and another one's has arrived. What was found first counts. True.
    bool tell(const Found& found);
    const Found* found() const { return found_ ? &*found_ : nullptr; }
    std::optional<Error> error() const;

  private:
    struct Words {
        Rank rank;
        const shared::Published<std::uint64_t>* words;
    };

    bool differ_from(Sequence from);
    bool tell_what_is_read(const Found& found);
    void publish();

    const Members& members_;
    const Window& window_;
    transport::Board* board_;
    transport::Regions::Place found_region_;
    std::uint64_t noted_ = 0;  // of which of the last broadcasts, modulo 64, this rank was root: not in its region yet
    std::uint64_t word_ = 0;   // the last word in its region
    Sequence published_;       // the first broadcast that noted_ may speak of
    std::uint32_t most_;       // broadcasts between two comparisons
    Sequence looked_at_;       // the first broadcast whose roots have not been compared, of all ranks
    shared::Published<std::uint64_t>* own_words_ = nullptr;
    std::vector<Words> words_;  // of the ranks of this host, this one's among them
    std::optional<Found> found_;
};

}  // namespace coppice::engine
