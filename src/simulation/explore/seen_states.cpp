#include "simulation/explore/seen_states.hpp"

namespace coppice::simulation {

// Open addressing.
bool SeenStates::insert(std::uint64_t hash) {
    if (hash == 0) hash = 1;
    if (count_ * 5 >= slots_.size() * 3) grow();
    if (!place(hash)) return false;
    ++count_;
    return true;
}

bool SeenStates::place(std::uint64_t hash) {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
        if (slots_[i] == hash) return false;
        if (slots_[i] != 0) continue;
        slots_[i] = hash;
        return true;
    }
}

void SeenStates::grow() {
    std::vector<std::uint64_t> old(slots_.size() * 2, 0);
    old.swap(slots_);
    for (const std::uint64_t hash : old) {
        if (hash != 0) place(hash);
    }
}

}  // namespace coppice::simulation
