// The hashes of states that were seen, by open addressing; and which of them the way to the present state passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/mix.hpp"

namespace coppice::simulation {

class Seen {
  public:
    enum class Found { is_new, known, on_the_way };

    // A state that is new is on the way until leave().
    Found enter(std::uint64_t hash) {
        if (count_ * 4 >= slots_.size() * 3) grow();
        const std::size_t at = place(key(hash));
        if (slots_[at] != 0) return (slots_[at] & 1) != 0 ? Found::on_the_way : Found::known;
        slots_[at] = key(hash) | 1;
        ++count_;
        return Found::is_new;
    }
    void leave(std::uint64_t hash) { slots_[place(key(hash))] &= ~std::uint64_t{1}; }
    std::size_t count() const { return count_; }

  private:
    static std::uint64_t key(std::uint64_t hash) { return hash < 2 ? 2 : hash & ~std::uint64_t{1}; }
    std::size_t place(std::uint64_t key) const {
        const std::size_t mask = slots_.size() - 1;
        std::size_t at = (key >> 1) & mask;
        while (slots_[at] != 0 && (slots_[at] & ~std::uint64_t{1}) != key)
            at = (at + 1) & mask;
        return at;
    }
    void grow() {
        std::vector<std::uint64_t> old(slots_.size() * 2, 0);
        old.swap(slots_);
        for (const std::uint64_t slot : old) {
            if (slot != 0) slots_[place(slot & ~std::uint64_t{1})] = slot;
        }
    }
    std::vector<std::uint64_t> slots_ = std::vector<std::uint64_t>(1 << 12, 0);
    std::size_t count_ = 0;
};

}  // namespace coppice::simulation
