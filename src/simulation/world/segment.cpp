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
    pieces_.clear();
}

std::uint64_t Panel::take_bulk(std::size_t bytes) {
    const Within outside(nullptr);
    if (bytes > kBulk) return 0;
    const std::size_t wanted = (bytes + kPage - 1) / kPage * kPage;
    std::uint64_t at = kPage;
    auto before = pieces_.begin();
    for (; before != pieces_.end() && before->at - at < wanted; ++before)
        at = before->at + before->bytes;
    if (at + wanted > kBulk) return 0;
    bulk_.resize(kBulk);
    pieces_.insert(before, {.at = at, .bytes = wanted});
    return at;
}

void Panel::give_bulk_back(std::uint64_t place) {
    std::erase_if(pieces_, [place](const Piece& piece) { return piece.at == place; });
}

std::byte* Panel::bulk(std::uint64_t place, std::size_t bytes) {
    if (place < kPage || place > bulk_.size() || bytes > bulk_.size() - place) return nullptr;
    return bulk_.data() + place;
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
