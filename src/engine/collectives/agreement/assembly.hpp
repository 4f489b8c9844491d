// Bodies of agreements that are longer than one message of a transport: they travel in parts.
//
// Only sets of failed ranks are ever that long: 64K ranks of which every second one is dead are 8 KiB. A sender lets the parts of
// one body follow each other, and sends nothing else to that rank in between; each part says how many bytes are still to come.
// So there is at most one unfinished body from each sender, and whatever does not continue it is garbage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/words.hpp"
#include "protocol/failed_set.hpp"

namespace coppice::engine {

// Of which message a part is one.
struct PartOf {
    std::uint8_t kind = 0;
    std::uint64_t sequence = 0;
    bool operator==(const PartOf&) const = default;
};

class Assembly {
  public:
    enum class State : std::uint8_t { whole, unfinished, garbage };
    struct Taken {
        State state;
        std::span<const std::byte> body;  // whole ones: good until the next call
    };

    // Bodies of more than `longest` bytes are garbage.
    explicit Assembly(std::size_t longest) : longest_(longest) {}

    // `rest`: how many bytes follow this part. What comes in one piece is given back as it is, and costs nothing.
    Taken take(Rank from, PartOf message, std::span<const std::byte> part, std::uint32_t rest) {
        if (rest == 0 && unfinished_.empty()) return {State::whole, part};
        return take_part(from, message, part, rest);
    }
    // Nothing more comes from there.
    void forget(Rank from) { unfinished_.erase(from.value); }
    void forget(const protocol::FailedSet& from) {
        std::erase_if(unfinished_, [&from](const auto& one) { return from.contains(one.first); });
    }

  private:
    struct Unfinished {
        PartOf message;
        std::uint32_t rest = 0;
        std::vector<std::byte> body;
    };
    Taken take_part(Rank from, PartOf message, std::span<const std::byte> part, std::uint32_t rest);

    std::size_t longest_;
    std::unordered_map<std::uint32_t, Unfinished> unfinished_;  // by sender
    std::vector<std::byte> whole_;
};

}  // namespace coppice::engine
