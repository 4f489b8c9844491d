// Sets of positions as bits, and one that is emptied in ascending order.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace coppice::simulation {

class PositionSet {
  public:
    explicit PositionSet(std::uint32_t processes) : words_((std::size_t{processes} + 63) / 64) {}

    bool contains(std::uint32_t position) const { return (words_[position / 64] >> (position % 64) & 1) != 0; }
    void insert(std::uint32_t position) { words_[position / 64] |= std::uint64_t{1} << (position % 64); }
    void clear() { std::fill(words_.begin(), words_.end(), 0); }
    // Positions 64·i … 64·i + 63.
    std::uint64_t word(std::size_t i) const { return words_[i]; }
    std::size_t words() const { return words_.size(); }
    void set_word(std::size_t i, std::uint64_t bits) { words_[i] = bits; }

  private:
    std::vector<std::uint64_t> words_;
};

// Sixty-four positions at once: those of one word.
struct PositionWord {
    std::uint32_t word = 0;
    std::uint64_t bits = 0;
};

constexpr PositionWord word_of(std::uint32_t position) {
    return {position / 64, std::uint64_t{1} << (position % 64)};
}

// A second layer of bits says which words hold any, so that few among a million are found at once.
class Agenda {
  public:
    explicit Agenda(std::uint32_t processes)
        : words_((std::size_t{processes} + 63) / 64), filled_((words_.size() + 63) / 64) {}

    void insert(std::uint32_t position) { insert(word_of(position)); }
    void insert(const PositionWord& positions) {
        std::uint64_t& word = words_[positions.word];
        if (word == 0) filled_[positions.word / 64] |= std::uint64_t{1} << (positions.word % 64);
        word |= positions.bits;
    }

    // Hands every position to `use`, ascending, and is empty then. Those for which it returned true are handed to
    // `chosen` as words. Neither may insert.
    template <class Use, class Chosen>
    void take(Use&& use, Chosen&& chosen) {
        for (std::size_t i = 0; i < filled_.size(); ++i) {
            for (std::uint64_t filled = filled_[i]; filled != 0; filled &= filled - 1) {
                const std::size_t word = i * 64 + static_cast<std::size_t>(std::countr_zero(filled));
                PositionWord yes{static_cast<std::uint32_t>(word), 0};
                for (std::uint64_t bits = words_[word]; bits != 0; bits &= bits - 1) {
                    const auto bit = static_cast<std::uint32_t>(std::countr_zero(bits));
                    yes.bits |= std::uint64_t{use(yes.word * 64 + bit)} << bit;
                }
                words_[word] = 0;
                if (yes.bits != 0) chosen(yes);
            }
            filled_[i] = 0;
        }
    }

    void clear() {
        std::fill(words_.begin(), words_.end(), 0);
        std::fill(filled_.begin(), filled_.end(), 0);
    }

  private:
    std::vector<std::uint64_t> words_;
    std::vector<std::uint64_t> filled_;
};

}  // namespace coppice::simulation
