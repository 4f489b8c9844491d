// Whether the host at the other end of a TCP connection is lost: by what the own kernel says alone, and never because this
// process, or the peer's, did not run. A receiver that is stopped closes its window, or holds no more, and its kernel goes on
// answering; a host that is lost answers nothing.
//
// The kernel's own bound (TCP_USER_TIMEOUT) is no help: it takes a receiver whose window is closed for one that is not there, and
// Linux remembers when it failed to send at all (the own link was down) after it has succeeded again, so that the second interruption
// would end a connection at once.
#pragma once

#include <algorithm>
#include <cstdint>

namespace coppice::transport {

struct Health {
    bool stands = false;  // it is set up, and neither side has begun to end it
    std::uint32_t silence_ms =
        0;                     // for so long the peer's kernel has answered neither data nor a question of keepalive
    bool outstanding = false;  // there is data that it has yet to acknowledge
    std::uint32_t repetitions = 0;  // in a row, of that data or of questions for a window, that nothing came of
    std::uint32_t packets = 0;      // that came, whatever they said
};
Health health_of(int socket);

// An idle connection is asked after from a second of silence on, by the kernel.
void ask_when_idle(int socket);
// For a socket of somebody else's making: it is asked after once in two seconds at least. Silence relies on that, on the own
// kernel's questions and on those of the peer's.
void ask_often_enough(int socket);
// Where the kernel knows of it (Linux 6.15): what was lost is sent again once in a second at least, so that an interruption
// may last a second longer before it looks like a loss.
void repeat_every_second(int socket);
// Closing it resets the connection.
void reset_at_close(int socket);

// Several looks have to find that nothing is acknowledged, and that our kernel has sent it again in vain: between two of them no
// more than 2 * kLookNs count.
class Silence {
  public:
    // Of a connection that stands the library judges, by looks at what the kernel counts, and ends it with a reset. Where only
    // what the peer sends is lost, the peer learns by that, and not by its own silence, which our repetitions would prolong. As much
    // as is promised (4 s) allows: after a cut of a second it leaves the kernel more than a second to repeat what was lost, although on
    // a busy machine the link is up later than its cable, and both hosts have to ask for each other's address first.
    static constexpr std::uint64_t kMostNs = 3'300'000'000;
    static constexpr std::uint64_t kLookNs = 250'000'000;
    // Where nothing is said. The kernel asks by itself, once in a second; a peer that leaves a question open for so long is sent
    // something that has to be acknowledged, and so is looked at like one that is talked to.
    static constexpr std::uint64_t kIdleLookNs = 1'000'000'000;
    static constexpr std::uint32_t kIdleMs = 1300;

    // What may be under way to a peer. `fits`: no more than its kernel is sure to hold. `any`: a stopped one's kernel may drop what
    // it has no room for, without a word or with one that comes no sooner than our kernel repeats itself, in the end after
    // minutes. All that is heard of it meanwhile are its own questions of keepalive, which what we repeat puts off: our kernel may repeat itself
    // more and more seldom, and must not do so once in a second.
    enum class Load : std::uint8_t { fits, any };
    explicit Silence(Load load = Load::fits) : load_(load) {}

    // A look. True: it is silent for too long.
    bool lasts(const Health& health, std::uint64_t now_ns);

  private:
    static constexpr std::uint64_t kTickNs = 20'000'000;  // as exact as the kernel's clock is, at least
    static constexpr std::uint64_t kLeastDoubtNs = 1'250'000'000;
    static constexpr std::uint64_t kLeastUnheardNs = 3'000'000'000;
    static constexpr std::uint32_t kLeastRepetitions = 3;
    Load load_;
    std::uint32_t packets_ = 0;
    std::uint64_t looked_ns_ = 0;
    std::uint64_t doubted_ns_ = 0;
    std::uint64_t unheard_ns_ = 0;
};

// When the connections are looked at next: often while there is talk, or something to be acknowledged; seldom else; never while there
// are none.
class Looks {
  public:
    std::uint64_t next_ns() const { return next_ns_; }
    bool is_due(std::uint64_t now_ns) const { return now_ns >= next_ns_; }
    void hasten(std::uint64_t at_ns) { next_ns_ = std::min(next_ns_, at_ns); }

    // Whether something was said since the last look; the first word of all tells talk().
    bool talks() const { return talks_; }
    void talk(std::uint64_t now_ns) {
        talks_ = true;
        hasten(now_ns + Silence::kLookNs);
    }

    // A look. What is said during it counts for the next one. `is_busy`: something is to be acknowledged, or is being set up.
    void begin() {
        talks_ = false;
        next_ns_ = UINT64_MAX;
    }
    void end(std::uint64_t now_ns, bool is_connected, bool is_busy) {
        if (is_connected) hasten(now_ns + (is_busy ? Silence::kLookNs : Silence::kIdleLookNs));
    }

  private:
    bool talks_ = false;
    std::uint64_t next_ns_ = UINT64_MAX;
};

}  // namespace coppice::transport
