// Memory in which a rank shows payloads that are too large for a line: a file of its own (memfd), made when it is first needed, of
// which peers map all at once and for good. It is as large as all that a rank may show, or as the system lets it be; only what has been used of it has memory.
//
// Peers open it as they open the segment (segment.hpp), whose header says which descriptor it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/board.hpp"
#include "transport/shm/segment.hpp"

namespace coppice::transport::shm {

class OwnBulk {
  public:
    OwnBulk() = default;
    OwnBulk(const OwnBulk&) = delete;
    OwnBulk& operator=(const OwnBulk&) = delete;
    ~OwnBulk();

    // As Board::take_bulk(), for a group's panel. What it gives has its memory: neither SIGBUS nor SIGXFSZ can follow.
    Board::Bulk take(OwnSegment& own, std::size_t bytes, std::uint64_t most, std::uint32_t panel);
    void give_back(std::uint64_t place, std::size_t keep);
    // All that is taken for these panels is given back.
    void clear(std::uint32_t panels);

  private:
    struct Piece {
        std::size_t at;
        std::size_t bytes;
        std::uint32_t panel;
    };

    bool make(OwnSegment& own, std::uint64_t most, std::size_t least);
    bool make_file(std::uint64_t size);
    void drop();
    bool prepare(std::size_t end);
    void shorten();
    void shorten(std::size_t end);

    int fd_ = -1;
    Mapping mapping_;
    std::size_t size_ = 0;       // 0: there is none
    std::size_t prepared_ = 0;   // has memory up to there
    std::size_t keep_ = 0;       // bytes of it that stay
    std::vector<Piece> pieces_;  // taken, by place
};

// A peer's, read-only.
class PeerBulk {
  public:
    bool is_mapped() const { return static_cast<bool>(mapping_); }
    // Maps it if that can be done, now or ever.
    void map(const Address& address, const PeerSegment& segment);
    // Null: nothing can be read there.
    const std::byte* at(std::uint64_t place, std::size_t bytes);

  private:
    Mapping mapping_;
    std::size_t size_ = 0;
    std::size_t seen_ = 0;  // up to there the pages are mapped
    bool is_wrong_ = false;
};

}  // namespace coppice::transport::shm
