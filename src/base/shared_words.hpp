// The words that processes or threads share. Each has one of the types below, which says who writes it, who reads it,
// and what is ordered by that. No other file names an order of memory (tests/arrows/check_shared_words.py).
//
// `Memory` is what lies behind a word. Another one, which records accesses or reorders them, needs the members of
// ProcessMemory: a Word with the calls of std::atomic that are made here, and the fences. Its Word has the size of a T,
// because words lie in segments that other processes map. What it knows of a word it keeps by the word's address.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace coppice::shared {

struct ProcessMemory {
    template <class T>
    using Word = std::atomic<T>;
    // What the caller stored before is seen by those that load after an order_all() of their own, and vice versa.
    static void order_all() { std::atomic_thread_fence(std::memory_order_seq_cst); }
    // The caller's loads before it come before those after it.
    static void order_loads() { std::atomic_thread_fence(std::memory_order_acquire); }
    // The compiler moves nothing across: for what interrupts this thread: the kernel, membarrier(2).
    static void order_in_program() { std::atomic_signal_fence(std::memory_order_seq_cst); }
};

// One writer at a time, many readers. A reader that reads a published value sees all that its writer stored before
// publishing it.
template <class T, class Memory = ProcessMemory>
class Published {
  public:
    constexpr explicit Published(T value = T{}) : word_(value) {}
    // The writer.
    void publish(T value) { word_.store(value, std::memory_order_release); }
    T own() const { return word_.load(std::memory_order_relaxed); }
    // A value that carries nothing with it. An order_all() follows.
    void announce(T value) { word_.store(value, std::memory_order_relaxed); }
    void publish_and_wake(T value) {
        publish(value);
        word_.notify_all();
    }
    // Readers.
    T read() const { return word_.load(std::memory_order_acquire); }
    // Until the word holds another value, which has been read then. For threads of the writer's process.
    void wait_while(T value) const { word_.wait(value, std::memory_order_acquire); }

  private:
    typename Memory::template Word<T> word_{};
};

// One writer at a time, many readers. Orders nothing: it is a hint, or the writer publishes another word after it and
// readers read that one first.
template <class T, class Memory = ProcessMemory>
class Relaxed {
  public:
    constexpr explicit Relaxed(T value = T{}) : word_(value) {}
    void set(T value) { word_.store(value, std::memory_order_relaxed); }
    T get() const { return word_.load(std::memory_order_relaxed); }

  private:
    typename Memory::template Word<T> word_{};
};

// Many writers. Each change is one step, and all see the changes in one order. value() orders nothing.
template <class T, class Memory = ProcessMemory>
class Counter {
  public:
    constexpr explicit Counter(T value = T{}) : word_(value) {}
    // Both return the value before.
    T add(T more = 1) { return word_.fetch_add(more, std::memory_order_seq_cst); }
    T subtract(T less = 1) { return word_.fetch_sub(less, std::memory_order_seq_cst); }
    void raise_to(T least) {
        T seen = value();
        while (seen < least && !word_.compare_exchange_weak(seen, least, std::memory_order_seq_cst))
            continue;
    }
    // While nobody else changes it.
    void restart(T value) { word_.store(value, std::memory_order_seq_cst); }
    T value() const { return word_.load(std::memory_order_relaxed); }

  private:
    typename Memory::template Word<T> word_{};
};

// A bit for each of many writers, and one owner that takes them all back. An owner that takes a bit sees all that the
// writer stored before it rang. ring() comes before the writer's next Sleeper::sleeps() in an order that all agree on.
template <class T, class Memory = ProcessMemory>
class Doorbell {
  public:
    void ring(T bits) { word_.fetch_or(bits, std::memory_order_seq_cst); }
    // The owner. is_rung() orders nothing, and take() follows it.
    bool is_rung() const { return word_.load(std::memory_order_relaxed) != 0; }
    T take() { return word_.exchange(0, std::memory_order_acquire); }

  private:
    typename Memory::template Word<T> word_{};
};

// The owner says that it sleeps, and looks once more at the Doorbell before it does. Others ring, then ask whether it
// sleeps. So either it sees the ring or they see that it sleeps. Of those, one alone gets true from wake().
template <class Memory = ProcessMemory>
class Sleeper {
  public:
    void fall_asleep() { word_.store(1, std::memory_order_seq_cst); }
    void stay_awake() { word_.store(0, std::memory_order_relaxed); }
    // The others.
    bool sleeps() const { return word_.load(std::memory_order_seq_cst) != 0; }
    bool wake() { return word_.exchange(0, std::memory_order_seq_cst) != 0; }

  private:
    typename Memory::template Word<std::uint32_t> word_{};
};

// Many writers and readers, off the hot path. All see all changes of all State words in one order.
template <class T, class Memory = ProcessMemory>
class State {
  public:
    constexpr explicit State(T value = T{}) : word_(value) {}
    T get() const { return word_.load(std::memory_order_seq_cst); }
    void set(T value) { word_.store(value, std::memory_order_seq_cst); }
    T exchange(T value) { return word_.exchange(value, std::memory_order_seq_cst); }
    bool replace(T from, T to) { return word_.compare_exchange_strong(from, to, std::memory_order_seq_cst); }
    void insert(T bits) { word_.fetch_or(bits, std::memory_order_seq_cst); }
    void erase(T bits) { word_.fetch_and(static_cast<T>(~bits), std::memory_order_seq_cst); }
    void set_and_wake(T value) {
        set(value);
        word_.notify_all();
    }
    void wait_while(T value) const { word_.wait(value, std::memory_order_seq_cst); }

  private:
    typename Memory::template Word<T> word_{};
};

// A plain word of shared memory that its writer may be overwriting: loaded once, so what is checked is what is used.
template <class T>
T read_once(const T& plain) {
    return std::atomic_ref<T>(const_cast<T&>(plain)).load(std::memory_order_relaxed);
}

// The word of that type which lies there.
template <class Word>
Word& at(std::byte* memory) {
    return *reinterpret_cast<Word*>(memory);
}
template <class Word>
const Word& at(const std::byte* memory) {
    return *reinterpret_cast<const Word*>(memory);
}

}  // namespace coppice::shared
