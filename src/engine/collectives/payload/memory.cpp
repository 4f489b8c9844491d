#include "engine/collectives/payload/memory.hpp"

#include <sys/mman.h>

#include <new>

namespace coppice::engine {
namespace {

constexpr std::size_t kLeastMapped = 256 * 1024;
constexpr std::align_val_t kPage{4096};

}  // namespace

PayloadMemory PayloadMemory::allocate(std::size_t bytes) {
    PayloadMemory memory;
    void* at = nullptr;
    memory.is_mapped_ = bytes >= kLeastMapped;
    if (memory.is_mapped_) {
        at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) return memory;
        (void)madvise(at, bytes, MADV_HUGEPAGE);  // fewer faults while it fills
    } else {
        at = ::operator new(bytes, kPage, std::nothrow);
        if (at == nullptr) return memory;
    }
    memory.data_ = static_cast<std::byte*>(at);
    memory.size_ = bytes;
    return memory;
}

PayloadMemory::~PayloadMemory() {
    if (data_ == nullptr) return;
    if (is_mapped_)
        munmap(data_, size_);
    else
        ::operator delete(data_, kPage);
}

}  // namespace coppice::engine
