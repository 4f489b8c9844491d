// Which bootstrap a group uses: the caller's exchange callback if there is one, else the launcher's
// environment.
#pragma once

#include "bootstrap/bootstrap.hpp"
#include "coppice/coppice.h"

namespace coppice::bootstrap {

// `rank` and `size` count with a callback only. With neither callback nor launcher: COPPICE_ERR_BOOTSTRAP,
// and the message says how to get either.
Result<std::unique_ptr<Bootstrap>> choose(coppice_exchange_fn exchange, void* argument, Rank rank, std::uint32_t size,
                                          std::uint64_t deadline_ns);

}  // namespace coppice::bootstrap
