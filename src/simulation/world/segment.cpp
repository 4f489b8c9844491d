#include "simulation/world/segment.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "simulation/world/arena.hpp"

namespace coppice::world {
namespace {

constexpr std::size_t kPageBase = 14336;  // as shared memory has it
constexpr std::size_t kAlignment = 128;

constexpr std::size_t round_up(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Panels of runs that are over, by window and ranks: their memory is there already.
using Shape = std::pair<std::uint32_t, std::uint32_t>;
std::map<Shape, std::vector<std::unique_ptr<Panel>>>& spare_panels() {
    static std::map<Shape, std::vector<std::unique_ptr<Panel>>> panels;
    return panels;
}

}  // namespace

Panel::Panel(std::uint32_t window, std::uint32_t ranks)
    : lines(window), page_bytes_(round_up(kPageBase + ranks * sizeof(std::uint32_t))) {
    memory_.resize(kAlignment + page_bytes_ + window * transport::kMaxPayload);
    const auto at = reinterpret_cast<std::uintptr_t>(memory_.data());
    page_ = memory_.data() + (kAlignment - at % kAlignment) % kAlignment;
    payloads_ = page_ + page_bytes_;
}

// The bytes of payloads stay: nothing says that they are there.
void Panel::clear() {
    consumed = stable = 0;
    departed = false;
    log.clear();
    std::ranges::fill(lines, Line{});
    std::fill_n(page_, page_bytes_, std::byte{0});
}

void Segment::make(std::uint32_t number) {
    const Within outside(nullptr);
    auto& spare = spare_panels()[{window_, ranks_}];
    if (spare.empty()) spare.push_back(std::make_unique<Panel>(window_, ranks_));
    panels_[number] = std::move(spare.back());
    spare.pop_back();
    panels_[number]->clear();
}

Segment::~Segment() {
    for (auto& panel : panels_)
        if (panel) spare_panels()[{window_, ranks_}].push_back(std::move(panel));
}

}  // namespace coppice::world
