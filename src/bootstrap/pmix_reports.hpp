// Deaths that a server of PMIx reports as events, while this process keeps its session.
#pragma once

#include <cstdint>
#include <memory>

#include "base/error.hpp"
#include "bootstrap/pmix_library.hpp"
#include "bootstrap/reports.hpp"

namespace coppice::bootstrap::pmix {

// listen() is back by then where the server says nothing to whether it tells of deaths: it has two seconds for that.
inline constexpr std::uint64_t kListenTime = 3'000'000'000;

// By the launcher's numbers, of the ranks of `self`'s job, of which there are `size`. The session lasts until the last such object of the
// process has gone; the library counts its users. COPPICE_ERR_BOOTSTRAP, and no session is kept, where the server will not tell of deaths.
// It does not return while the server hangs, so let a Caller call it. The object's end makes its calls
// by one, and takes two seconds at most.
Result<std::unique_ptr<Reports>> listen(const Library& library, const Process& self, std::uint32_t size);

}  // namespace coppice::bootstrap::pmix
