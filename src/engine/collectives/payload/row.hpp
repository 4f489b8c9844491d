// A row of shown.hpp: what is written there, and what is read.
#pragma once

#include <cstdint>
#include <optional>

#include "base/mix.hpp"
#include "base/shared_words.hpp"
#include "base/words.hpp"
#include "engine/wire/descriptor.hpp"

namespace coppice::engine {

struct Row {
    Sequence sequence;
    Rank root{0};
    Descriptor descriptor{};
    std::uint64_t place = 0;  // 0: it lies where others can't read it
    std::uint32_t have = 0;   // chunks
    bool is_wrong = false;    // its check fails: nothing of it counts
};

// A cache line of its own. The first three words are covered by the stamp.
struct alignas(64) RowWords {
    shared::Relaxed<std::uint64_t> place;
    shared::Relaxed<std::uint64_t> bytes;
    shared::Relaxed<std::uint64_t> chunk_and_root;
    shared::Published<std::uint64_t> have;   // check << 32 | chunks
    shared::Published<std::uint64_t> stamp;  // sequence + 1

    std::uint64_t sealed(Sequence sequence, std::uint32_t chunks) const {
        const std::uint64_t check =
            mix(mix(mix(place.get(), bytes.get()), chunk_and_root.get()), mix(sequence.value, chunks));
        return check << 32 | chunks;
    }

    // All but the stamp.
    void write(const Row& row) {
        place.set(row.place);
        bytes.set(row.descriptor.bytes);
        chunk_and_root.set(std::uint64_t{row.descriptor.chunk} << 32 | row.root.value);
        have.publish(sealed(row.sequence, row.have));
    }

    // None: nothing was shown there yet. Wrong may also be one that is being written over, for a rank that is taken for dead, or that
    // looks at what all have consumed.
    std::optional<Row> read() const {
        const std::uint64_t seen = stamp.read();
        if (seen == 0) return std::nullopt;
        const std::uint64_t about = chunk_and_root.get();
        const Descriptor told = Descriptor::of(bytes.get(), static_cast<std::uint32_t>(about >> 32));
        const auto descriptor = Descriptor::read(told.as_bytes());
        const std::uint64_t word = have.read();
        const Sequence sequence(seen - 1);
        const auto chunks = static_cast<std::uint32_t>(word);
        if (!descriptor || chunks > descriptor->chunks() || word != sealed(sequence, chunks))
            return Row{.sequence = sequence, .is_wrong = true};
        return Row{.sequence = sequence,
                   .root = Rank(static_cast<std::uint32_t>(about)),
                   .descriptor = *descriptor,
                   .place = place.get(),
                   .have = chunks};
    }
};

}  // namespace coppice::engine
