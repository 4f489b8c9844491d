// Raw memory for many items that are walked through again and again: on huge pages where the system has them, since
// with a million machines the look-ups of small pages would cost more than the machines.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

namespace coppice::simulation {

// Items are neither made nor destroyed here: make them in place.
template <class Item>
class LargeArray {
    static_assert(std::is_trivially_destructible_v<Item>);

  public:
    explicit LargeArray(std::size_t size) : items_(allocate(size * sizeof(Item))) {}

    Item& operator[](std::size_t i) { return items_.get()[i]; }
    const Item& operator[](std::size_t i) const { return items_.get()[i]; }

  private:
    static constexpr std::size_t kHugePage = 1U << 21;

    struct Free {
        void operator()(Item* items) const { ::operator delete (items, std::align_val_t{kHugePage}); }
    };

    static Item* allocate(std::size_t bytes) {
        void* memory = ::operator new (bytes, std::align_val_t{kHugePage});
        if (bytes >= kHugePage) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // only a wish
        return static_cast<Item*>(memory);
    }

    std::unique_ptr<Item, Free> items_;
};

}  // namespace coppice::simulation
