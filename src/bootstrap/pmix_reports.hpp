// Deaths that a server of PMIx reports as events, while this process keeps its session.
#pragma once

#include <cstdint>
#include <memory>

#include "base/error.hpp"
#include "bootstrap/pmix_library.hpp"
#include "bootstrap/reports.hpp"

namespace coppice::bootstrap::pmix {

// By the launcher's numbers, of the ranks of `self`'s job, of which there are `size`. The session lasts until the last such object of the
// process has gone; the library counts its users. COPPICE_ERR_BOOTSTRAP, and no session is kept, where the server will not tell of deaths.
Result<std::unique_ptr<Reports>> listen(const Library& library, const Process& self, std::uint32_t size);

}  // namespace coppice::bootstrap::pmix
