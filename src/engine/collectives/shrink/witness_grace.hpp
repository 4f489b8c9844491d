// How long a renewal that lacks a quorum waits for what a witness may still say: others may have told of deaths that this rank would
// have held back (Membership::kWitnessTimeNs). Each time that the quorum is lost begins anew.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/core/membership.hpp"

namespace coppice::engine {

class WitnessGrace {
  public:
    // Whether there is no quorum now, and a witness that may yet speak.
    void look(bool is_needed, std::uint64_t now_ns) {
        if (!is_needed) {
            until_ns_.reset();
        } else if (!until_ns_) {
            until_ns_ = now_ns + Membership::kWitnessTimeNs;
        }
    }
    bool lasts(std::uint64_t now_ns) const { return until_ns_ && now_ns < *until_ns_; }

  private:
    std::optional<std::uint64_t> until_ns_;
};

}  // namespace coppice::engine
