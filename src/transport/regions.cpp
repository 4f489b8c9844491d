#include "transport/regions.hpp"

#include <algorithm>

namespace coppice::transport {
namespace {

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

Regions::Regions(std::span<const Region> declared) {
    for (const Region& region : declared) {
        const std::size_t at = round_up(bytes_, region.alignment);
        all_.push_back({std::string(region.name), {at, region.bytes}});
        bytes_ = at + region.bytes;
    }
    bytes_ = round_up(bytes_, kRegionAlignment);
}

Regions::Place Regions::find(std::string_view name) const {
    const auto found = std::ranges::find(all_, name, &Named::name);
    return found == all_.end() ? Place{} : found->place;
}

std::string_view Regions::name_at(std::size_t at) const {
    for (const Named& region : all_)
        if (at >= region.place.at && at - region.place.at < region.place.bytes) return region.name;
    return {};
}

}  // namespace coppice::transport
