// The memory that one rank shows to the others of its host: panels, each of them what one group's board is made of there. It
// outlives its rank.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/host_memory.hpp"
#include "transport/transport.hpp"

namespace coppice::world {

struct Line {
    std::uint64_t stamp = 0;  // sequence + 1
    std::uint32_t length = 0;
    std::uint32_t root = 0;
    std::uint32_t detail = 0;
};

class Panel {
  public:
    Panel(std::uint32_t window, std::size_t region_bytes);
    // As new.
    void clear();

    std::uint64_t consumed = 0;
    std::uint64_t stable = 0;
    bool departed = false;
    std::vector<std::uint32_t> log;
    std::vector<Line> lines;
    std::byte* regions() { return regions_; }
    std::byte* payload(std::size_t line) { return payloads_ + line * transport::kMaxPayload; }

    // transport::Board's bulk: the first place that is large enough. 0: there is none.
    std::uint64_t take_bulk(std::size_t bytes);
    void give_bulk_back(std::uint64_t place);
    // Null: nothing of that length can be there.
    std::byte* bulk(std::uint64_t place, std::size_t bytes);

  private:
    static constexpr std::size_t kPage = 4096;
    static constexpr std::size_t kBulk = 64 * kPage;  // the first page is nobody's
    struct Piece {
        std::uint64_t at;
        std::size_t bytes;
    };

    std::vector<std::byte> memory_;
    std::vector<std::byte> bulk_;  // empty until it is first needed
    std::vector<Piece> pieces_;    // taken, by place
    std::size_t region_bytes_;
    std::byte* regions_;
    std::byte* payloads_;
};

class Segment {
  public:
    static constexpr std::uint32_t kPanels = transport::HostMemory::kPanels;
    Segment(std::uint32_t window, std::size_t region_bytes) : window_(window), region_bytes_(region_bytes) {}
    ~Segment();
    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;

    void make(std::uint32_t panel);
    // Null: it has never been made.
    Panel* panel(std::uint32_t number) { return panels_[number].get(); }
    void fence(std::uint32_t by) { fencers_.push_back(by); }
    // The ranks of the host that take the owner for dead, in the order in which they came to do so.
    std::span<const std::uint32_t> fencers() const { return fencers_; }
    std::uint32_t window() const { return window_; }

  private:
    std::uint32_t window_;
    std::size_t region_bytes_;  // of each panel
    std::vector<std::uint32_t> fencers_;
    std::array<std::unique_ptr<Panel>, kPanels> panels_;
};

}  // namespace coppice::world
