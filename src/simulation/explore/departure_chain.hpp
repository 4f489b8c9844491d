// What ranks that want to leave wait for, in the explorer of leaving: a chain that stands for the collectives of the engine. Each
// rank says down the chain that it and all above it need nothing more; the lowest says up that all is over.
#pragma once

#include <cstdint>
#include <optional>

#include "base/words.hpp"

namespace coppice::simulation::leaving {

inline constexpr std::uint32_t kNobody = UINT32_MAX;

inline bool has(std::uint32_t bits, std::uint32_t rank) {
    return (bits >> rank & 1) != 0;
}

// A message as a number: of the machine, or of the chain.
struct Message {
    enum Kind : std::uint8_t { farewell, ask, answer, up, over };

    std::uint32_t from;
    std::uint32_t to;
    Kind kind;
    std::uint32_t about = 0;
    bool said_so = false;

    std::uint32_t code() const { return from << 24 | to << 16 | about << 8 | kind << 1 | (said_so ? 1U : 0U); }
    static Message of(std::uint32_t code) {
        return {.from = code >> 24,
                .to = code >> 16 & 0xff,
                .kind = static_cast<Kind>(code >> 1 & 7),
                .about = code >> 8 & 0xff,
                .said_so = (code & 1) != 0};
    }
};

// The chain at one rank: which ranks it knows to be dead, and what it has heard and said.
struct Chain {
    std::uint32_t self = 0;
    std::uint32_t ranks = 0;
    std::uint32_t known_dead = 0;
    std::uint32_t heard_of = 0;  // that they, and all above them, need nothing more
    std::uint32_t said_up_to = kNobody;
    std::uint32_t said_over_to = kNobody;
    bool is_ready = false;
    bool is_over = false;

    std::uint32_t lower() const {
        for (std::uint32_t rank = self; rank-- > 0;)
            if (!has(known_dead, rank)) return rank;
        return kNobody;
    }
    std::uint32_t higher() const {
        for (std::uint32_t rank = self + 1; rank < ranks; ++rank)
            if (!has(known_dead, rank)) return rank;
        return kNobody;
    }
    bool is_complete() const { return is_ready && (higher() == kNobody || has(heard_of, higher())); }

    std::optional<Rank> waits_for() const {
        if (is_over) return std::nullopt;
        if (higher() != kNobody && !has(heard_of, higher())) return Rank(higher());
        return lower() == kNobody ? std::nullopt : std::optional(Rank(lower()));
    }

    std::optional<Message> next_send() {
        if (is_complete() && lower() == kNobody) is_over = true;
        if (is_complete() && !is_over && said_up_to != lower()) {
            said_up_to = lower();
            return Message{.from = self, .to = lower(), .kind = Message::up};
        }
        if (is_over && higher() != kNobody && said_over_to != higher()) {
            said_over_to = higher();
            return Message{.from = self, .to = higher(), .kind = Message::over};
        }
        return std::nullopt;
    }
};

}  // namespace coppice::simulation::leaving
