// The program's own witness of deaths (coppice_witness_t): something that outlives each host, and watches the processes.
#pragma once

#include "bootstrap/witness.hpp"
#include "coppice/coppice.h"

namespace coppice::bootstrap {

class WitnessCallback final : public Witness {
  public:
    // The functions are copied; their argument is passed through.
    explicit WitnessCallback(const coppice_witness_t& functions) : functions_(functions) {}

    std::optional<Place> take(const About& about) const override;
    void give_back(const Place& place) const override;
    bool write(const Place& place, std::span<const std::byte> bytes) const override;
    std::optional<std::vector<std::byte>> last_words_of(const About& about) const override;

  private:
    coppice_witness_t functions_;
};

}  // namespace coppice::bootstrap
