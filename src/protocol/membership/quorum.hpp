// Which members may make the next view without the others (COPPICE_QUORUM).
//
//   certain   more than half of the old view, as far as it speaks, less those that are dead for certain; at exactly half, the side with the
//             lowest of the rest
//   majority  more than half of those of the old view that speak, at exactly half the side with its lowest member
//   any       all that are left, on each side of a cut
//
// Why two sides never both have a quorum, with `certain`: let a root r count the votes Q of a view V, C being dead for
// certain to it, and a later root s those in Q', with C'. A root takes the last votes of the certainly dead for theirs:
// none of C follows s, or r would have given up, so Q' and C share nobody. Were no vote for r known to s, Q and Q' + C'
// would share nobody either. Then Q and Q' would be disjoint parts of V - C - C', each at least half of it: both exactly
// half, C = C', and both with the lowest member of what is left.
#pragma once

#include <cstdint>

#include "protocol/membership/message.hpp"

namespace coppice::protocol {

enum class Quorum : std::uint8_t { certain, majority, any };

// Whether all but the suspected of `members` are enough. `halves`: one half is, too, whichever it is (a fault). `voiceless`: members that
// never speak, and count on neither side.
bool is_quorum(Quorum quorum, std::uint32_t members, const Failures& failures, bool halves = false,
               const FailedSet& voiceless = {});

}  // namespace coppice::protocol
