// Which bootstrap a group uses: the caller's exchange callback if there is one, else the launcher that has started this process.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "bootstrap/bootstrap.hpp"
#include "coppice/coppice.h"

namespace coppice::bootstrap {

// The launchers' names, and "auto".
constexpr bool is_launcher(std::string_view name) {
    return name == "auto" || name == "coppice-run" || name == "pmix" || name == "pmi";
}
inline constexpr std::string_view kLauncherNames = "auto, coppice-run, pmix or pmi";

// Which launcher has started this process, by its variables: one of the names; nullopt: none. COPPICE_ERR_CONFIG with the
// variables of several, unless `wanted` is one of them.
Result<std::optional<std::string_view>> launcher_here(std::string_view wanted);

// `rank` and `size` count with a callback only. `wanted` is COPPICE_BOOTSTRAP. `ranks`: as for Subset::of(); none: all. With neither
// callback nor launcher: COPPICE_ERR_BOOTSTRAP, and the message says how to get either.
Result<std::unique_ptr<Bootstrap>> choose(coppice_exchange_fn exchange, void* argument, Rank rank, std::uint32_t size,
                                          std::string_view wanted, std::uint64_t deadline_ns,
                                          std::span<const std::uint32_t> ranks = {});

}  // namespace coppice::bootstrap
