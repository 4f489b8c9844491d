// Memory that this rank's caller fills, and that payloads then go out from without a copy (coppice_memory_allocate): a place that the
// other ranks of the host read, or, where there is none or no room, memory of this rank's own.
//
// A piece that the caller gives back stays as it is as long as payloads are held that lie in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/collectives/payload/memory.hpp"
#include "engine/collectives/payload/shown.hpp"

namespace coppice::engine {

class LentMemory {
  public:
    struct Piece {
        std::byte* data = nullptr;
        std::size_t bytes = 0;
        transport::Board::Bulk bulk;  // where others read it, or
        PayloadMemory own;
        std::uint32_t users = 0;  // payloads that lie in it
        bool is_given_back = false;

        // Of one address of it; 0 where others can't read it.
        std::uint64_t place_of(const std::byte* at) const {
            return bulk.data == nullptr ? 0 : bulk.place + static_cast<std::uint64_t>(at - data);
        }
    };

    explicit LentMemory(Shown& shown) : shown_(shown) {}

    // Null: there is no memory.
    std::byte* allocate(std::size_t bytes);
    // False: no piece begins there that the caller has.
    bool give_back(const std::byte* address);
    // The piece in which this address lies; null: none does.
    Piece* find(const std::byte* address) const;
    // A payload lies in it from now on, and no more.
    static void begin_use(Piece& piece) { ++piece.users; }
    void end_use(Piece& piece);

  private:
    void drop_if_over(const Piece& piece);

    Shown& shown_;
    std::vector<std::unique_ptr<Piece>> pieces_;
};

}  // namespace coppice::engine
