#include "protocol/stability/stability.hpp"

#include <algorithm>

namespace coppice::protocol {

std::string_view to_string(StabilityKind kind) {
    switch (kind) {
        case StabilityKind::up:
            return "up";
        case StabilityKind::down:
            return "down";
        case StabilityKind::ask:
            return "ask";
    }
    return "?";
}

Stability::Stability(const StabilityPlan& plan, Rank self)
    : roster_(*plan.nodes, self),
      tree_(*topology::Tree::make({.shape = topology::TreeShape::binomial}, plan.nodes->count())),
      window_(plan.window),
      patience_(plan.patience),
      faults_(plan.faults),
      step_(plan.window / 2) {
    find_relatives();
}

// ------------------------------------------------------------------------------------------------------- the tree ---

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
    parent_ = live_parent(roster_.own_node());
    children_.clear();
    // Own children, and instead of a dead one its children; the top adopts every node without a live ancestor.
    std::vector<std::uint32_t> open{roster_.own_node()};
    if (is_top()) {
        for (std::uint32_t node = 0; node < roster_.own_node(); ++node)
            open.push_back(node);
    }
    while (!open.empty()) {
        const Position node{open.back()};
        open.pop_back();
        for (std::uint32_t i = 0; i < tree_.child_count(node); ++i) {
            const std::uint32_t child = tree_.child(node, i).value;
            if (failed_nodes_.contains(child)) {
                if (!lacks(kChildrenOfTheDeadAreDropped)) open.push_back(child);
            } else if (child != roster_.own_node()) {
                children_.push_back(child);
            }
        }
    }
    std::ranges::sort(children_);
    children_.erase(std::unique(children_.begin(), children_.end()), children_.end());
    downs_.reserve(children_.size());
    asks_.reserve(children_.size() + 1);
}

// A node has another leader, or none any more: what was sent to it may be lost.
void Stability::relatives_changed() {
    find_relatives();
    report_again_ = !is_top() && (report_again_ || !lacks(kReportIsNotRepeated));
    if (stable_ > 0 && !lacks(kStandInIsNotTold)) tell_children();
    if (somebody_is_held_up()) ask_all_but(roster_.own_node());
    settle();
}

// ---------------------------------------------------------------------------------------------------------- facts ---

void Stability::node_consumed(std::uint64_t count, Rank slowest) {
    if (roster_.single_node()) {
        stable_ = std::max(stable_, count);
        return;
    }
    if (count <= local_.count && slowest.value == local_.slowest) return;
    local_ = {.slowest = slowest.value, .count = std::max(count, local_.count), .heard = true};
    settle();
}

void Stability::learn_stable(std::uint64_t count) {
    if (count <= stable_) return;
    stable_ = count;
    told_ = kNobody;
    tell_children();
}

void Stability::peer_failed(Rank rank) {
    const std::uint32_t node = roster_.nodes().node_of(rank);
    const bool led = roster_.leader(node) == rank.value;
    if (!roster_.lose(rank) || !led) return;
    if (roster_.leader(node) == kNobody) failed_nodes_.insert(node);
    relatives_changed();
}

bool Stability::receive(const StabilityMessage& message) {
    const std::uint32_t ranks = roster_.nodes().ranks();
    if (message.from.value >= ranks || message.from.value == roster_.self() || message.slowest.value >= ranks ||
        roster_.single_node()) {
        return false;
    }
    learn_stable(message.stable);
    const std::uint32_t node = roster_.nodes().node_of(message.from);
    if (message.kind == StabilityKind::down) {
        if (message.stable == stable_) learn_holder(message.slowest.value);
        return true;
    }
    // Nobody starts so much.
    if (message.count > stable_ + window_) return false;
    if (message.kind == StabilityKind::up) {
        report(node, message);
    } else {
        asked(node, message);
    }
    return true;
}

// And others that report here: they may know of a death in between that this node never hears of, because it has heard there that
// the dead one had left.
void Stability::tell_children() {
    downs_ = children_;
    for (const Report& report : reports_)
        if (report.heard && report.node > roster_.own_node()) tell(report.node);
}

void Stability::tell(std::uint32_t child) {
    if (std::ranges::find(downs_, child) == downs_.end()) downs_.push_back(child);
}

// Reports of nodes that are no children (yet) are kept: the death that makes them children may not be known here.
void Stability::report(std::uint32_t node, const StabilityMessage& message) {
    if (node == roster_.own_node()) return;
    Report& known = report_of(node);
    if (message.count >= known.count) known = {node, message.slowest.value, message.count, true};
    if (message.stable < stable_) tell(node);
    settle();
}

// Of a node that has said nothing.
Stability::Report Stability::unheard(std::uint32_t node) const {
    return {.node = node, .slowest = roster_.nodes().members(node).front().value};
}

// Good until the next call.
Stability::Report& Stability::report_of(std::uint32_t node) {
    const auto place = std::ranges::lower_bound(reports_, node, {}, &Report::node);
    if (place != reports_.end() && place->node == node) return *place;
    return *reports_.insert(place, unheard(node));
}

// The parent, or the leader of this node, says which rank holds all up.
void Stability::learn_holder(std::uint32_t holder) {
    if (told_ == holder) return;
    told_ = holder;
    tell_children();
}

void Stability::flush() {
    step_ = 1;
    settle();
}

// Takes up what the subtree has consumed now.
void Stability::settle() {
    Report least = local_;
    for (const std::uint32_t child : children_) {
        const Report& known = report_of(child);
        if (lacks(kCountsOfChildrenAreTrusted) && known.count == 0) continue;
        if (known.count < least.count) least = known;
    }
    const bool named = least.slowest != slowest_ && somebody_is_held_up() && !lacks(kNamesAreNotPassedOn);
    slowest_ = least.slowest;
    slowest_is_known_ = least.heard;
    if (is_top()) {
        if (least.count / step() > stable_ / step()) {
            learn_stable(least.count);
        } else if (named) {
            tell_children();
        }
    } else {
        if (least.count / step() > reported_ / step() || named) report_again_ = true;
        least_ = least.count;
    }
}

// --------------------------------------------------------------------------------------------------------- asking ---

// In a steady run a rank finds room again in no time, so nobody is asked at once.
void Stability::want(std::uint64_t count, Nanoseconds now) {
    if (roster_.single_node()) return;
    if (held_up_at_ != stable_) {
        held_up_at_ = stable_;
        held_up_since_ = now;
        asked_ = kNobody;
    }
    const std::uint32_t leader = roster_.leader(roster_.own_node());
    const bool has_asked = asked_ == leader && asked_for_ >= count;
    if (has_asked || now.value - held_up_since_.value < patience_.value) return;
    asked_ = leader;
    asked_for_ = count;
    if (leader == roster_.self()) {
        want_of(count, roster_.own_node());
    } else {
        ask_leader_ = true;
    }
}

void Stability::asked(std::uint32_t node, const StabilityMessage& message) {
    if (node == roster_.own_node()) {
        if (std::ranges::find(askers_, message.from.value) == askers_.end()) askers_.push_back(message.from.value);
        name_ = kNobody;  // it may have been told of what was stable before
    }
    want_of(message.count, node);
}

// A rank of this node, or of the neighbouring `node`, wants that.
void Stability::want_of(std::uint64_t count, std::uint32_t node) {
    if (count <= stable_) {  // it has not heard of that yet
        if (std::ranges::find(children_, node) != children_.end()) tell(node);
        return;
    }
    if (count <= wanted_) return;
    wanted_ = count;
    if (!lacks(kAsksAreNotPassedOn)) ask_all_but(node);
    report_again_ = !is_top();  // also for the name
    settle();
    if (is_top() && somebody_is_held_up()) tell_children();
}

void Stability::ask_all_but(std::uint32_t node) {
    asks_ = children_;
    if (!is_top()) asks_.push_back(parent_);
    std::erase(asks_, node);
}

std::uint32_t Stability::known_holder() const {
    return is_top() && (slowest_is_known_ || told_ == kNobody) ? slowest_ : told_;
}

std::optional<Rank> Stability::holder() const {
    const std::uint32_t known = leads() ? known_holder() : told_;
    if (known == kNobody) return std::nullopt;
    if (!roster_.gone(known)) return Rank(known);
    const std::uint32_t stand_in = roster_.leader(roster_.nodes().node_of(Rank(known)));
    return stand_in == kNobody ? std::nullopt : std::optional(Rank(stand_in));
}

// ---------------------------------------------------------------------------------------------------------- pulled ---

StabilityMessage Stability::message(StabilityKind kind, std::uint32_t to, std::uint64_t count,
                                    std::uint32_t slowest) const {
    return {.kind = kind,
            .from = Rank(roster_.self()),
            .to = Rank(to),
            .count = count,
            .stable = stable_,
            .slowest = Rank(slowest)};
}

std::optional<StabilityMessage> Stability::next_send() {
    if (roster_.single_node()) return std::nullopt;
    if (leads()) {
        if (const auto next = next_of_tree()) return next;
        return askers_.empty() ? std::nullopt : next_name();
    }
    if (!ask_leader_) return std::nullopt;
    ask_leader_ = false;
    return message(StabilityKind::ask, roster_.leader(roster_.own_node()), asked_for_, 0);
}

std::optional<StabilityMessage> Stability::next_of_tree() {
    while (!downs_.empty()) {
        const std::uint32_t to = roster_.leader(downs_.back());
        downs_.pop_back();
        if (to == kNobody) continue;
        const std::uint32_t known = known_holder();
        return message(StabilityKind::down, to, stable_, known == kNobody ? slowest_ : known);
    }
    while (!asks_.empty()) {
        const std::uint32_t to = roster_.leader(asks_.back());
        asks_.pop_back();
        if (to != kNobody && somebody_is_held_up()) return message(StabilityKind::ask, to, wanted_, 0);
    }
    if (!report_again_) return std::nullopt;
    report_again_ = false;
    reported_ = std::max(reported_, least_);
    return message(StabilityKind::up, roster_.leader(parent_), reported_, slowest_);
}

// Ranks of this node that have asked read in shared memory what is stable, but not which rank holds it up.
std::optional<StabilityMessage> Stability::next_name() {
    const auto known = holder();
    if (!known) return std::nullopt;
    if (known->value != name_) {
        name_ = known->value;
        named_ = 0;
    }
    while (named_ < askers_.size()) {
        const std::uint32_t asker = askers_[named_++];
        if (!roster_.gone(asker)) return message(StabilityKind::down, asker, stable_, name_);
    }
    return std::nullopt;
}

void Stability::append_state(std::vector<std::uint32_t>& words) const {
    const auto add = [&words](const auto& list) {
        for (const std::uint32_t word : list)
            words.push_back(word);
        words.push_back(kNobody);
    };
    const auto number = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
    for (const FailedSet::Interval& interval : roster_.all_gone().intervals())
        words.insert(words.end(), {interval.first, interval.last});
    words.push_back(kNobody);
    add(downs_);
    add(asks_);
    add(askers_);
    for (std::uint32_t node = 0; node < roster_.nodes().count(); ++node) {
        const auto place = std::ranges::lower_bound(reports_, node, {}, &Report::node);
        const Report report = place != reports_.end() && place->node == node ? *place : unheard(node);
        words.insert(words.end(), {number(report.count), report.slowest, report.heard ? 1U : 0U});
    }
    words.insert(words.end(), {number(local_.count), local_.slowest, number(least_), slowest_, number(reported_),
                               number(stable_), number(wanted_), told_, number(held_up_at_), number(asked_for_), asked_,
                               name_, static_cast<std::uint32_t>(named_), number(step_),
                               (report_again_ ? 1U : 0U) | (ask_leader_ ? 2U : 0U) | (slowest_is_known_ ? 4U : 0U)});
}

}  // namespace coppice::protocol
