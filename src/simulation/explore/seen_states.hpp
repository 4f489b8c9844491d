// Which states an explorer has seen: their hashes, in a table of its own, as there are tens of millions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace coppice::simulation {

class SeenStates {
  public:
    // Whether it is new.
    bool insert(std::uint64_t hash);

  private:
    bool place(std::uint64_t hash);
    void grow();
    std::vector<std::uint64_t> slots_ = std::vector<std::uint64_t>(1 << 12, 0);
    std::size_t count_ = 0;
};

}  // namespace coppice::simulation
