// Bootstrap over the user's own exchange function: an allgather of equal-sized pieces, as MPI_Allgather gives
// it.
#pragma once

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/piece.hpp"
#include "bootstrap/subset.hpp"
#include "coppice/coppice.h"

namespace coppice::bootstrap {

// Each allgather() calls the function once, with a fixed number of bytes: a header that tells version, rank and size of the
// piece, and as much of the piece as fits. Only if the piece of some rank is longer there is a second call, for what is left of all,
// padded to the longest. For programs whose exchange is slow, or that form many groups, calls are what costs.
// The function cannot be interrupted, so the deadline binds only what comes after it returns. A function that knows of deaths fills a
// dead rank's place with zeros; its entry is then empty, also where it had told a size in the first of two calls.
class CallbackBootstrap final : public Bootstrap {
  public:
    // COPPICE_ERR_OUT_OF_RANGE unless rank < size. `argument` is passed through. With a list of ranks, as for Subset::of(), the exchange
    // gathers among those alone.
    static Result<std::unique_ptr<CallbackBootstrap>> create(coppice_exchange_fn exchange, void* argument, Rank rank,
                                                             std::uint32_t size,
                                                             std::span<const std::uint32_t> ranks = {});

    Rank rank() const override { return rank_; }
    std::uint32_t size() const override { return size_; }
    const char* name() const override { return "callback"; }
    Result<std::vector<std::vector<std::byte>>> allgather(std::span<const std::byte> mine,
                                                          std::uint64_t deadline_ns) override;

  private:
    struct Opening {
        PieceHeader header;
        std::byte bytes[480] = {};
    };
    static_assert(sizeof(Opening) == 512, "no padding, and the same in all builds");

    tl::unexpected<Error> failed(int code) const;
    std::vector<std::byte> piece_of(Rank rank, const Opening& opening, std::span<const std::byte> rest) const;

    CallbackBootstrap(coppice_exchange_fn exchange, void* argument, Rank rank, std::uint32_t size, const Subset& subset)
        : exchange_(exchange),
          argument_(argument),
          rank_(subset.self(rank)),
          size_(subset.size(size)),
          subset_(static_cast<std::uint32_t>(subset.mark())) {}

    coppice_exchange_fn exchange_;
    void* argument_;
    Rank rank_;
    std::uint32_t size_;
    std::uint32_t subset_;  // as in PieceHeader
    std::uint32_t round_ = 0;
};

}  // namespace coppice::bootstrap
