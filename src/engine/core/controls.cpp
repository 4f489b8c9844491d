#include "engine/core/controls.hpp"

#include <algorithm>

namespace coppice::engine {
namespace {

// Room for the control messages of a time without deaths: those of stability, a few nodes at a time.
constexpr std::size_t kControls = 64;

}  // namespace

Controls::Controls(const Surroundings& around, const Members& members) : around_(around), members_(members) {
    kept_.reserve(kControls);
}

void Controls::send(Rank to, Tag tag, std::uint64_t sequence, std::uint32_t detail) {
    if (to == members_.self() || members_.failed(to)) return;
    const GroupId& id = around_.id();
    kept_.push_back(
        {to,
         WireHeader{.token = id.token, .tag = tag, .sequence = sequence, .detail = detail, .epoch = id.epoch.value}});
}

void Controls::flush() {
    const std::size_t count = kept_.size();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
        Control control = kept_[i];
        const Link link = around_.router().to(control.to);
        if (!link || members_.failed(control.to)) continue;
        control.header.stable = passenger_->count();
        std::uint32_t in_flight = 0;  // no payload, so nothing is referred to
        if (link.send(bytes_of(control.header), {}, &in_flight) == transport::SendStatus::again)
            kept_[kept++] = control;
    }
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(kept), kept_.begin() + static_cast<std::ptrdiff_t>(count));
}

bool Controls::wait_for(Rank to) const {
    return std::ranges::find(kept_, to, &Control::to) != kept_.end();
}

}  // namespace coppice::engine
