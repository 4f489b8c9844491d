// What is due at which step: buckets of items, in the order in which they were put there. A calendar's pages are its
// buckets: LogP times are small, so almost everything is due within the next kNear steps and finding a bucket is an
// index.
//
// Buckets are lists of chunks of a few KiB, which a run takes from one pool and gives back: nothing is allocated for an
// item, and in the end memory holds what was under way at once, not what was ever sent.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "simulation/large_array.hpp"
#include "simulation/model.hpp"

namespace coppice::simulation {

template <class Item>
class Calendar {
    static_assert(std::is_trivially_destructible_v<Item>, "items are dropped without ceremony");

    struct Chunk {
        static constexpr std::size_t kItems = sizeof(Item) >= 256 ? 16 : 4080 / sizeof(Item);
        Chunk* next = nullptr;
        std::uint32_t count = 0;
        alignas(Item) std::array<std::byte, kItems * sizeof(Item)> memory;

        void add(const Item& item) { new (&memory[count++ * sizeof(Item)]) Item(item); }
        const Item& operator[](std::uint32_t i) const {
            return *std::launder(reinterpret_cast<const Item*>(&memory[i * sizeof(Item)]));
        }
    };

    struct Bucket {
        Chunk* first = nullptr;
        Chunk* last = nullptr;
    };

  public:
    Calendar() : near_(kNear) {}

    // `time` is behind the last step taken.
    void push(Step time, const Item& item) { open(time)->add(item); }

    // Puts many items into the bucket of one step, without looking it up for each. Nothing else may push for that step,
    // nor may it be taken, as long as this one is in use.
    class Writer {
      public:
        Writer(Calendar& calendar, Step time) : calendar_(calendar), time_(time) {}

        void push(const Item& item) {
            if (chunk_ == nullptr || chunk_->count == Chunk::kItems) [[unlikely]]
                chunk_ = calendar_.open(time_);
            chunk_->add(item);
        }

      private:
        Calendar& calendar_;
        Step time_;
        Chunk* chunk_ = nullptr;
    };

    // The first step at which something is due; kLastStep if nothing is.
    Step next() const {
        Step found = far_.empty() ? kLastStep : far_.begin()->first;
        // Slots in the order of their times: from the one behind the last taken, all the way round.
        const Step start = taken_ + 1;
        for (std::size_t i = 0; i <= kWords; ++i) {
            const std::size_t word = (start % kNear / 64 + i) % kWords;
            std::uint64_t bits = open_[word];
            if (i == 0) bits &= ~std::uint64_t{0} << (start % 64);
            if (i == kWords) bits &= ~(~std::uint64_t{0} << (start % 64));
            if (bits == 0) continue;
            const std::size_t slot = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
            const Step time = start + static_cast<Step>((slot + kNear - start % kNear) % kNear);
            return time < found ? time : found;
        }
        return found;
    }

    // Hands everything that is due at `time`, which is not behind next(), to `use`, which may push for later times.
    template <class Use>
    void take(Step time, Use&& use) {
        taken_ = time;
        if (!far_.empty() && far_.begin()->first == time) {
            const Bucket bucket = far_.begin()->second;
            far_.erase(far_.begin());
            last_far_ = nullptr;
            consume(bucket, use);
        }
        const std::size_t slot = time % kNear;
        const Bucket bucket = std::exchange(near_[slot], Bucket{});
        open_[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
        consume(bucket, use);
    }

    // Forgets everything, and starts again at step 0.
    void clear() {
        for (Bucket& bucket : near_)
            drop(std::exchange(bucket, Bucket{}));
        for (auto& [time, bucket] : far_)
            drop(bucket);
        far_.clear();
        last_far_ = nullptr;
        open_.fill(0);
        taken_ = 0;
    }

  private:
    static constexpr Step kNear = 512;
    static constexpr std::size_t kWords = kNear / 64;
    static constexpr std::size_t kFirstChunks = 4;
    static constexpr std::size_t kMostChunks = (1U << 21) / sizeof(Chunk);

    // A chunk with room for one more.
    Chunk* open(Step time) {
        Bucket* bucket = nullptr;
        if (time - taken_ < kNear) [[likely]] {
            const std::size_t slot = time % kNear;
            open_[slot / 64] |= std::uint64_t{1} << (slot % 64);
            bucket = &near_[slot];
        } else {
            bucket = far_bucket(time);
        }
        if (bucket->last == nullptr || bucket->last->count == Chunk::kItems) [[unlikely]]
            extend(*bucket);
        return bucket->last;
    }

    // Many in a row go to the same one.
    Bucket* far_bucket(Step time) {
        if (last_far_ == nullptr || last_far_time_ != time) {
            last_far_ = &far_[time];
            last_far_time_ = time;
        }
        return last_far_;
    }

    void extend(Bucket& bucket) {
        Chunk* chunk = free_ != nullptr ? std::exchange(free_, free_->next) : new_chunk();
        chunk->next = nullptr;
        chunk->count = 0;
        (bucket.last == nullptr ? bucket.first : bucket.last->next) = chunk;
        bucket.last = chunk;
    }

    // From slabs of twice the size each time, as far as to one huge page. Memory is touched only when it is used.
    Chunk* new_chunk() {
        if (fresh_ == slab_size_) {
            slab_size_ = slabs_.empty() ? kFirstChunks : std::min(2 * slab_size_, kMostChunks);
            slabs_.emplace_back(slab_size_);
            fresh_ = 0;
        }
        return new (&slabs_.back()[fresh_++]) Chunk;
    }

    void give_back(Chunk* chunk) {
        chunk->next = free_;
        free_ = chunk;
    }

    template <class Use>
    void consume(const Bucket& bucket, Use& use) {
        for (Chunk* chunk = bucket.first; chunk != nullptr;) {
            for (std::uint32_t i = 0; i < chunk->count; ++i)
                use((*chunk)[i]);
            Chunk* next = chunk->next;
            give_back(chunk);
            chunk = next;
        }
    }

    void drop(const Bucket& bucket) {
        for (Chunk* chunk = bucket.first; chunk != nullptr;) {
            Chunk* next = chunk->next;
            give_back(chunk);
            chunk = next;
        }
    }

    std::vector<Bucket> near_;
    std::array<std::uint64_t, kWords> open_{};
    std::map<Step, Bucket> far_;
    Bucket* last_far_ = nullptr;
    Step last_far_time_ = 0;
    Step taken_ = 0;
    Chunk* free_ = nullptr;
    std::vector<LargeArray<Chunk>> slabs_;
    std::size_t slab_size_ = 0;  // of the last one, in chunks
    std::size_t fresh_ = 0;      // chunks of the last one that were never used
};

}  // namespace coppice::simulation
