#include "support/allocations.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COPPICE_COUNTS_MALLOC 0
#else
#define COPPICE_COUNTS_MALLOC 1
#endif

namespace {
std::atomic<std::uint64_t> objects{0};  // operator new
std::atomic<std::uint64_t> blocks{0};   // malloc and its kin, operator new's own included
}  // namespace

#if COPPICE_COUNTS_MALLOC
// glibc's allocator under the names that it keeps for programs that put something in front of it.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
    ++blocks;
    return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
    ++blocks;
    return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
    ++blocks;
    return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
    ++blocks;
    return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
    ++blocks;
    return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
    ++blocks;
    *memory = __libc_memalign(alignment, bytes);
    return *memory == nullptr ? ENOMEM : 0;
}
}
#endif

void* operator new(std::size_t bytes) {
    ++objects;
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

const bool kCountsMalloc = COPPICE_COUNTS_MALLOC != 0;

Allocations allocations_so_far() {
    return {objects, blocks};
}

}  // namespace coppice::testing
