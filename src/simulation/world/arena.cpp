#include "simulation/world/arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

namespace coppice::world {
namespace {

constexpr std::size_t kArenaBits = 27;  // 128 MiB of addresses each; memory only where it is used
constexpr std::size_t kArenas = 64;
constexpr std::size_t kArena = std::size_t{1} << kArenaBits;
constexpr std::size_t kOverwritten = 256;  // of what is freed

// In front of each block.
struct alignas(16) Head {
    std::uint32_t size_class;
    std::uint32_t offset;  // of the block's own begin before this
    std::uint64_t bytes;
};
static_assert(sizeof(Head) == 16);

struct Region {
    std::byte* base = nullptr;
    std::array<Arena*, kArenas> owners{};
};
constinit Region region;

}  // namespace

constinit Arena* Arena::current = nullptr;

Arena::Arena() {
    if (region.base == nullptr) {
        void* const memory =
            mmap(nullptr, kArenas * kArena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        region.base = static_cast<std::byte*>(memory);
    }
    const auto place = std::ranges::find(region.owners, nullptr);
    if (place == region.owners.end()) throw std::bad_alloc();
    *place = this;
    base_ = region.base + static_cast<std::size_t>(place - region.owners.begin()) * kArena;
}

Arena::~Arena() {
    *std::ranges::find(region.owners, this) = nullptr;
    madvise(base_, used_, MADV_DONTNEED);
}

Arena* Arena::of(const void* memory) {
    const auto distance = reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(region.base);
    return region.base == nullptr || distance >= kArenas * kArena ? nullptr : region.owners[distance >> kArenaBits];
}

void* Arena::allocate(std::size_t bytes, std::size_t alignment) {
    const std::size_t extra = alignment > sizeof(Head) ? alignment : 0;
    if (bytes > kArena / 2) return nullptr;
    const std::size_t size = std::bit_ceil(std::max<std::size_t>(bytes + sizeof(Head) + extra, 32));
    const auto size_class = static_cast<std::uint32_t>(std::countr_zero(size));
    std::byte* block = nullptr;
    if (Free* const known = free_[size_class]; known != nullptr) {
        free_[size_class] = known->next;
        block = reinterpret_cast<std::byte*>(known);
    } else {
        if (used_ + size > kArena) return nullptr;
        block = base_ + used_;
        used_ += size;
    }
    std::byte* memory = block + sizeof(Head);
    if (extra > 0) {
        const auto at = reinterpret_cast<std::uintptr_t>(memory);
        memory += (alignment - at % alignment) % alignment;
    }
    const Head head{
        .size_class = size_class, .offset = static_cast<std::uint32_t>(memory - sizeof(Head) - block), .bytes = bytes};
    std::memcpy(memory - sizeof(Head), &head, sizeof head);
    ++blocks_;
    bytes_ += bytes;
    return memory;
}

void Arena::release(void* memory) {
    Arena& arena = *of(memory);
    Head head;
    std::byte* const at = static_cast<std::byte*>(memory) - sizeof(Head);
    std::memcpy(&head, at, sizeof head);
    std::memset(memory, 0xdb, std::min<std::size_t>(head.bytes, kOverwritten));
    auto* const block = reinterpret_cast<Free*>(at - head.offset);
    block->next = arena.free_[head.size_class];
    arena.free_[head.size_class] = block;
    --arena.blocks_;
    arena.bytes_ -= head.bytes;
}

void Arena::reset() {
    used_ = 0;
    blocks_ = 0;
    bytes_ = 0;
    free_.fill(nullptr);
}

}  // namespace coppice::world

// ---------------------------------------------------------------------------------------------- new and delete ---

namespace {

void* take(std::size_t bytes, std::size_t alignment) noexcept {
    using coppice::world::Arena;
    if (Arena::current != nullptr) return Arena::current->allocate(bytes, alignment);
    if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void give_back(void* memory) noexcept {
    using coppice::world::Arena;
    if (memory == nullptr) return;
    if (Arena::of(memory) != nullptr) {
        Arena::release(memory);
    } else {
        std::free(memory);
    }
}

void* take_or_throw(std::size_t bytes, std::size_t alignment) {
    void* const memory = take(bytes, alignment);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

constexpr std::size_t kUsual = alignof(std::max_align_t);

}  // namespace

void* operator new(std::size_t bytes) {
    return take_or_throw(bytes, kUsual);
}
void* operator new[](std::size_t bytes) {
    return take_or_throw(bytes, kUsual);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return take_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
    return take_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    return take(bytes, kUsual);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
    return take(bytes, kUsual);
}
void operator delete(void* memory) noexcept {
    give_back(memory);
}
void operator delete[](void* memory) noexcept {
    give_back(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    give_back(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
    give_back(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
    give_back(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
    give_back(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    give_back(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
    give_back(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
    give_back(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
    give_back(memory);
}
