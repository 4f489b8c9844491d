#include "engine/stability.hpp"

#include <algorithm>

namespace coppice::engine {

Stability::Stability(std::uint32_t own_node, std::uint32_t nodes, std::uint64_t step,
                     const protocol::FailedSet& failed_nodes, const std::vector<Rank>& leaders)
    : tree_(*topology::Tree::make({.shape = topology::TreeShape::binomial}, nodes)),
      failed_nodes_(failed_nodes),
      own_node_(own_node),
      nodes_(nodes),
      step_(step),
      reports_(nodes) {
    for (std::uint32_t node = 0; node < leaders.size(); ++node)
        reports_[node].slowest = leaders[node];
    find_relatives();
}

std::uint32_t Stability::live_parent(std::uint32_t node) const {
    for (auto ancestor = tree_.parent(Position(node)); ancestor; ancestor = tree_.parent(*ancestor)) {
        if (!failed_nodes_.contains(ancestor->value)) return ancestor->value;
    }
    std::uint32_t top = 0;
    while (top < node && failed_nodes_.contains(top))
        ++top;
    return top;
}

void Stability::find_relatives() {
    parent_ = live_parent(own_node_);
    children_.clear();
    // Own children, and instead of a dead one its children; the top adopts everybody without a live ancestor.
    std::vector<std::uint32_t> open{own_node_};
    if (is_top()) {
        for (std::uint32_t node = 0; node < own_node_; ++node)
            open.push_back(node);
    }
    while (!open.empty()) {
        const Position node{open.back()};
        open.pop_back();
        for (std::uint32_t i = 0; i < tree_.child_count(node); ++i) {
            const std::uint32_t child = tree_.child(node, i).value;
            if (failed_nodes_.contains(child)) {
                open.push_back(child);
            } else if (child != own_node_) {
                children_.push_back(child);
            }
        }
    }
    std::ranges::sort(children_);
    children_.erase(std::unique(children_.begin(), children_.end()), children_.end());
    // Each of them takes exactly this node for its parent: otherwise two would wait for the same report.
    std::erase_if(children_, [this](std::uint32_t child) { return live_parent(child) != own_node_; });
}

void Stability::set_local(std::uint64_t count, Rank slowest) {
    if (count <= local_.count && slowest == local_.slowest) return;
    local_ = {std::max(count, local_.count), slowest, true};
    settle();
}

void Stability::report(std::uint32_t node, std::uint64_t count, Rank slowest, std::uint64_t child_stable) {
    if (node >= nodes_ || node == own_node_) return;
    if (count >= reports_[node].count) reports_[node] = {count, slowest, true};
    if (child_stable < stable_ && std::ranges::find(downs_, node) == downs_.end()) downs_.push_back(node);
    settle();
}

void Stability::learn_stable(std::uint64_t count) {
    if (count <= stable_) return;
    stable_ = count;
    told_.reset();
    downs_ = children_;
}

void Stability::ask_all_but(std::uint32_t node) {
    asks_ = children_;
    if (!is_top()) asks_.push_back(parent_);
    std::erase(asks_, node);
}

void Stability::want(std::uint64_t count, std::uint32_t node) {
    if (node >= nodes_) return;
    if (count <= stable_) {  // it has not heard of that yet
        if (std::ranges::find(children_, node) != children_.end() && std::ranges::find(downs_, node) == downs_.end())
            downs_.push_back(node);
        return;
    }
    if (count <= wanted_) return;
    wanted_ = count;
    ask_all_but(node);
    report_again_ = !is_top();  // also for the name
    settle();
    if (is_top() && somebody_is_held_up()) downs_ = children_;
}

void Stability::learn_holder(Rank holder) {
    if (told_ == holder) return;
    told_ = holder;
    downs_ = children_;
}

void Stability::node_changed() {
    find_relatives();
    report_again_ = !is_top();
    if (stable_ > 0) downs_ = children_;
    if (somebody_is_held_up()) ask_all_but(own_node_);
    settle();
}

void Stability::settle() {
    Report least = local_;
    for (const std::uint32_t child : children_) {
        if (reports_[child].count < least.count) least = reports_[child];
    }
    const bool another = least.slowest != slowest_;
    slowest_ = least.slowest;
    slowest_is_known_ = least.heard;
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
        const std::uint32_t node = downs_.back();
        downs_.pop_back();
        if (!failed_nodes_.contains(node))
            return Send{.node = node, .count = stable_, .slowest = holder().value_or(slowest_)};
    }
    while (!asks_.empty()) {
        const std::uint32_t node = asks_.back();
        asks_.pop_back();
        if (somebody_is_held_up() && !failed_nodes_.contains(node))
            return Send{.node = node, .count = wanted_, .question = true};
    }
    if (report_again_) {
        report_again_ = false;
        reported_ = std::max(reported_, least_);
        return Send{.node = parent_, .up = true, .count = reported_, .slowest = slowest_};
    }
    return std::nullopt;
}

}  // namespace coppice::engine
