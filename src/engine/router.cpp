#include "engine/router.hpp"

#include <algorithm>

namespace coppice::engine {

Router::Router(std::shared_ptr<TransportSet> transport_set, std::vector<Rank> there)
    : transport_set_(std::move(transport_set)), there_(std::move(there)) {}

std::optional<Rank> Router::find_own_rank(Rank there) const {
    const auto at = std::ranges::lower_bound(there_, there);
    if (at == there_.end() || *at != there) return std::nullopt;
    return Rank(static_cast<std::uint32_t>(at - there_.begin()));
}

}  // namespace coppice::engine
