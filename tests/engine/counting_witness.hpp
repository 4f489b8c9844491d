// A witness that counts what it is asked.
#pragma once

#include <optional>
#include <vector>

#include "bootstrap/witness.hpp"

namespace coppice::engine {

class CountingWitness final : public bootstrap::Witness {
  public:
    mutable int asked = 0;

    // It speaks when it is asked for that time: then a rank is dead, and has said nothing.
    explicit CountingWitness(int speaks_at) : speaks_at_(speaks_at) {}

    std::optional<Place> take(const About&) const override { return std::nullopt; }
    bool write(const Place&, std::span<const std::byte>) const override { return true; }
    void give_back(const Place&) const override {}
    std::optional<std::vector<std::byte>> last_words_of(const About&) const override {
        return ++asked >= speaks_at_ ? std::optional(std::vector<std::byte>()) : std::nullopt;
    }
    bool knows(const About&) const override { return false; }

  private:
    int speaks_at_;
};

}  // namespace coppice::engine
