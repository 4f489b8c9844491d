// The memory of one simulated rank: what its code allocates comes from here while it runs, and goes with it when it dies.
//
// A program that links this has operators new and delete of its own: with an arena in use they take from that, else from malloc.
// What is freed is overwritten, so that a use after that shows. What is left when a rank has ended in peace is a leak.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace coppice::world {

class Arena {
  public:
    Arena();
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // Null: there is no more. An alignment is a power of two.
    void* allocate(std::size_t bytes, std::size_t alignment);
    static void release(void* memory);
    // Empty again, whatever is in it.
    void reset();
    std::uint64_t blocks() const { return blocks_; }  // in use
    std::uint64_t bytes() const { return bytes_; }

    // The arena whose memory this is; null: none.
    static Arena* of(const void* memory);
    // The one in use, null: malloc's. One thread.
    static Arena* current;

  private:
    static constexpr std::size_t kClasses = 28;
    struct Free {
        Free* next;
    };

    std::byte* base_;
    std::size_t used_ = 0;
    std::uint64_t blocks_ = 0;
    std::uint64_t bytes_ = 0;
    std::array<Free*, kClasses> free_{};  // by logarithm of the size
};

// While one lives, memory comes from that arena; null: from malloc.
class Within {
  public:
    explicit Within(Arena* arena) : before_(Arena::current) { Arena::current = arena; }
    ~Within() { Arena::current = before_; }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

  private:
    Arena* before_;
};

}  // namespace coppice::world
