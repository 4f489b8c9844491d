#include "support/no_memory.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
thread_local bool is_short = false;
thread_local std::uint32_t pieces_left = 0;
}  // namespace

void* operator new(std::size_t bytes) {
    if (is_short && pieces_left-- == 0) {
        pieces_left = 0;
        throw std::bad_alloc();
    }
    if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace coppice::testing {

NoMemory::NoMemory(std::uint32_t pieces) {
    pieces_left = pieces;
    is_short = true;
}
NoMemory::~NoMemory() {
    is_short = false;
}

}  // namespace coppice::testing
