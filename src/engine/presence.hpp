// A process with the witness, if it has one and deaths have to be certain (COPPICE_QUORUM): the program's own, or the launcher.
#pragma once

#include <cstdint>
#include <memory>

#include "bootstrap/presence.hpp"
#include "engine/settings.hpp"

namespace coppice::engine {

class Context;

// Before the others could count on the process. Null: nobody asks.
std::unique_ptr<bootstrap::Presence> make_presence(const Settings& settings, const Context& context,
                                                   std::uint64_t token, bootstrap::Presence::Who self);

}  // namespace coppice::engine
