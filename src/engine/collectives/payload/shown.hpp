// What each rank of a host shows to the others of its large payloads: a row for each broadcast of the window, in the host's memory.
// It says where the payload lies in this rank's bulk (transport/board.hpp), if it does, and how many leading chunks are there.
//
// A row is written over by the broadcast W later, so not before every live rank has consumed this one.
//
// With the number of chunks goes a check of it and of all that the row says: what is read there is delivered unseen, so a word that was
// not written as it is read here, by a bug, another version or a rank that knows no better, is not believed. It keeps nobody from
// telling lies on purpose, who could as well show wrong chunks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/memory_access.hpp"
#include "engine/collectives/payload/row.hpp"
#include "engine/core/core.hpp"
#include "engine/wire/descriptor.hpp"

namespace coppice::engine {

class Shown {
  public:
    static transport::Region host_region(const Settings& settings);

    explicit Shown(const Core& core);

    // Whether ranks of this host read each other's memory.
    bool exists() const { return board_ != nullptr; }
    // Whether another rank of it could read this one's.
    bool has_readers() const { return has_readers_; }

    using Row = engine::Row;
    void begin(const Row& row);
    void tell(Sequence sequence, std::uint32_t have);
    // Good while that rank lives, as far as this one knows.
    std::optional<Row> look(Rank by, Sequence sequence) const;
    // Whether another rank has shown anything yet.
    bool any() const {
        return std::ranges::any_of(firsts_, [](const auto* first) { return first->read() != 0; });
    }
    // All of its rows that there are.
    std::vector<Row> look(Rank by) const;

    // Where that is mapped here; null if it can't be.
    const std::byte* data(Rank by, const Row& row) const {
        return board_->bulk(by, row.place, static_cast<std::size_t>(row.descriptor.bytes));
    }
    // A payload that is larger than the bound goes alone, and lies here, too, as far as the host memory can have it. But to make that much
    // memory takes long, and where silence has a bound a rank of which nothing is heard meanwhile would be taken for dead.
    transport::Board::Bulk take(std::size_t bytes) {
        if (bytes > most_bytes_ && is_to_be_heard_) return {};
        if (!may_map_plenty_) may_map_plenty_ = may_map_plenty();
        return board_->take_bulk(bytes, *may_map_plenty_ ? kMaxBroadcast : most_bytes_);
    }
    void give_back(const transport::Board::Bulk& bulk) {
        board_->give_bulk_back(bulk.place, static_cast<std::size_t>(most_bytes_));
    }
    // Others have taken this rank for dead: what it has read of theirs may have been something else.
    bool is_fenced() const { return board_->fenced(); }

  private:
    RowWords& own_words(Sequence sequence) const;
    const RowWords* words_of(Rank by) const;

    transport::Board* board_;
    transport::Regions::Place region_;
    bool has_readers_ = false;
    std::vector<const shared::Published<std::uint64_t>*>
        firsts_;  // of the others: 0 until they show something for the first time
    std::uint64_t most_bytes_;
    bool is_to_be_heard_;
    std::optional<bool> may_map_plenty_;  // as it was when memory was taken first
};

}  // namespace coppice::engine
