// The program's own witness of deaths (coppice_witness_t): something that outlives each host, and watches the processes.
#pragma once

#include <array>
#include <mutex>

#include "bootstrap/witness.hpp"
#include "coppice/coppice.h"

namespace coppice::bootstrap {

// One for all groups that are made of one. Its functions are called one at a time, and may call nothing of the library.
class WitnessCallback final : public Witness {
  public:
    // The functions are copied; their argument is passed through.
    explicit WitnessCallback(const coppice_witness_t& functions) : functions_(functions) {}

    // Whatever the witness answers: what it may have kept has to be followed by what this process votes.
    std::optional<Place> take(const About& about) const override;
    void give_back(const Place& place) const override;
    bool write(const Place& place, std::span<const std::byte> bytes) const override;
    std::optional<std::vector<std::byte>> last_words_of(const About& about) const override;
    // Of those alone that have ended.
    bool knows(const About& about) const override;

  private:
    using Words = std::array<std::byte, kMostBytes>;
    bool ended(const About& about, Words& words, std::size_t& bytes) const;
    bool tell(const About& about, std::span<const std::byte> words) const;

    coppice_witness_t functions_;
    mutable std::mutex mutex_;
};

}  // namespace coppice::bootstrap
