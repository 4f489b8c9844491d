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
    static constexpr std::align_val_t kSmall{64};

    struct Free {
        std::align_val_t alignment;
        void operator()(Item* items) const { ::operator delete(items, alignment); }
    };
    using Items = std::unique_ptr<Item, Free>;

    // What fills no huge page is not put at the start of one: the system would give, and take back, pages for the gap.
    static Items allocate(std::size_t bytes) {
        const std::align_val_t alignment = bytes < kHugePage ? kSmall : std::align_val_t{kHugePage};
        void* memory = ::operator new(bytes, alignment);
        if (bytes >= kHugePage) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // only a wish
        return Items{static_cast<Item*>(memory), Free{alignment}};
    }

    Items items_;
};

}  // namespace coppice::simulation
