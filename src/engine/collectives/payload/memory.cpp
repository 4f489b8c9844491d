#include "engine/collectives/payload/memory.hpp"

#include <sys/mman.h>

namespace coppice::engine {

PayloadMemory PayloadMemory::allocate(std::size_t bytes) {
    PayloadMemory memory;
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return memory;
    (void)madvise(mapped, bytes, MADV_HUGEPAGE);  // fewer faults while it fills
    memory.data_ = static_cast<std::byte*>(mapped);
    memory.size_ = bytes;
    return memory;
}

PayloadMemory::~PayloadMemory() {
    if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace coppice::engine
