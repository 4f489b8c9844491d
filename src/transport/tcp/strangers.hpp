// Who has connected to this rank and has not proved yet that it belongs to the group.
//
// Bounded in every respect: so many at once, so many bytes each (handshake.hpp), so long. When there is no place the oldest
// goes: a rank that loses its place this way tries again. Nothing is allocated for them.
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
    static constexpr std::uint64_t kPatienceNs = 5'000'000'000;

    explicit Strangers(const Identity& identity) : identity_(identity) {}

    // Takes a connection that was just accepted; returns its place. The one that was there, if any, is closed.
    std::size_t add(Descriptor socket, std::uint64_t now_ns);

    enum class Outcome : std::uint8_t { waits, gone, proven };
    // Something happened at that place's socket. `proven`: take() it.
    Outcome move(std::size_t place);

    struct Proven {
        Descriptor socket;
        Handshake handshake;
    };
    Proven take(std::size_t place);
    int socket(std::size_t place) const { return places_[place] ? places_[place]->socket.get() : -1; }

    // Closes those that had their time.
    void drop_overdue(std::uint64_t now_ns);
    // When the next one has had it; UINT64_MAX: there is none.
    std::uint64_t next_deadline_ns() const;

    // Those that said what no rank says, or nothing in time, or lost their place.
    std::uint64_t garbage() const { return garbage_; }

  private:
    struct Stranger {
        Descriptor socket;
        Handshake handshake;
        std::uint64_t since_ns;
        std::array<std::byte, kLongestStep> bytes;
        std::size_t got = 0;
    };

    Outcome drop(std::size_t place, bool is_garbage);

    const Identity& identity_;
    std::array<std::optional<Stranger>, kMost> places_;
    std::uint64_t garbage_ = 0;
};

}  // namespace coppice::transport::tcp
