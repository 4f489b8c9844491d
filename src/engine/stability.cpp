#include "engine/stability.hpp"

#include <algorithm>

namespace coppice::engine {

Stability::Stability(std::uint32_t own_site, std::uint32_t sites, std::uint64_t step,
                     const protocol::FailedSet& failed_sites, const std::vector<Rank>& speakers)
    : tree_(*topology::Tree::make({.shape = topology::TreeShape::binomial}, sites)),
      failed_sites_(failed_sites),
      own_site_(own_site),
      sites_(sites),
      step_(step),
      reports_(sites) {
    for (std::uint32_t site = 0; site < speakers.size(); ++site)
        reports_[site].slowest = speakers[site];
    find_relatives();
}

std::uint32_t Stability::live_parent(std::uint32_t site) const {
    for (auto ancestor = tree_.parent(Position(site)); ancestor; ancestor = tree_.parent(*ancestor)) {
        if (!failed_sites_.contains(ancestor->value)) return ancestor->value;
    }
    std::uint32_t top = 0;
    while (top < site && failed_sites_.contains(top))
        ++top;
    return top;
}

void Stability::find_relatives() {
    parent_ = live_parent(own_site_);
    children_.clear();
    // Own children, and instead of a dead one its children; the top adopts everybody without a live ancestor.
    std::vector<std::uint32_t> open{own_site_};
    if (is_top()) {
        for (std::uint32_t site = 0; site < own_site_; ++site)
            open.push_back(site);
    }
    while (!open.empty()) {
        const Position site{open.back()};
        open.pop_back();
        for (std::uint32_t i = 0; i < tree_.child_count(site); ++i) {
            const std::uint32_t child = tree_.child(site, i).value;
            if (failed_sites_.contains(child)) {
                open.push_back(child);
            } else if (child != own_site_) {
                children_.push_back(child);
            }
        }
    }
    std::ranges::sort(children_);
    children_.erase(std::unique(children_.begin(), children_.end()), children_.end());
    // Each of them takes exactly this site for its parent: otherwise two would wait for the same report.
    std::erase_if(children_, [this](std::uint32_t child) { return live_parent(child) != own_site_; });
}

void Stability::set_local(std::uint64_t count, Rank slowest) {
    if (count <= local_.count && slowest == local_.slowest) return;
    local_ = {std::max(count, local_.count), slowest};
    settle();
}

void Stability::report(std::uint32_t site, std::uint64_t count, Rank slowest, std::uint64_t child_stable) {
    if (site >= sites_ || site == own_site_) return;
    if (count >= reports_[site].count) reports_[site] = {count, slowest};
    if (child_stable < stable_ && std::ranges::find(downs_, site) == downs_.end()) downs_.push_back(site);
    settle();
}

void Stability::learn_stable(std::uint64_t count) {
    if (count <= stable_) return;
    stable_ = count;
    told_.reset();
    downs_ = children_;
}

void Stability::ask_all_but(std::uint32_t site) {
    asks_ = children_;
    if (!is_top()) asks_.push_back(parent_);
    std::erase(asks_, site);
}

void Stability::want(std::uint64_t count, std::uint32_t site) {
    if (site >= sites_) return;
    if (count <= stable_) {  // it has not heard of that yet
        if (std::ranges::find(children_, site) != children_.end() && std::ranges::find(downs_, site) == downs_.end())
            downs_.push_back(site);
        return;
    }
    if (count <= wanted_) return;
    wanted_ = count;
    ask_all_but(site);
    report_again_ = !is_top();  // also for the name
    settle();
    if (is_top() && somebody_is_held_up()) downs_ = children_;
}

void Stability::learn_holder(Rank holder) {
    if (told_ == holder) return;
    told_ = holder;
    downs_ = children_;
}

void Stability::site_changed() {
    find_relatives();
    report_again_ = !is_top();
    if (stable_ > 0) downs_ = children_;
    if (somebody_is_held_up()) ask_all_but(own_site_);
    settle();
}

void Stability::settle() {
    Report least = local_;
    for (const std::uint32_t child : children_) {
        if (reports_[child].count < least.count) least = reports_[child];
    }
    const bool another = least.slowest != slowest_;
    slowest_ = least.slowest;
    const std::uint64_t step = somebody_is_held_up() ? 1 : step_;
    if (is_top()) {
        if (least.count / step > stable_ / step) {
            learn_stable(least.count);
        } else if (another && somebody_is_held_up()) {
            downs_ = children_;
        }
    } else {
        if (least.count / step > reported_ / step || (another && somebody_is_held_up())) report_again_ = true;
        least_ = least.count;
    }
}

std::optional<Stability::Send> Stability::next_send() {
    while (!downs_.empty()) {
        const std::uint32_t site = downs_.back();
        downs_.pop_back();
        if (!failed_sites_.contains(site))
            return Send{.site = site, .count = stable_, .slowest = holder().value_or(slowest_)};
    }
    while (!asks_.empty()) {
        const std::uint32_t site = asks_.back();
        asks_.pop_back();
        if (somebody_is_held_up() && !failed_sites_.contains(site))
            return Send{.site = site, .count = wanted_, .question = true};
    }
    if (report_again_) {
        report_again_ = false;
        reported_ = std::max(reported_, least_);
        return Send{.site = parent_, .up = true, .count = reported_, .slowest = slowest_};
    }
    return std::nullopt;
}

}  // namespace coppice::engine
