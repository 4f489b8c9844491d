// Failures: how parents and children change (ERA part 4), and which tree an agreement runs on.
//
// A rank keeps, for each tree in use, its parent and children in the repaired tree; agreements only compare.
// What is "discovered dead" may be many at once: a message's whole set is taken in before anything reacts.
#include <algorithm>
#include <bit>
#include <cassert>

#include "protocol/agreement/agreement.hpp"

namespace coppice::protocol {

void Agreement::peer_failed(Rank rank) {
    if (rank.value >= plan_->tree.ranks() || rank.value == self_) return;
    FailedSet one;
    one.insert(rank.value);
    learn(one);
}

void Agreement::peers_failed(const FailedSet& ranks) {
    assert(!ranks.contains(self_));
    if (!ranks.empty() && ranks.intervals().back().last < plan_->tree.ranks()) learn(ranks);
}

void Agreement::learn_silently(const FailedSet& failed) {
    if (!failed_.unite(failed)) return;
    if (trouble_.empty()) trouble_.resize(slots_.size());
    for (View& view : views_)
        refresh(view);
    for (Slot& slot : slots_) {
        if (slot.status != Status::gathering) continue;
        slot.missing = count_missing(slot);
        settle(slot);
    }
}

void Agreement::learn(const FailedSet& failed) {
    if (!failed_.unite(failed)) return;
    if (trouble_.empty()) trouble_.resize(slots_.size());
    for (View& view : views_)
        refresh(view);
    // The oldest first: the sets of later agreements are relative to those of earlier ones.
    const std::uint64_t end = decided_below_ + 2 * std::uint64_t{plan_->window};
    for (std::uint64_t sequence = decided_below_; sequence <= end; ++sequence) {
        if (Slot* slot = find(sequence)) repair(*slot);
    }
}

void Agreement::refresh(View& view) {
    const AgreementTree& tree = this->tree(view);
    view.parent = tree.repaired_parent(failed_, self_);
    view.dead.clear();
    for (std::uint32_t i = 0; i < view.children; ++i) {
        if (failed_.contains(tree.child(self_, i))) view.dead.push_back(i);
    }
    view.live = view.children - static_cast<std::uint32_t>(view.dead.size());
    std::vector<std::uint32_t> before;
    before.swap(view.adopted);
    tree.adopted(failed_, self_, view.adopted);
    view.fresh.clear();
    std::set_difference(view.adopted.begin(), view.adopted.end(), before.begin(), before.end(),
                        std::back_inserter(view.fresh));
}

void Agreement::repair(Slot& slot) {
    const View& view = view_of(slot);
    if (slot.status == Status::broadcasting) {
        if (slot.parent == view.parent) return;
        if (view.parent == kNobody) {
            become_root(slot);
        } else {
            slot.parent = view.parent;
            slot.up_due = true;
            mark(slot);
        }
    } else if (slot.status == Status::gathering) {
        if (slot.asking && !view.fresh.empty()) {
            std::vector<std::uint32_t>& others = trouble(slot).others;
            others.insert(others.end(), view.fresh.begin(), view.fresh.end());
            mark(slot);
        }
        slot.missing = count_missing(slot);
        settle(slot);
    }
}

// All above have died since this rank contributed: what it sent up is lost, or has become a decision that may be known
// below. It gathers again, and asks.
void Agreement::become_root(Slot& slot) {
    slot.status = Status::gathering;
    slot.asking = true;
    slot.up_due = false;
    slot.cursor = 0;
    std::fill_n(bits_of(slot), words_, std::uint64_t{0});
    Trouble& mine = trouble(slot);
    for (Helper& helper : mine.helpers)
        helper.counts = false;
    mine.others = view_of(slot).adopted;
    mine.told = 0;
    slot.missing = count_missing(slot);
    mark(slot);
    settle(slot);
}

// ----------------------------------------------------------------------------------------------- contributors

void Agreement::note_contributor(Slot& slot, std::uint32_t rank) {
    const View& view = view_of(slot);
    if (const auto index = tree(view).child_index(self_, rank)) {
        std::uint64_t& word = bits_of(slot)[*index / 64];
        const std::uint64_t bit = std::uint64_t{1} << (*index % 64);
        if ((word & bit) != 0) return;
        word |= bit;
        if (slot.status == Status::gathering && !failed_.contains(rank)) --slot.missing;
        return;
    }
    std::vector<Helper>& helpers = trouble(slot).helpers;
    const auto place = std::lower_bound(helpers.begin(), helpers.end(), rank,
                                        [](const Helper& h, std::uint32_t r) { return h.rank < r; });
    const bool known = place != helpers.end() && place->rank == rank;
    if (known && place->counts) return;
    if (known) {
        place->counts = true;
    } else {
        helpers.insert(place, Helper{rank, true});
    }
    if (slot.status == Status::gathering && std::binary_search(view.adopted.begin(), view.adopted.end(), rank)) {
        --slot.missing;
    }
}

bool Agreement::has_contributed(const Slot& slot, std::uint32_t rank) const {
    if (const auto index = tree(view_of(slot)).child_index(self_, rank)) {
        return (bits_of(slot)[*index / 64] >> (*index % 64) & 1) != 0;
    }
    const Trouble* mine = find_trouble(slot);
    if (mine == nullptr) return false;
    const auto place = std::lower_bound(mine->helpers.begin(), mine->helpers.end(), rank,
                                        [](const Helper& h, std::uint32_t r) { return h.rank < r; });
    return place != mine->helpers.end() && place->rank == rank && place->counts;
}

std::uint32_t Agreement::count_missing(const Slot& slot) const {
    const View& view = view_of(slot);
    const std::uint64_t* bits = bits_of(slot);
    std::uint32_t contributed = 0;
    for (std::uint32_t word = 0; word * 64 < view.children; ++word)
        contributed += static_cast<std::uint32_t>(std::popcount(bits[word]));
    for (const std::uint32_t index : view.dead)
        contributed -= static_cast<std::uint32_t>(bits[index / 64] >> (index % 64) & 1);
    std::uint32_t missing = view.live - contributed;
    for (const std::uint32_t child : view.adopted)
        missing += has_contributed(slot, child) ? 0 : 1;
    return missing;
}

// ---------------------------------------------------------------------------------------------------- the tree

// Agreement k runs on the tree that follows from what was agreed upon up to k − window: every contributor knows that.
void Agreement::choose_view(Slot& slot) {
    if (slot.sequence >= plan_->window && !trouble_.empty() && plan_->rebalance != Rebalance::never) {
        rebalance(agreed_before(slot.sequence));
    }
    if (slot.view != latest_view_) move_to_view(slot, latest_view_);
}

void Agreement::rebalance(const FailedSet& agreed) {
    if (agreed.count() == checked_failed_) return;
    checked_failed_ = agreed.count();
    const AgreementTree& latest = tree(views_[latest_view_]);
    const bool wanted =
        plan_->rebalance == Rebalance::always ? !latest.excluded().includes(agreed) : latest.is_degenerated(agreed);
    if (!wanted) return;
    FailedSet excluded = latest.excluded();
    excluded.unite(agreed);
    add_view(excluded);
}

// In the place of a tree that no agreement uses any more, if there is one. The latest is in use: by the agreement before
// this one.
void Agreement::add_view(const FailedSet& excluded) {
    std::size_t place = 0;
    const auto is_used = [this, &place] {
        return std::any_of(slots_.begin(), slots_.end(), [this, &place](const Slot& slot) {
            return slot.status != Status::free && slot.sequence >= settled_below_ && slot.view == place;
        });
    };
    while (place < views_.size() && is_used())
        ++place;
    if (place == views_.size()) views_.emplace_back();
    View& view = views_[place];
    view = View{};
    if (!excluded.empty()) {
        auto made = AgreementTree::make(plan_->tree.spec(), plan_->tree.ranks(), plan_->hosts, excluded, plan_->sites);
        assert(made.has_value());
        view.own = std::make_shared<const AgreementTree>(std::move(*made));
    }
    view.children = tree(view).child_count(self_);
    refresh(view);
    const std::uint32_t words = std::max(words_, (view.children + 63) / 64);
    if (words != words_ || bits_.empty()) {
        std::vector<std::uint64_t> bits(slots_.size() * words);
        for (std::size_t slot = 0; slot < slots_.size() && !bits_.empty(); ++slot)
            std::copy_n(bits_.begin() + static_cast<std::ptrdiff_t>(slot * words_), words_,
                        bits.begin() + static_cast<std::ptrdiff_t>(slot * words));
        bits_ = std::move(bits);
        words_ = words;
    }
    latest_view_ = static_cast<std::uint8_t>(place);
}

// Contributions came in before it was known which tree they came along.
void Agreement::move_to_view(Slot& slot, std::uint8_t view) {
    std::vector<std::uint32_t> contributors;
    const View& old = view_of(slot);
    for (std::uint32_t i = 0; i < old.children; ++i) {
        if ((bits_of(slot)[i / 64] >> (i % 64) & 1) != 0) contributors.push_back(tree(old).child(self_, i));
    }
    if (!trouble_.empty()) {
        for (const Helper& helper : trouble(slot).helpers)
            contributors.push_back(helper.rank);
        trouble(slot).helpers.clear();
    }
    std::fill_n(bits_of(slot), words_, std::uint64_t{0});
    slot.view = view;
    for (const std::uint32_t rank : contributors)
        note_contributor(slot, rank);
}

}  // namespace coppice::protocol
