// The peers that have connected to this rank and have not proved yet that they belong to the group.
//
// Bounded in every respect: so many at once, so many bytes each (handshake.hpp), so long. When there is no place the
// oldest goes. A peer that has to go for lack of place or time is told that this rank is busy: a rank tries again. Time
// counts only while this process looks, and what waits in a socket is read before its time is over. Nothing is
// allocated for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "transport/tcp/descriptor.hpp"
#include "transport/tcp/handshake.hpp"

namespace coppice::transport::tcp {

class Strangers {
  public:
    static constexpr std::size_t kMost = 64;
    static constexpr std::uint64_t kPatienceNs = 5'000'000'000;  // for each step of the handshake
    static constexpr std::uint64_t kLookNs = 500'000'000;

    explicit Strangers(const Identity& identity) : identity_(identity) {}

    // The place that the next one gets. If somebody is there, it was read first: move().
    std::size_t next_place() const;
    // Takes a connection that was just accepted there. The one that was there, if any, is closed.
    void add(std::size_t place, Descriptor socket, std::uint64_t now_ns);

    enum class Outcome : std::uint8_t { waits, gone, departed, proven };
    // Something happened at that place's socket. `proven` and `departed`: take() it.
    Outcome move(std::size_t place);

    struct Proven {
        Descriptor socket;
        Handshake handshake;
    };
    Proven take(std::size_t place);
    int socket(std::size_t place) const { return places_[place] ? places_[place]->socket.get() : -1; }

    // Counts the time since the last look, kLookNs at most. Then those that are overdue() may be read, and be closed.
    void look(std::uint64_t now_ns);
    bool overdue(std::size_t place) const { return places_[place] && places_[place]->age_ns >= kPatienceNs; }
    void drop_overdue(std::size_t place);
    // When look() is due; UINT64_MAX: there is nobody.
    std::uint64_t next_look_ns() const;

    // Those that said what no rank says, or nothing in time, or lost their place.
    std::uint64_t garbage() const { return garbage_; }

  private:
    struct Stranger {
        Descriptor socket;
        Handshake handshake;
        std::uint64_t since_ns;
        std::uint64_t age_ns = 0;  // of this step
        std::array<std::byte, kLongestStep> bytes;
        std::size_t got = 0;
    };

    Outcome drop(std::size_t place, bool is_garbage);
    void send_away(std::size_t place);

    const Identity& identity_;
    std::array<std::optional<Stranger>, kMost> places_;
    std::uint64_t looked_ns_ = 0;
    std::uint64_t garbage_ = 0;
};

}  // namespace coppice::transport::tcp
