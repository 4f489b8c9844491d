// Of which ranks a group is made: all that a launcher or an exchange has, or some.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/words.hpp"

namespace coppice::bootstrap {

class Subset {
  public:
    // All.
    Subset() = default;
    // ranks[i] is the group's rank i. COPPICE_ERR_OUT_OF_RANGE where one is not below `size`; COPPICE_ERR_INVALID_ARGUMENT where one is
    // there twice, or `self` is not there. Of no ranks: all.
    static Result<Subset> of(std::span<const std::uint32_t> ranks, Rank self, std::uint32_t size);

    bool is_all() const { return ranks_.empty(); }
    std::span<const std::uint32_t> ranks() const { return ranks_; }
    // In the group; `outside` are the launcher's or the exchange's own numbers.
    Rank self(Rank outside) const { return is_all() ? outside : self_; }
    std::uint32_t size(std::uint32_t outside) const {
        return is_all() ? outside : static_cast<std::uint32_t>(ranks_.size());
    }
    Rank outside(std::uint32_t here) const { return Rank(is_all() ? here : ranks_[here]); }
    // Differs for different lists; 0 for all.
    std::uint64_t mark() const;

  private:
    std::vector<std::uint32_t> ranks_;  // empty: all
    Rank self_;
};

}  // namespace coppice::bootstrap
