#include "simulation/world/segment.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "simulation/world/arena.hpp"

namespace coppice::world {
namespace {

// Panels of runs that are over, by window and bytes of regions: their memory is there already.
using Shape = std::pair<std::uint32_t, std::size_t>;
std::map<Shape, std::vector<std::unique_ptr<Panel>>>& spare_panels() {
    static std::map<Shape, std::vector<std::unique_ptr<Panel>>> panels;
    return panels;
}

}  // namespace

Panel::Panel(std::uint32_t window, std::size_t region_bytes) : lines(window), region_bytes_(region_bytes) {
    constexpr std::size_t kAlignment = transport::kRegionAlignment;
    memory_.resize(kAlignment + region_bytes_ + window * transport::kMaxPayload);
    const auto at = reinterpret_cast<std::uintptr_t>(memory_.data());
    regions_ = memory_.data() + (kAlignment - at % kAlignment) % kAlignment;
    payloads_ = regions_ + region_bytes_;
}

// The bytes of payloads stay: nothing says that they are there.
void Panel::clear() {
    consumed = stable = 0;
    departed = false;
    log.clear();
    std::ranges::fill(lines, Line{});
    std::fill_n(regions_, region_bytes_, std::byte{0});
}

void Segment::make(std::uint32_t number) {
    const Within outside(nullptr);
    auto& spare = spare_panels()[{window_, region_bytes_}];
    if (spare.empty()) spare.push_back(std::make_unique<Panel>(window_, region_bytes_));
    panels_[number] = std::move(spare.back());
    spare.pop_back();
    panels_[number]->clear();
}

Segment::~Segment() {
    for (auto& panel : panels_)
        if (panel) spare_panels()[{window_, region_bytes_}].push_back(std::move(panel));
}

}  // namespace coppice::world
