// What a rank holds of one broadcast while it is in the window: slot = sequence mod W.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/words.hpp"
#include "engine/collectives/broadcast/machine.hpp"
#include "engine/requests/request.hpp"
#include "engine/router.hpp"
#include "transport/transport.hpp"

namespace coppice::engine {

// What a published line says (transport::PublishedLine::detail).
enum class LineKind : std::uint32_t { payload = 0, root_failed = 1, orphaned = 2, descriptor = 3 };

struct Slot {
    bool engaged = false;
    bool consumed = false;   // the caller has had it (or gave it up)
    bool confirmed = false;  // another rank has named the same root
    bool has_payload = false;
    bool verdict_shown = false;  // the host's other ranks were told that nobody has it
    bool in_place = false;       // `payload` is the caller's registered memory, to be copied before it gets it back
    bool notices_sent = false;   // with `unsent`: its receiver has been told of the deaths that it must know of
    bool listed = false;         // in Group::active_: its machine may have something to say
    Sequence sequence;
    Rank root;
    std::uint32_t length = 0;
    std::uint32_t described = 0;  // kDescribed: `payload` is a descriptor; else 0
    const std::byte* payload = nullptr;
    transport::Buffer kept = 0;  // the landed buffer that `payload` lies in, to be released with the slot
    Link kept_from;  // which transport it belongs to, though another process may have that rank's seat by now
    std::uint32_t in_flight = 0;
    Request* request = nullptr;  // waiting for this broadcast

    // The protocol, where this rank speaks for its node (or somebody took it for the one that does).
    Machine machine;
    std::optional<Envelope> unsent;  // pulled, but the transport had no room
    std::uint64_t began_ns = 0;      // timed algorithms: when the machine was made
    std::uint32_t corrections = 0;   // sent so far
    std::uint64_t next_correction_ns = 0;
};

}  // namespace coppice::engine
