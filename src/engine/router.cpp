#include "engine/router.hpp"

#include <algorithm>

namespace coppice::engine {

Router::Router(std::shared_ptr<TransportSet> transport_set, std::vector<Seat> there)
    : transport_set_(std::move(transport_set)),
      ranks_(static_cast<std::uint32_t>(there.size())),
      there_(std::move(there)) {
    fill_here();
}

void Router::fill_here() {
    here_.assign(transport_set_->capacity(), Rank(ranks_));
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
        if (there_[rank] != transport_set_->nowhere()) here_[there_[rank].value] = Rank(rank);
}

void Router::give_up(Seat there) {
    const auto rank = rank_at(there);
    if (!rank) return;
    if (there_.empty()) {
        for (std::uint32_t seat = 0; seat < ranks_; ++seat)
            there_.emplace_back(seat);
    }
    there_[rank->value] = transport_set_->nowhere();
    fill_here();
}

bool Router::keeps_batches() const {
    return std::ranges::any_of(wires(), [](const auto& wire) { return wire->capabilities().keeps_batches; });
}

std::optional<Rank> Router::find_rank_at(Seat there) const {
    if (there.value >= here_.size() || here_[there.value].value == ranks_) return std::nullopt;
    return here_[there.value];
}

}  // namespace coppice::engine
