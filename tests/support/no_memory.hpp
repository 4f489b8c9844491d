// A thread that gets no memory.
#pragma once

#include <cstdint>

namespace coppice::testing {

// While it lives, operator new gives this thread `pieces` more and then nothing; other threads get all.
class NoMemory {
  public:
    explicit NoMemory(std::uint32_t pieces = 0);
    ~NoMemory();
    NoMemory(const NoMemory&) = delete;
    NoMemory& operator=(const NoMemory&) = delete;
};

}  // namespace coppice::testing
